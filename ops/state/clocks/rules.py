"""Shows which rules partitions follow, and moves a log on to newer ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.tables.system import FIRST_RULES, NO_SKIPS, RULES, Skips
from engine.values.numbers import parse_int
from ingest.applying.batches.decoding import decode_batch
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state.clocks.guard import bound_clock
from ops.state.log_records import records_between
from ops.state.opening.directories import partition_path, reading
from slotlog.clock import now_ms
from slotlog.events import encode
from slotlog.log import Entry, Log, open_log

_WHOLE_RECORDS_MAX: Final = 1_000_000
"""A log without a state is read from its first record to learn its rules, if that takes no more than seconds."""


class Followed(NamedTuple):
    """The rules that the state of a partition follows at its position."""

    partition: int
    rules: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of `move_on` in one partition.

    Attributes:
        partition: its number.
        rules: what it follows behind all that was looked at; None: not known.
        offset: of the event from which on it follows them; None: not known.
        event_offset: of the event that was appended; None: none was, as it follows these rules already.
    """

    partition: int
    rules: int | None
    offset: int | None
    event_offset: int | None


@dataclass(slots=True)
class _Known:
    """What a partition follows before `next_offset`, from `since` on where that is known."""

    partition: int
    rules: int
    next_offset: int
    skips: Skips = NO_SKIPS
    since: int | None = None


def rules_of(settings: Settings, partitions: Sequence[int]) -> list[Followed]:
    """What the states of some partitions follow.

    Raises:
        As `reading`.
    """
    found = []
    for partition in partitions:
        with reading(settings, partition) as (_, machine):
            position = machine.position
            found.append(Followed(partition, position.rules, position.next_offset))
    return found


async def move_on(settings: Settings, number: int) -> list[Moved]:
    """Append the event that asks for rules to each partition that does not follow them yet, all at once.

    What a partition follows is known from its state in --data and what the log has behind that.

    Returns:
        One of each partition. Where others have moved it on in the same moment, its rules may be newer than `number`:
        the event is rejected there.

    Raises:
        ConfigError: this slotlog does not know these rules, or a partition follows newer ones; nothing was appended.
        LogMismatchError, LogUnavailableError, AppendUncertainError: as `Log.append`. Others: as `reading`.
    """
    if not 1 <= number <= RULES:
        raise ConfigError(f"rules {number} are not known to this slotlog, which knows 1 to {RULES}")
    bound_clock(settings)
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    await log.start()
    try:
        known = [await _known(settings, log, partition) for partition in range(settings.partitions)]
        _refuse_newer(known, number)
        event, time_ms = encode("RULES", [number]), now_ms()
        there = [each is not None and each.rules == number for each in known]
        entries = [Entry(partition, None, event, time_ms) for partition, is_there in enumerate(there) if not is_there]
        offsets = {each.partition: each.offset for each in (await log.append(entries) if entries else ())}
        return [await _moved(log, each, partition, number, offsets) for partition, each in enumerate(known)]
    finally:
        await log.close()


async def _known(settings: Settings, log: Log, partition: int) -> _Known | None:
    """What a partition follows at the log's end; None: nobody here knows."""
    begin, end = await log.begin_offset(partition), await log.end_offset(partition)
    if partition_path(settings.data, partition).is_dir():
        with reading(settings, partition) as (_, machine):
            position = machine.position
            known = _Known(partition, position.rules, position.next_offset, position.skips)
    elif end <= _WHOLE_RECORDS_MAX:
        known = _Known(partition, FIRST_RULES, 0)
    else:
        return None
    if known.next_offset < begin:  # what was cut off the log may have moved it on
        return None
    await _read_on(log, known, end)
    return known


async def _read_on(log: Log, known: _Known, end: int) -> None:
    """Take into `known` what the log has before `end`."""
    begin = known.next_offset
    with progress("rules", max(0, end - begin), "events") as advance:
        async for records in records_between(log, known.partition, begin, end):
            skipped = known.skips.within(known.next_offset, records)
            for offset, _, name, args, *_ in decode_batch(records):
                if name != b"RULES" or len(args) != 1 or offset in skipped:
                    continue
                asked = parse_int(args[0])
                if asked is not None and asked > known.rules:
                    known.rules, known.since = asked, offset
            if records:
                known.next_offset = records[-1][0] + 1
                advance(known.next_offset - begin)
    known.next_offset = max(begin, end)


def _refuse_newer(known: Sequence[_Known | None], number: int) -> None:
    newer = [each for each in known if each is not None and each.rules > number]
    if newer:
        listed = "; ".join(f"partition {each.partition} follows rules {each.rules} already" for each in newer)
        raise ConfigError(f"{listed}: there is no way back to rules {number}. Nothing was appended")


async def _moved(log: Log, known: _Known | None, partition: int, number: int, offsets: dict[int, int]) -> Moved:
    """What became of a partition, and of the event that was appended to it if there is one."""
    event_offset = offsets.get(partition)
    if known is None:
        return Moved(partition, None, None, event_offset)
    if event_offset is not None:  # others may have appended one in between
        await _read_on(log, known, event_offset + 1)
    return Moved(partition, known.rules, known.since, event_offset)

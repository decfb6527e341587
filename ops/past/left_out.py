"""Chooses events to leave out of a replay: by their offsets, or by what they say of themselves.

    120   120-129   1:120-129         offsets, of partition 1 where there are several
    FIELD=VALUE[,FIELD=VALUE…]        all of these hold
        key=PATTERN                   the event names a key like that
        command=NAME                  it is that command, or a transaction that has it
        id=PATTERN                    its idempotency key is like that
        meta.NAME=PATTERN             its producer has said so
        time=FROM..TO                 from the first moment to before the second; one of the two may be left out

A pattern is one of KEYS. A comma in a value is written `?`.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.apply.machine import Record
from engine.commands.registry import keys_of
from engine.tables.system import Skips
from engine.values.glob import key_matcher
from ingest.applying.batches.decoding import decode_batch
from ops.config import ConfigError, Settings
from ops.past.history import meta_of
from ops.progress import progress
from ops.state.log_records import records_between
from ops.state.rebuilding.replay_plan import Until, beyond_end, ends_of, opened, parse_until
from slotlog.shared.errors import EventError

if TYPE_CHECKING:
    from slotlog.log import Log

RANGES_MAX: Final = 10_000
"""A state keeps them as decisions, and looks through them at each batch."""

_OFFSETS: Final = re.compile(r"(?:([0-9]{1,9}):)?([0-9]{1,18})(?:-([0-9]{1,18}))?")

Condition = Callable[[Record, bytes | None], bool]
"""Whether it holds of an event; the second argument is its record's value."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Events of which any of some texts holds.

    Attributes:
        ranges: (partition, begin, end) of offsets.
        filters: each one the conditions of a text, all of which hold of an event.
    """

    ranges: Sequence[tuple[int, int, int]]
    filters: Sequence[Sequence[Condition]]

    def has(self, partition: int, record: Record, value: bytes | None) -> bool:
        """Whether an event is one of them."""
        if any(each == partition and begin <= record[0] < end for each, begin, end in self.ranges):
            return True
        return any(all(holds(record, value) for holds in conditions) for conditions in self.filters)


def parse_choice(texts: Sequence[str], partitions: int) -> Choice:
    """The choice that these texts make, as the module's docstring says.

    Raises:
        ConfigError: a text is none of them, or names offsets without a partition where there are several.
    """
    ranges, filters = [], []
    for text in texts:
        match = _OFFSETS.fullmatch(text)
        if match is None:
            filters.append([_condition(each, text) for each in text.split(",")])
            continue
        partition = int(match[1] or 0)
        if partition >= partitions or (match[1] is None and partitions > 1):
            raise ConfigError(f"--without {text!r}: say which partition, 0 to {partitions - 1}, as in 1:120-129")
        begin, end = int(match[2]), int(match[3] or match[2]) + 1
        if begin >= end:
            raise ConfigError(f"--without {text!r}: the last offset lies before the first one")
        ranges.append((partition, begin, end))
    return Choice(ranges, filters)


def _condition(text: str, whole: str) -> Condition:
    field, equals, value = text.partition("=")
    if equals and field == "time":
        return _in_time(value, whole)
    if equals and field == "command":
        name = os.fsencode(value).upper()
        return lambda record, _: any(command == name for command, _ in _commands(record)) or record[2] == name
    matches = key_matcher(os.fsencode(value))
    if equals and field == "key":
        return lambda record, _: any(matches(key) for command in _commands(record) for key in _keys(*command))
    if equals and field == "id":
        return lambda record, _: record[5] is not None and matches(record[5])
    if equals and field.startswith("meta."):
        name = os.fsencode(field.removeprefix("meta."))
        return lambda _, raw: (said := _meta(raw, name)) is not None and matches(said)
    raise ConfigError(
        f"--without {whole!r} is neither offsets (120, 120-129) nor FIELD=VALUE, with a field of key, command, id,"
        " meta.NAME and time"
    )


def _in_time(value: str, whole: str) -> Condition:
    first, dots, last = value.partition("..")
    moments = [parse_until(each or None, f"--without {whole!r}:") for each in (first, last)]
    if not dots or any(each.offset is not None for each in moments):
        raise ConfigError(f"--without {whole!r}: a time is FROM..TO, each ISO 8601, or @ and ms since 1970")
    begin, end = (each.time_ms for each in moments)
    return lambda record, _: (begin is None or record[1] >= begin) and (end is None or record[1] < end)


def _commands(record: Record) -> Sequence[tuple[bytes, list[bytes]]]:
    if record[2] == b"EXEC":
        return [(name.upper(), args) for name, *args in record[3]]
    return [(record[2], record[3])]


def _keys(name: bytes, args: list[bytes]) -> list[bytes]:
    try:
        return keys_of(name, args)
    except EventError:  # it is a dead letter
        return []


def _meta(value: bytes | None, name: bytes) -> bytes | None:
    """What a producer has said under a name, as bytes."""
    meta: Any = meta_of(value)
    said = meta.get(name) if isinstance(meta, dict) else None
    return said if isinstance(said, bytes) else None if said is None else str(said).encode()


async def chosen(settings: Settings, partition: int, choice: Choice, until: Until) -> Skips:
    """The offsets of a partition that a choice leaves out, of what the log still has before `until`.

    Raises:
        ConfigError: `until` lies beyond the log's end; the choice names offsets that are not there before `until`; or
            they are too many pieces.
        Others: as `Reader.fetch`.
    """
    log = opened(settings)
    await log.start()
    try:
        begin = await log.begin_offset(partition)
        end = (await ends_of(log, (partition,), until))[partition]
        asked = sorted((first, last) for each, first, last in choice.ranges if each == partition)
        _refuse_missing(asked, partition, begin, end, await log.end_offset(partition))
        if not choice.filters:
            return Skips(_merged(asked))
        found: list[tuple[int, int]] = []
        with progress("filter", end - begin, "events") as advance:
            async for offset in _offsets(log, partition, choice, begin, end):
                if found and found[-1][1] == offset:
                    found[-1] = (found[-1][0], offset + 1)
                    continue
                if len(found) == RANGES_MAX:
                    raise ConfigError(
                        f"--without leaves out more than {RANGES_MAX} pieces of the log before offset {offset}:"
                        " choose fewer events"
                    )
                found.append((offset, offset + 1))
                advance(offset - begin)
        return Skips(found)
    finally:
        await log.close()


def _refuse_missing(ranges: Sequence[tuple[int, int]], partition: int, begin: int, end: int, log_end: int) -> None:
    """Refuse offsets that are not there: that nothing is left out must not look as if they had changed nothing."""
    if not ranges:
        return
    first, last = ranges[0][0], max(last for _, last in ranges) - 1
    if first < begin:
        raise ConfigError(
            f"partition {partition} of the log begins at offset {begin}, so offset {first} cannot be left out any more"
        )
    if last >= log_end:
        raise ConfigError(beyond_end(last, log_end))
    if last >= end:
        raise ConfigError(f"offset {last} cannot be left out: what is rebuilt ends before offset {end}")


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ascending ranges, those that overlap as one."""
    last: tuple[int, int] | None = None
    for begin, end in ranges:
        if last is not None and begin <= last[1]:
            last = (last[0], max(last[1], end))
            continue
        if last is not None:
            yield last
        last = (begin, end)
    if last is not None:
        yield last


async def _offsets(log: Log, partition: int, choice: Choice, begin: int, end: int) -> AsyncIterator[int]:
    async for records in records_between(log, partition, begin, end):
        for record, raw in zip(decode_batch(records), records, strict=True):
            if choice.has(partition, record, raw[3]):
                yield record[0]

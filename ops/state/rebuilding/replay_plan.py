"""Plans a replay: where it ends in each partition, and what it takes over from the live state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from engine.errors import CorruptionError, StateMismatchError
from engine.store.store import Changes
from engine.tables.system import NO_SKIPS, Retimes, Skips, retime_changes, skip_changes
from ops.config import ConfigError, Settings
from ops.state.clocks.guard import decided
from ops.state.opening.directories import partition_path, reading
from slotlog.log import Log, open_log

if TYPE_CHECKING:
    from slotlog.log.embedded.embedded_log import EmbeddedLog
    from slotlog.log.kafka.kafka_log import KafkaLog

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Until:
    """The end of a replay: an offset, a time, the place where the live state stands, or the log's end."""

    offset: int | None = None
    time_ms: int | None = None
    at_live: bool = False


@dataclass(frozen=True, slots=True)
class Live:
    """The state of one partition in --data, as it was before the replay; `note` says why it cannot be used."""

    skips: Skips = NO_SKIPS
    note: str = ""
    retimes: Retimes = ()
    next_offset: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """The first records of a partition, where a snapshot stands for them: gone from the log, or left out.

    Attributes:
        begin: the first offset that the log has.
        end: the offset to end before.
        time_ms: the time to end before; None: any.
    """

    partition: int
    begin: int
    end: int
    time_ms: int | None


Start = Callable[[Settings, Gap], int]
"""Puts a state into the directory of the new one, for a replay to go on from. Gives the offset before which it has
applied everything. Raises ConfigError."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The replay of one partition, as planned.

    Attributes:
        start: the offset to begin with; 0: in an empty state.
        end: the offset to end before.
        gap: what a snapshot stands for; None: all is applied from the log.
        skips: (begin, end) of records to go past, by decision of an operator.
        retimes: decisions on the times of records.
    """

    partition: int
    start: int
    end: int
    gap: Gap | None
    skips: tuple[tuple[int, int], ...]
    retimes: Retimes
    live: Live

    def prepared(self) -> Iterator[Changes]:
        """The batches that the new state begins with.

        A decision that reaches over the end is cut there, so that the replay ends at it.
        """
        for begin, last in self.skips:
            if begin < self.end < last:
                yield skip_changes(begin, self.end)
                yield skip_changes(self.end, last)
            else:
                yield skip_changes(begin, last)
        for decision in self.retimes:
            yield retime_changes(*decision)


def parse_until(text: str | None, option: str = "--until") -> Until:
    """`120` is an offset; `@1358208000000` (ms since 1970) and `2013-01-15T00:00:00Z` (ISO 8601) are times.

    A time that does not say where it holds is one of UTC.

    Raises:
        ConfigError: none of them.
    """
    if text is None:
        return Until()
    number = re.fullmatch(r"(@?)([0-9]+)", text)
    if number is not None:
        return Until(time_ms=int(number[2])) if number[1] else Until(offset=int(number[2]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} {text!r} is neither an offset nor an ISO 8601 time nor @MILLISECONDS") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Until(time_ms=round(moment.timestamp() * 1000))


async def plan(
    settings: Settings, until: Until, skips: Sequence[tuple[int, int, int]], *, from_snapshot: bool = False
) -> list[PartitionPlan]:
    """The plan of every owned partition.

    Args:
        settings: the log, and the live state.
        until: where to end.
        skips: (partition, begin, end) of records to go past, beside those that the live state goes past.
        from_snapshot: leave out what a snapshot has, also where the log has all of it.

    Raises:
        ConfigError: `until` or `skips` lie beyond the log's end.
    """
    live = {partition: _look_at(settings, partition) for partition in settings.owned}
    log = opened(settings)
    await log.start()
    try:
        begins = {partition: await log.begin_offset(partition) for partition in settings.owned}
        ends = await ends_of(log, settings.owned, until)
        if until.at_live:
            ends.update({each: min(ends[each], state.next_offset) for each, state in live.items() if not state.note})
    finally:
        await log.close()
    _check_skips(skips, ends)
    return [
        PartitionPlan(
            partition,
            0,
            end,
            Gap(partition, begins[partition], end, until.time_ms) if begins[partition] or from_snapshot else None,
            (*live[partition].skips, *(_skips_of(partition, skips))),
            tuple(sorted({*live[partition].retimes, *decided(settings.data, partition)})),
            live[partition],
        )
        for partition, end in ends.items()
    ]


def opened(settings: Settings) -> EmbeddedLog | KafkaLog:
    """The log of a replay, not started yet: one that is there."""
    return open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )


def _look_at(settings: Settings, partition: int) -> Live:
    if not partition_path(settings.data, partition).is_dir():
        return Live(note=f"{settings.data} has no state of it")
    try:
        with reading(settings, partition) as (_, machine):
            position = machine.position
            return Live(position.skips, retimes=position.retimes, next_offset=position.next_offset)
    except (ConfigError, CorruptionError, StateMismatchError, OSError) as error:
        logger.warning("live_state_unused", partition=partition, reason=str(error), hint="its skips are not taken over")
        return Live(note=str(error))


async def ends_of(log: Log, partitions: Sequence[int], until: Until) -> dict[int, int]:
    """The offset of each partition before which `until` lies, or the log's end.

    Raises:
        ConfigError: `until` lies beyond the log's end.
    """
    ends = {partition: await log.end_offset(partition) for partition in partitions}
    if until.offset is not None:
        if until.offset > max(ends.values()):
            said = beyond_end(until.offset, max(ends.values()))
            raise ConfigError(f"{said}; a time in milliseconds is written @{until.offset}")
        return {partition: min(end, until.offset) for partition, end in ends.items()}
    if until.time_ms is not None:
        for partition, end in ends.items():
            at = await log.offset_at(partition, until.time_ms)
            ends[partition] = end if at is None else min(end, at)
    return ends


def beyond_end(offset: int, end: int) -> str:
    """What to say of an offset that the log, which ends at `end`, does not have yet."""
    return f"offset {offset} is beyond the log's end at offset {end}"


async def refuse_beyond_end(settings: Settings, partition: int, offset: int) -> None:
    """Refuse to begin with an offset that the log does not have yet. Its end is one to begin with.

    Raises:
        ConfigError: it lies beyond the log's end.
    """
    log = opened(settings)
    await log.start()
    try:
        end = await log.end_offset(partition)
    finally:
        await log.close()
    if offset > end:
        raise ConfigError(beyond_end(offset, end))


def _check_skips(skips: Sequence[tuple[int, int, int]], ends: Mapping[int, int]) -> None:
    for partition, *each in skips:
        (text,) = Skips([(each[0], each[1])]).texts()
        if partition not in ends:
            raise ConfigError(f"--skip {partition}:{text}: partition {partition} is not one of those to rebuild")
        if each[1] > ends[partition]:
            raise ConfigError(f"--skip {partition}:{text}: the replay ends before offset {ends[partition]}")


def _skips_of(partition: int, skips: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    return ((begin, end) for each, begin, end in skips if each == partition)

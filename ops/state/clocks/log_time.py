"""Shows and corrects the clocks of a log's partitions beside a running service: `slotlog clock`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from ops.config import ConfigError, Settings
from ops.state.clocks.guard import bound_clock, decide, latest_ms
from ops.state.opening.directories import reading
from slotlog.clock import WALL
from slotlog.events import encode
from slotlog.log import Entry, Log, open_log
from slotlog.shared.limits import TIME_MS_MAX

_FETCH_WAIT_MS: Final = 5000


@dataclass(frozen=True, slots=True)
class LogTime:
    """The time of one partition.

    Attributes:
        clock_ms: where its clock stands, as its state says.
        ahead_ms: how far that is ahead of the wall clock; 0 or less: it is not.
        next_offset, end_offset: the first record that is not applied, and the end of the log.
        held_ms: the time of that record, if it lies so far in the future that it is held; else 0.
    """

    partition: int
    clock_ms: int
    ahead_ms: int
    next_offset: int
    end_offset: int
    held_ms: int


@dataclass(frozen=True, slots=True)
class SetBack:
    """The result of correcting a partition's clock.

    Attributes:
        to_ms: the time that was given.
        from_ms: where the clock stood, if an event sets it back; else 0.
        offset: of that event; -1: there is none.
        retimed: the first and the last offset of records that have that time at the latest; None: of none.
        ahead_ms: how far ahead of the wall clock the log dates that event, where that is further than a record may
            be: the clock that dates the log's records is still wrong; else 0.
    """

    partition: int
    to_ms: int
    from_ms: int = 0
    offset: int = -1
    retimed: tuple[int, int] | None = None
    ahead_ms: int = 0


async def log_times(settings: Settings) -> list[LogTime]:
    """The time of every owned partition.

    Raises:
        ConfigError, LogUnavailableError, LogMismatchError: no state, or no log.
    """
    async with _opened(settings) as log:
        return [await _log_time(settings, log, partition) for partition in settings.owned]


async def accept(settings: Settings, partition: int) -> tuple[int, int]:
    """Decide that records that are held are right. Returns the first and the last offset of those that may pass.

    Raises:
        ConfigError: none is held. And as `log_times`.
    """
    async with _opened(settings) as log:
        seen = await _log_time(settings, log, partition)
    if not seen.held_ms:
        raise ConfigError(f"partition {partition} holds no record: there is nothing to accept")
    decide(settings.data, partition, seen.next_offset, seen.end_offset, TIME_MS_MAX)
    return seen.next_offset, seen.end_offset - 1


async def set_back(settings: Settings, partition: int, to_ms: int | None = None) -> SetBack:
    """Set a partition's time right: its clock if that is ahead of `to_ms`, records that are held, the embedded log's.

    Args:
        settings: log and state.
        partition: which one.
        to_ms: the time; None: now.

    Raises:
        ConfigError: nothing of it is ahead of that time, or the state is behind the log. And as `log_times`.
        TimeAheadError: the time is ahead of the wall clock itself.
    """
    to_ms = WALL.now_ms() if to_ms is None else to_ms
    WALL.refuse_ahead(to_ms)
    async with _opened(settings) as log:
        seen = await _log_time(settings, log, partition)
        if seen.clock_ms <= to_ms and not seen.held_ms:
            raise ConfigError(
                f"the clock of partition {partition} stands at {seen.clock_ms} ms, no later than {to_ms}, and no record"
                " is held: there is nothing to set"
            )
        if seen.next_offset < seen.end_offset and not seen.held_ms:
            raise ConfigError(
                f"partition {partition} is {seen.end_offset - seen.next_offset} events behind the log: wait until it"
                " has applied them, and say it again"
            )
        args = [seen.clock_ms, to_ms]
        entries = [Entry(partition, None, encode("SETCLOCK", args), to_ms)] if seen.clock_ms > to_ms else []
        positions = await log.set_time_back(partition, to_ms, entries)
        end = await log.end_offset(partition)
    retimed = None
    if seen.held_ms:
        decide(settings.data, partition, seen.next_offset, end, to_ms)
        retimed = seen.next_offset, end - 1
    if not positions:
        return SetBack(partition, to_ms, retimed=retimed)
    (position,) = positions
    ahead_ms = position.time_ms - WALL.now_ms() if position.time_ms > latest_ms() else 0
    return SetBack(partition, to_ms, seen.clock_ms, position.offset, retimed, ahead_ms)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Log]:
    bound_clock(settings)
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    await log.start()
    try:
        yield log
    finally:
        await log.close()


async def _log_time(settings: Settings, log: Log, partition: int) -> LogTime:
    with reading(settings, partition) as (_, machine):
        position = machine.position
    end = await log.end_offset(partition)
    ahead_ms = position.clock_ms - WALL.now_ms()
    time_ms = await _next_time(log, partition, position.next_offset) if position.next_offset < end else 0
    decided = any(begin <= position.next_offset < until for begin, until, _ in position.retimes)
    held = max(position.clock_ms, latest_ms()) < time_ms <= TIME_MS_MAX and not decided
    return LogTime(partition, position.clock_ms, ahead_ms, position.next_offset, end, time_ms if held else 0)


async def _next_time(log: Log, partition: int, offset: int) -> int:
    """The time of the first record from `offset` on; 0 where none comes."""
    reader = log.reader({partition: offset})
    try:
        fetched = await reader.fetch(_FETCH_WAIT_MS, 1)
    finally:
        await reader.close()
    records = fetched.get(partition)
    return records[0][1] if records else 0

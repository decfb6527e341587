"""The time of a log's partitions, looked at and put right beside a running service: `slotlog clock`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from engine.limits import TIME_MS_MAX
from ingest.clock import WALL
from ingest.events import encode
from ingest.log import Entry, Log, open_log
from ingest.log.local import LocalLog
from ops.clocks import bound_clock, decide, latest_ms
from ops.config import ConfigError, Settings
from ops.standing import is_applied
from ops.state import partition_path, reading

_FETCH_WAIT_MS: Final = 5000
_TAKEN_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.2
_RIGHT_FIRST: Final = (
    "set the clock right that gives the times, the broker's or this machine's, then say `slotlog clock set` again"
)


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
    """What setting a partition's time right has done.

    Attributes:
        to_ms: the time that was given.
        from_ms: where the clock stood, if an event sets it back; else 0.
        offset: of that event; -1: there is none.
        retimed: the first and the last offset of records that have that time at the latest; None: of none.
        applied: whether the service that applies the partition has taken it in; None: none applies it here.
        trouble: why the partition's time is not right yet, and what to do; empty where it is, as far as one can tell.
    """

    partition: int
    to_ms: int
    from_ms: int = 0
    offset: int = -1
    retimed: tuple[int, int] | None = None
    applied: bool | None = None
    trouble: str = ""


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

    Returns:
        What was done, and what came of it: a service is waited for that applies the partition.

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
        entries = [Entry(partition, None, encode("SETCLOCK", args))] if seen.clock_ms > to_ms else []
        if isinstance(log, LocalLog):
            timed = [entry._replace(time_ms=to_ms) for entry in entries]
            positions = await log.set_time_back(partition, to_ms, timed)
        else:
            positions = await log.append(entries) if entries else []
        end = await log.end_offset(partition)
        done = SetBack(partition, to_ms)
        if seen.held_ms:
            decide(settings.data, partition, seen.next_offset, end, to_ms)
            done = replace(done, retimed=(seen.next_offset, end - 1))
        if positions:
            done = replace(done, from_ms=seen.clock_ms, offset=positions[0].offset)
        return await _seen_through(settings, log, done, positions[0].time_ms if positions else 0)


async def _seen_through(settings: Settings, log: Log, done: SetBack, record_ms: int) -> SetBack:
    """Wait for the service, if one applies the partition, and say what came of it.

    `record_ms` is the time that the log gave the event of `done`; 0: there is none.
    """
    partition = done.partition
    if is_applied(partition_path(settings.data, partition)):
        end = done.offset + 1 if done.retimed is None else done.retimed[1] + 1
        done = replace(done, applied=await _is_taken(settings, partition, end))
    if done.applied is False:
        text = f"the service has not applied it within {_TAKEN_SECONDS:.0f} s: /readyz says what keeps it"
    elif done.applied and done.offset >= 0 and not _has_set_back(settings, done):
        text = f"the event at offset {done.offset} was refused, as the clock had moved on meanwhile: say it again"
    elif record_ms > latest_ms():
        text = (
            f"the log gives its records times {(record_ms - WALL.now_ms()) / 1000:.0f} s ahead of this machine's clock."
            f" The next record will be held: {_RIGHT_FIRST}"
        )
    elif done.applied and (held := await _log_time(settings, log, partition)).held_ms:
        text = (
            f"the next record, at offset {held.next_offset}, is held: it has a time {held.held_ms} ms again."
            f" {_RIGHT_FIRST.capitalize()}"
        )
    else:
        text = ""
    return replace(done, trouble=text)


async def _is_taken(settings: Settings, partition: int, end: int) -> bool:
    """Whether a service has applied what stands before offset `end`, or does within some seconds."""
    until = monotonic() + _TAKEN_SECONDS
    while monotonic() < until:
        with reading(settings, partition) as (_, machine):
            if machine.next_offset >= end:
                return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


def _has_set_back(settings: Settings, done: SetBack) -> bool:
    with reading(settings, done.partition) as (_, machine):
        return (done.from_ms, done.to_ms) in machine.position.set_backs


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

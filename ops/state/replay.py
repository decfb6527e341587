"""Rebuilds a state from the log into a fresh directory, up to an offset, a time or the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from engine.errors import CorruptionError, StateMismatchError
from engine.proof.digest import Digest
from engine.store.store import Changes
from engine.tables.system import NO_SKIPS, Retimes, Skips, retime_changes, skip_changes
from ingest.applying.consumer import Consumer
from ingest.applying.worker import Worker
from ingest.dead_letters.stores import open_dead_letters
from ingest.reporting.observer import NullObserver
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state.building import begin_building, finish_building, refuse_used, settings_of_new
from ops.state.clocks import decided
from ops.state.directories import (
    cached_keys_max,
    digest_partition,
    home_of,
    partition_path,
    prepare_data,
    reading,
    store_opener,
)
from ops.state.unapplied import NotApplied, Unapplied
from slotlog.log import Log, open_log

logger = structlog.get_logger(__name__)


Tell = Callable[[int, int], None]
"""Told how many events are applied, of how many."""


def _tell_nobody(_done: int, _total: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True, slots=True)
class Until:
    """The end of a replay: before an offset, before a time, or at the log's end."""

    offset: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result for one partition.

    Attributes:
        live_digest: that of the live state, where it is at the same position.
        skips: what was not applied, by decision of an operator.
        note: why there is no `live_digest`; else empty.
        not_applied: how much was not applied, by kind.
        live_offset: what the live state had applied everything before, when the replay began; 0: nothing, or not known.
    """

    partition: int
    next_offset: int
    clock_ms: int
    digest: Digest
    live_digest: Digest | None
    skips: Skips = NO_SKIPS
    note: str = ""
    not_applied: NotApplied = field(default_factory=NotApplied)
    live_offset: int = 0


@dataclass(frozen=True, slots=True)
class _Live:
    """The state of one partition in --data, as it was before the replay; `note` says why it cannot be used."""

    skips: Skips = NO_SKIPS
    note: str = ""
    retimes: Retimes = ()
    next_offset: int = 0


async def replay(
    settings: Settings,
    to: Path,
    until: Until,
    skips: Sequence[tuple[int, int, int]] = (),
    *,
    layout: str | None = None,
    index: str | None = None,
    records_max: int = 1000,
    tell: Tell | None = None,
) -> list[Replayed]:
    """Rebuild every owned partition into `to`, without the records that an operator has decided to go past.

    Args:
        settings: the log, and the live state: its skips and decisions on times are taken over, and it is compared with.
            A live state that is damaged or of another topic is left aside, with a note.
        to: a directory that is empty or not there.
        until: where to end.
        skips: (partition, begin, end) of records to go past, beside those that the live state goes past.
        layout: of what is built; None: that of the live state.
        index: of what is built; None: it has its sorted sets in itself.
        records_max: size of a batch; the result is the same with any.
        tell: told how far it is.

    Raises:
        ConfigError: `to` is not empty, there is no such layout, the log no longer begins at 0, or `until` or `skips`
            lie beyond its end.
    """
    target = settings_of_new(settings, to, layout, index)
    refuse_used(to)
    live = {partition: _look_at(settings, partition) for partition in settings.owned}
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    await log.start()
    try:
        ends = await _ends(log, settings.owned, until)
        _check_skips(skips, ends)
        carried = [(partition, *each) for partition, state in live.items() for each in state.skips]
        retimes = {each: {*state.retimes, *decided(settings.data, each)} for each, state in live.items()}
        prepared = {
            partition: [
                *_skips_to(ends[partition], [each[1:] for each in (*carried, *skips) if each[0] == partition]),
                *(retime_changes(*decision) for decision in sorted(retimes[partition])),
            ]
            for partition in ends
        }
        unapplied = Unapplied()
        await _replay_to(target, log, ends, prepared, records_max, tell or _tell_nobody, unapplied)
        if not (settings.dead_letters_max or settings.dead_letters_days):  # else the oldest letters were forgotten
            live_offsets = {partition: state.next_offset for partition, state in live.items()}
            await unapplied.compare(open_dead_letters(log), live_offsets)
    finally:
        await log.close()
    return [
        _compare(settings, target, partition, live[partition], unapplied.counts[partition])
        for partition in settings.owned
    ]


def _look_at(settings: Settings, partition: int) -> _Live:
    if not partition_path(settings.data, partition).is_dir():
        return _Live(note=f"{settings.data} has no state of it")
    try:
        with reading(settings, partition) as (_, machine):
            position = machine.position
            return _Live(position.skips, retimes=position.retimes, next_offset=position.next_offset)
    except (ConfigError, CorruptionError, StateMismatchError, OSError) as error:
        logger.warning("live_state_unused", partition=partition, reason=str(error), hint="its skips are not taken over")
        return _Live(note=str(error))


async def _ends(log: Log, partitions: Sequence[int], until: Until) -> dict[int, int]:
    ends = {}
    for partition in partitions:
        begin = await log.begin_offset(partition)
        if begin > 0:
            raise ConfigError(
                f"partition {partition} of the log begins at offset {begin}: what was before is gone, so the state"
                " cannot be rebuilt from it; restore the log"
            )
        ends[partition] = await log.end_offset(partition)
    if until.offset is not None:
        if until.offset > max(ends.values()):
            raise ConfigError(
                f"--until {until.offset} is beyond the log's end at offset {max(ends.values())};"
                f" a time in milliseconds is written @{until.offset}"
            )
        return {partition: min(end, until.offset) for partition, end in ends.items()}
    if until.time_ms is not None:
        for partition, end in ends.items():
            at = await log.offset_at(partition, until.time_ms)
            ends[partition] = end if at is None else min(end, at)
    return ends


def _check_skips(skips: Sequence[tuple[int, int, int]], ends: Mapping[int, int]) -> None:
    for partition, *each in skips:
        (text,) = Skips([(each[0], each[1])]).texts()
        if partition not in ends:
            raise ConfigError(f"--skip {partition}:{text}: partition {partition} is not one of those to rebuild")
        if each[1] > ends[partition]:
            raise ConfigError(f"--skip {partition}:{text}: the replay ends before offset {ends[partition]}")


def _skips_to(end: int, skips: Iterable[tuple[int, int]]) -> Iterator[Changes]:
    """The batches of these decisions; one that reaches over `end` is cut there, so that the replay ends at it."""
    for begin, last in skips:
        if begin < end < last:
            yield skip_changes(begin, end)
            yield skip_changes(end, last)
        else:
            yield skip_changes(begin, last)


async def _replay_to(
    target: Settings,
    log: Log,
    ends: Mapping[int, int],
    prepared: Mapping[int, Sequence[Changes]],
    records_max: int,
    tell: Tell,
    unapplied: Unapplied,
) -> None:
    prepare_data(target)
    open_store = store_opener(target, target.data, replaying=True)
    for partition in ends:
        store = open_store(partition)
        begin_building(store, prepared[partition])
        store.close()
    workers = {
        partition: Worker(
            home_of(target, partition),
            log,
            open_store,
            None,
            unapplied,
            records_max=records_max,
            cached_keys_max=cached_keys_max(target),
        )
        for partition in ends
    }
    consumer = Consumer(log, workers, NullObserver())
    await consumer.open()
    try:
        total = sum(ends.values())
        with progress("replay", total, "events") as advance:

            def turned() -> None:
                done = sum(worker.machine.next_offset for worker in workers.values())
                advance(done)
                tell(done, total)

            tell(0, total)
            await consumer.run_to(ends, turned)
        for worker in workers.values():
            finish_building(worker.store)
    finally:
        consumer.close()


def _compare(settings: Settings, target: Settings, partition: int, live: _Live, not_applied: NotApplied) -> Replayed:
    result, position = digest_partition(target, partition)
    live_digest, note = (None, live.note) if live.note else _live_digest(settings, partition, position.next_offset)
    return Replayed(
        partition,
        position.next_offset,
        position.clock_ms,
        result,
        live_digest,
        position.skips,
        note,
        not_applied,
        live.next_offset,
    )


def _live_digest(settings: Settings, partition: int, next_offset: int) -> tuple[Digest | None, str]:
    """The digest of the live state, or why there is none to compare with."""
    try:
        with reading(settings, partition) as (_, machine):
            reached = machine.position.next_offset
        if reached == next_offset:
            live_digest, position = digest_partition(settings, partition)
            reached = position.next_offset  # a service may have gone on
    except (ConfigError, CorruptionError, StateMismatchError, OSError) as error:
        return None, str(error)
    return (live_digest, "") if reached == next_offset else (None, f"it stands before offset {reached}")

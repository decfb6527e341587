"""Rebuilds a state from the log into a fresh directory, up to an offset, a time or the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Final

from engine.errors import CorruptionError, StateMismatchError
from engine.proof.digest import Digest
from engine.tables.system import NO_SKIPS, Position, Skips
from ingest.applying.batches.batch_size import BATCH_RECORDS_MAX, LOOP_SECONDS_MAX
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.dead_letters.stores import open_dead_letters
from ops.config import ConfigError, Settings
from ops.processes import each_in_process, shared_between
from ops.progress import Advance, progress
from ops.state.opening.directories import (
    digest_of,
    digest_partition,
    home_of,
    key_cache_bytes,
    prepare_data,
    reading,
    store_opener,
)
from ops.state.rebuilding.building import begin_building, finish_building, refuse_used, settings_of_new
from ops.state.rebuilding.building_mark import clear_unfinished, marked
from ops.state.rebuilding.replay_plan import PartitionPlan, Start, Until, opened, plan
from ops.state.rebuilding.unapplied import NotApplied, Unapplied

RECORDS_MAX: Final = 10_000
"""In one batch, where nobody waits for the event loop: a key that is written often is put once a batch."""

_PROCESS_EVENTS_MIN: Final = 100_000
"""Fewer are applied sooner than a process has started."""

Tell = Callable[[int, int], None]
"""Told how many events are applied, of how many."""


def tell_nobody(_done: int, _total: int) -> None:
    """Nobody wants to know how far it is."""


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


async def replay(
    settings: Settings,
    to: Path,
    until: Until,
    skips: Sequence[tuple[int, int, int]] = (),
    *,
    start: Start,
) -> list[Replayed]:
    """Rebuild every owned partition into `to`, in this process, beside other work of its event loop.

    Args:
        settings: the log, and the live state: its skips and decisions on times are taken over, and it is compared with.
            A live state that is damaged or of another topic is left aside, with a note. What is built has its layout.
        to: a directory that is empty, or not there, or that a replay has left which was broken off.
        until: where to end.
        skips: (partition, begin, end) of records to go past, beside those that the live state goes past.
        start: asked for a state where the log does not begin at 0.

    Raises:
        ConfigError: `to` is not empty, there is no such layout, `until` or `skips` lie beyond the log's end, or it does
            not begin at 0 and there is nothing to start from.
        RuntimeError: a record cannot be applied.
    """
    target = settings_of_new(settings, to, None)
    _refuse_to(to)
    plans = await plan(settings, until, skips)
    with _building(target):
        plans = await asyncio.to_thread(_started, target, plans, start)
        with progress("replay", _events(plans), "events") as advance:
            return await _rebuild(settings, target, plans, advance, alone=False)


def replay_at_once(
    settings: Settings,
    to: Path,
    until: Until,
    skips: Sequence[tuple[int, int, int]] = (),
    *,
    start: Start,
    from_snapshot: bool = False,
    layout: str | None = None,
    index: str | None = None,
    processes: int | None = None,
    tell: Tell = tell_nobody,
) -> list[Replayed]:
    """As `replay`, with several partitions at once, each in a process of its own.

    Args:
        settings: as for `replay`.
        to: likewise.
        until: likewise.
        skips: likewise.
        start: likewise.
        from_snapshot: ask `start` also where the log begins at 0.
        layout: of what is built; None: that of the live state.
        index: of what is built; None: it has its sorted sets in itself.
        processes: how many at a time; None: one for each processor, and this one alone where few events are applied.
        tell: told how far it is.

    Raises:
        ConfigError, RuntimeError: as `replay`; or a process died.
    """
    target = settings_of_new(settings, to, layout, index)
    _refuse_to(to)
    plans = asyncio.run(plan(settings, until, skips, from_snapshot=from_snapshot))
    with _building(target):
        plans = _started(target, plans, start)
        total = _events(plans)
        most = processes or (os.cpu_count() or 1 if total >= _PROCESS_EVENTS_MIN else 1)
        processes = min(len(plans), most)
        tell(0, total)
        with progress("replay", total, "events") as show:

            def advance(done: int) -> None:
                show(done)
                tell(done, total)

            if processes == 1:
                return asyncio.run(_rebuild(settings, target, plans, advance))
            source, new = (shared_between(each, processes) for each in (settings, target))
            pieces = [(source, new, each) for each in plans]
            return each_in_process(_rebuild_piece, pieces, processes, settings.log_level, advance)


def _refuse_to(to: Path) -> None:
    clear_unfinished(to)
    refuse_used(to)


@contextmanager
def _building(target: Settings) -> Iterator[None]:
    """The directory of what is built, marked until all of it is there."""
    prepare_data(target)
    with marked(target.data):
        yield


def _started(target: Settings, plans: Sequence[PartitionPlan], start: Start) -> list[PartitionPlan]:
    """The plans; where the log lacks its first records, with a state in `target` to go on from."""
    return [each if each.gap is None else replace(each, start=start(target, each.gap)) for each in plans]


def _events(plans: Sequence[PartitionPlan]) -> int:
    return sum(each.end - each.start for each in plans)


def _rebuild_piece(piece: tuple[Settings, Settings, PartitionPlan], advance: Advance) -> Replayed:
    settings, target, one = piece
    (replayed,) = asyncio.run(_rebuild(settings, target, [one], advance))
    return replayed


async def _rebuild(
    settings: Settings, target: Settings, plans: Sequence[PartitionPlan], advance: Advance, *, alone: bool = True
) -> list[Replayed]:
    unapplied = Unapplied()
    log = opened(settings)
    await log.start()
    try:
        open_store = store_opener(target, target.data, replaying=True)
        for each in plans:
            store = open_store(each.partition)
            begin_building(store, each.prepared())
            store.close()
        workers = {
            each.partition: Worker(
                home_of(target, each.partition),
                log,
                open_store,
                None,
                unapplied,
                records_max=RECORDS_MAX if alone else BATCH_RECORDS_MAX,
                loop_seconds_max=inf if alone else LOOP_SECONDS_MAX,
                key_cache_bytes=key_cache_bytes(target),
            )
            for each in plans
        }
        before = sum(each.start for each in plans)
        ends = {each.partition: each.end for each in plans}
        built = await _apply(Consumer(log, workers, unapplied), ends, lambda done: advance(done - before))
        if not (settings.dead_letters_max or settings.dead_letters_days):  # else the oldest letters were forgotten
            await unapplied.compare(open_dead_letters(log), {each.partition: each.live.next_offset for each in plans})
    finally:
        await log.close()
    return [_compare(settings, each, *built[each.partition], unapplied.counts[each.partition]) for each in plans]


async def _apply(consumer: Consumer, ends: dict[int, int], advance: Advance) -> dict[int, tuple[Position, Digest]]:
    """Apply everything before the ends. Gives position and digest of what was built of each partition."""
    await consumer.open()
    workers = [owned.worker for owned in consumer.partitions.values()]
    try:
        await consumer.run_to(ends, lambda: advance(sum(worker.machine.next_offset for worker in workers)))
        for worker in workers:
            await asyncio.to_thread(finish_building, worker.store)  # closing the store at Ctrl-C breaks it off
        return {
            worker.partition: (worker.machine.position, digest_of(worker.store, worker.machine)) for worker in workers
        }
    finally:
        consumer.close()


def _compare(
    settings: Settings, one: PartitionPlan, position: Position, result: Digest, not_applied: NotApplied
) -> Replayed:
    live = one.live
    live_digest, note = (None, live.note) if live.note else _live_digest(settings, one.partition, position.next_offset)
    return Replayed(
        one.partition,
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

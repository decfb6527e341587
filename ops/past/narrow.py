"""Walks a state of some keys alone along the log: of the records, those that decide what these keys hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from engine.apply.machine import Machine
from engine.layouts import LAYOUTS
from engine.layouts.records import column_families
from engine.store.memory import MemoryStore
from ingest.applying.batches.decoding import decode_batch
from ops.config import ConfigError, Settings
from ops.past.offsets.relevant import Relevant, relevant
from ops.past.walk import Past, Pieces, Step, walked
from ops.snapshots.choosing import Wanted, choose
from ops.snapshots.errors import SnapshotStoreError
from ops.snapshots.objects import open_objects
from ops.snapshots.store import SnapshotStore
from ops.state.opening.directories import home_of, prepare_data
from ops.state.rebuilding.building import begin_building
from ops.state.rebuilding.replay_plan import PartitionPlan, Until, opened, plan

_READ_PER_APPLIED: Final = 4
"""To look at so many events takes about as long as to apply one."""


@asynccontextmanager
async def walked_for(
    settings: Settings, partition: int, until: Until, step: Step, keys: Sequence[bytes], *, from_snapshot: bool
) -> AsyncIterator[Past]:
    """As `walked`, for who looks at `keys` alone.

    It takes as long as there are records that matter to them, where an index knows these; else as long as `walked`. The
    index is brought up to date first, unless a snapshot is so near that this would take longer.

    Args:
        settings: as `walked` takes them, and so are the next three.
        partition: of the keys.
        until: where to end.
        step: applies each batch.
        keys: which they are; none: any may be asked for.
        from_snapshot: as `walked` takes it. What records do before a snapshot is not seen then.

    Raises:
        As `walked`.
    """
    nearest = await asyncio.to_thread(nearest_snapshot, settings, partition, until) if from_snapshot else 0
    past = await narrowed(settings, partition, until, step, keys, nearest=nearest) if keys else None
    if past is not None:
        yield past
        return
    async with walked(settings, partition, until, step, from_snapshot=from_snapshot) as whole:
        yield whole


async def narrowed(
    settings: Settings, partition: int, until: Until, step: Step, keys: Sequence[bytes], *, nearest: int = 0
) -> Past | None:
    """A state in memory that has some keys as they were.

    Args:
        settings: as `walked` takes them, and so are the next three.
        partition: of the keys.
        until: where to end.
        step: applies each batch.
        keys: which they are.
        nearest: the offset of a whole state that could be gone on from.

    Returns:
        None: nobody knows which records matter, or they are many; or to find out takes longer than to go on from
        `nearest`.

    Raises:
        As `walked`.
    """
    own = settings.model_copy(update={"own": str(partition)})
    (planned,) = await plan(own, until, ())
    if planned.gap is not None or planned.retimes or planned.skips:
        return None
    prepare_data(own)
    log = opened(own)
    await log.start()
    try:
        unread_max = _READ_PER_APPLIED * (planned.end - nearest)
        some = await relevant(own, log, partition, keys, planned.end, unread_max)
    finally:
        await log.close()
    return None if some is None else await _apply(own, planned, some, step)


def nearest_snapshot(settings: Settings, partition: int, until: Until) -> int:
    """The offset of the newest verified snapshot before `until`; 0: there is none, or nobody can be asked."""
    if not settings.snapshots.url:
        return 0
    try:
        listed = SnapshotStore(open_objects(settings.snapshots.url, create=False)).listed(settings.topic, partition)
    except (ConfigError, SnapshotStoreError):
        return 0
    good, _ = choose(listed, Wanted(home_of(settings, partition), until.offset, until.time_ms))
    return good[0].next_offset if good else 0


async def _apply(settings: Settings, planned: PartitionPlan, some: Relevant, step: Step) -> Past:
    store = MemoryStore(column_families(LAYOUTS[settings.layout]))
    begin_building(store, planned.prepared())
    machine = Machine(store, home_of(settings, planned.partition))
    async for records in Pieces().of(some.records):
        step(machine, decode_batch(records), records)
        machine.commit(None)
    if planned.end > machine.next_offset:
        # A record of which nothing can be applied, in the place of the last one: it moves the clock.
        machine.apply([(planned.end - 1, some.clock_ms, b"", [b"left out"], 0, None, None)], machine.next_offset)
        machine.commit(None)
    return Past(store, machine, 0)

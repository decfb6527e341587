"""Walks a state of one partition in a scratch directory along the log, to a moment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from errno import ENOSPC
from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog

from engine.apply.machine import Machine, Record
from engine.cleaning.sweep import Sweeper
from engine.errors import DueLeftError, PartitionStoppedError
from engine.store.store import MaintainedStore
from ingest.applying.batches.decoding import decode_batch
from ingest.applying.batches.patience import patience
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.snapshots.errors import SnapshotStoreError
from ops.snapshots.scratch import Scratch
from ops.snapshots.starting import start_from_snapshot
from ops.state.opening.directories import home_of, partition_path, prepare_data, store_opener
from ops.state.rebuilding.building import begin_building, settings_of_new
from ops.state.rebuilding.replay_plan import Gap, PartitionPlan, Until, opened, plan
from slotlog.shared.errors import InvariantError

if TYPE_CHECKING:
    from slotlog.log import LogRecord

logger = structlog.get_logger(__name__)

_FETCH_RECORDS_MAX: Final = 1000
_FETCH_WAIT_MS: Final = 500
_SWEPT_KEYS_MAX: Final = 1000
_PIECE_SECONDS: Final = 0.05
_FIRST_PIECE_RECORDS: Final = 50

Step = Callable[[Machine, Sequence[Record], Sequence["LogRecord"]], None]
"""Applies all of some records, which follow what the machine has applied, and commits nothing."""


@dataclass(frozen=True, slots=True)
class Past:
    """A state as it was.

    Attributes:
        store: it; nothing writes to it.
        machine: it, to be read.
        begin: the offset that the walk began with: 0, or where the snapshot stood.
        log_begin: the first offset that the log has; 0 also where it was not asked.
    """

    store: MaintainedStore
    machine: Machine
    begin: int
    log_begin: int = 0


@asynccontextmanager
async def walked(
    settings: Settings, partition: int, until: Until, step: Step, *, from_snapshot: bool, base: Past | None = None
) -> AsyncIterator[Past]:
    """The state of `partition` at `until`, until the context ends; nothing of it stays on the disk.

    Args:
        settings: the log, the live state, whose decisions on skips and times are taken over, and where snapshots are.
        partition: one of the topic's.
        until: where to end.
        step: applies each batch.
        from_snapshot: begin with the newest verified snapshot before `until`, if there is one; else with the log's
            first record.
        base: a state of the same partition that is not behind `until`: begin with a copy of it, if no snapshot is
            nearer. Its files are linked, and it stays as it is.

    Raises:
        ConfigError: `until` lies beyond the log's end; the log does not have its first records any more and there is
            no snapshot to begin with.
        LogUnavailableError: the log cannot be reached.
        OSError: the scratch directory cannot be written, or its disk is full.
    """
    own = settings.model_copy(update={"own": str(partition)})
    (planned,) = await plan(own, until, ())
    with _full_disk_named(own):
        prepare_data(own)
        scratch = Scratch(own.data)
    with scratch:
        target = settings_of_new(own, scratch.directory, None)
        begin = 0
        with _full_disk_named(own):
            if from_snapshot or planned.gap:
                begin = await asyncio.to_thread(_begin, target, planned, until.time_ms, base)
            store = store_opener(target, target.data, replaying=True)(partition)
        try:
            with _full_disk_named(own):
                begin_building(store, planned.prepared())
                machine = Machine(store, home_of(target, partition))
                if begin != machine.next_offset:
                    raise InvariantError(f"a snapshot of offset {begin} stands before {machine.next_offset}")
                await _walk(own, store, machine, replace(planned, start=begin), step)
            yield Past(store, machine, begin, planned.gap.begin if planned.gap is not None else 0)
        finally:
            with _full_disk_named(own):
                store.close()


@contextmanager
def _full_disk_named(settings: Settings) -> Iterator[None]:
    """Say of an error for lack of room, the system's or RocksDB's, which directory has none, and what is done there."""
    try:
        yield
    except OSError as error:
        if error.errno != ENOSPC and os.strerror(ENOSPC) not in str(error):
            raise
        raise OSError(
            f"the disk of {settings.data} is full: a copy of the partition, as it was, is built there for a while, in "
            "scratch/. Make room for it, and run the same command again"
        ) from error


def apply_all(machine: Machine, records: Sequence[Record], _raw: Sequence[LogRecord] = ()) -> None:
    """Apply all of `records`, with a commit wherever the machine takes no more at once."""
    while records:
        applied = machine.apply(records, machine.next_offset)
        records = records[applied.records :]
        if records:
            machine.commit(None)


def _begin(target: Settings, planned: PartitionPlan, time_ms: int | None, base: Past | None) -> int:
    """Put the newest state into `target` that will do. Returns the offset before which it has applied everything."""
    partition = planned.partition
    if target.snapshots.url or (planned.gap is not None and base is None):
        at_least = base.machine.next_offset if base is not None else planned.gap.begin if planned.gap is not None else 0
        try:
            return start_from_snapshot(target, Gap(partition, at_least, planned.end, time_ms))
        except ConfigError:  # none is near enough: what there is else has everything, and it takes longer
            if planned.gap is not None and base is None:
                raise
        except SnapshotStoreError as error:
            if planned.gap is not None and base is None:
                raise
            logger.warning("snapshots_unused", partition=partition, reason=str(error))
    if base is None:
        return 0
    base.store.flush_all()
    base.store.checkpoint(str(partition_path(target.data, partition)))
    return base.machine.next_offset


async def _walk(
    settings: Settings, store: MaintainedStore, machine: Machine, planned: PartitionPlan, step: Step
) -> None:
    """Apply what stands from `planned.start` to before `planned.end`."""
    log = opened(settings)
    await log.start()
    try:
        reader = log.reader({planned.partition: planned.start})
        pieces = Pieces()
        try:
            with progress("walk", planned.end - planned.start, "events") as advance:
                while machine.next_offset < planned.end:
                    fetched = await reader.fetch(_FETCH_WAIT_MS, _FETCH_RECORDS_MAX)
                    records = [each for each in fetched.get(planned.partition, ()) if each[0] < planned.end]
                    to_offset = min(planned.end, reader.position(planned.partition))
                    async for piece in pieces.of(records):
                        await take(step, store, machine, piece)
                        machine.commit(None)
                    if to_offset > machine.next_offset:  # markers of transactions, and no record
                        machine.apply((), machine.next_offset, to_offset=to_offset)
                        machine.commit(None)
                    advance(machine.next_offset - planned.start)
        finally:
            await reader.close()
    finally:
        await log.close()


class Pieces:
    """Cuts records into pieces that take some 50 ms each, with a turn of the event loop behind each.

    In it Ctrl-C is heard. Nothing else need give it one, as a page of the embedded log is there at once.
    """

    def __init__(self) -> None:
        self._records_max = _FIRST_PIECE_RECORDS

    async def of(self, records: Sequence[LogRecord]) -> AsyncIterator[Sequence[LogRecord]]:
        """The records, in pieces; to be committed one by one."""
        begin = 0
        while begin < len(records):
            piece = records[begin : begin + self._records_max]
            began = monotonic()
            yield piece
            of_time = _PIECE_SECONDS / max(monotonic() - began, 1e-6)
            self._records_max = max(1, min(2 * self._records_max, _FETCH_RECORDS_MAX, int(len(piece) * of_time)))
            begin += len(piece)
            await asyncio.sleep(0)


async def take(step: Step, store: MaintainedStore, machine: Machine, records: Sequence[LogRecord]) -> None:
    """Let `step` take these records, which follow. RocksDB gets up to half a minute to catch up."""
    events = decode_batch(records)
    async for attempt in patience():
        with attempt:
            try:
                _step(step, store, machine, events, records)
            except BaseException:
                machine.rollback()
                raise


def _step(
    step: Step, store: MaintainedStore, machine: Machine, events: Sequence[Record], records: Sequence[LogRecord]
) -> None:
    """What is due is removed where a record sets the clock back, as that asks for (`engine/apply/set_back.py`)."""
    while left := [event for event in events if event[0] >= machine.next_offset]:
        try:
            step(machine, left, records)
        except PartitionStoppedError as stop:
            if not isinstance(stop.__cause__, DueLeftError):
                raise
            step(machine, [event for event in left if machine.next_offset <= event[0] < stop.offset], records)
            machine.commit(None)
            sweeper = Sweeper(machine, store)
            while sweeper.expire(_SWEPT_KEYS_MAX).more:
                pass
            step(machine, [event for event in left if event[0] == stop.offset], records)
            machine.commit(None)
        else:
            return

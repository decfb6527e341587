"""Compacts deleted ranges, in a thread, so that RocksDB frees their disk space."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from threading import Event
from time import monotonic
from typing import Final

import structlog

from engine.tables.compaction_notes import DeletedRange
from ingest.applying.partitions.owned_partition import HasRoom, OwnedPartition
from ingest.cleaning.chores import CleaningJob
from ingest.reporting.observer import Cleaned, Observer

_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 60.0

logger = structlog.get_logger(__name__)


class Compactor:
    """Compacts what the reclaimers of a process have noted: one range at a time, of whichever partition.

    Args:
        partitions: the owned partitions.
        job_of: the cleaning of a partition that can be cleaned now.
        observer: told of every range.
        failed: takes a partition whose store must be reopened, and why.
        bytes_per_s: of the files that are compacted; 0: no limit.
        has_room: asked where the disk is full: whether it has room for so many bytes.
    """

    def __init__(
        self,
        partitions: Mapping[int, OwnedPartition],
        job_of: Callable[[int], CleaningJob | None],
        observer: Observer,
        failed: Callable[[int, Exception], None],
        bytes_per_s: int,
        has_room: HasRoom,
    ) -> None:
        self._partitions = partitions
        self._job_of = job_of
        self._observer = observer
        self._failed = failed
        self._bytes_per_s = bytes_per_s
        self._has_room = has_room
        self._stopping = Event()

    async def run(self) -> None:
        """Compact until cancelled. A compaction under way then ends with its piece, or as its store is closed."""
        self._stopping.clear()
        try:
            while True:
                done = [await self._look(partition) for partition in self._partitions]
                if not any(done):
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._stopping.set()

    async def _look(self, partition: int) -> bool:
        """Compact a range that waits in a partition; False: none does, or it cannot be done now, or not for good.

        So a client that flushes again and again does not keep it busy; and each time it is another range's turn.
        """
        try:
            job = self._job_of(partition)
            if job is None or monotonic() < job.compact_at:
                return False
            if self._wants_flush(partition, job):
                return await self._flush(partition, job)
            if not job.may_have_ranges and not job.machine.notes:
                return False
            waiting = job.reclaimer.ranges()
            job.may_have_ranges = bool(waiting)
            job.ranges_waiting = len(waiting)
            job.compactions += 1
            deleted = waiting[job.compactions % len(waiting)] if waiting else None
            if deleted is None or not await self._compact(partition, job, deleted):
                return False
            is_done = job.reclaimer.compacted(deleted)
        except Exception as error:  # noqa: BLE001 - the partition is stopped with it
            self._failed(partition, error)
            return False
        job.ranges_waiting -= is_done
        self._observer.cleaned(partition, Cleaned(ranges=1, ranges_waiting=job.ranges_waiting))
        return is_done

    async def _compact(self, partition: int, job: CleaningJob, deleted: DeletedRange) -> bool:
        """Whether it is done, and the store still the same."""
        owned = self._partitions[partition]
        try:
            if not await asyncio.to_thread(job.store.compact, *deleted, partial(self._go_on, owned)):
                return False
        except Exception as error:  # noqa: BLE001 - such as a full disk: the state is unharmed
            job.compact_at = monotonic() + _RETRY_SECONDS
            logger.warning("compaction_failed", partition=partition, column_family=deleted[0], error=str(error))
            return False
        return owned.worker.is_open and owned.worker.store is job.store

    def _wants_flush(self, partition: int, job: CleaningJob) -> bool:
        """Whether a partition that waits for room has deleted all that it can, and has room to write that to files."""
        if not self._partitions[partition].waits_for_room:
            job.is_flushed = False
        elif not job.is_flushed and not job.is_behind:
            return self._has_room(job.store.wal_bytes())
        return False

    async def _flush(self, partition: int, job: CleaningJob) -> bool:
        """Give back the write-ahead log; and in files RocksDB compacts what was deleted record by record.

        Otherwise that stands in memory until more is written, which is what cannot be done.
        """
        job.is_flushed = True
        try:
            await asyncio.to_thread(job.store.flush_all)
        except Exception as error:  # noqa: BLE001 - as above
            job.is_flushed = False
            job.compact_at = monotonic() + _RETRY_SECONDS
            logger.warning("flush_failed", partition=partition, error=str(error))
            return False
        return True

    def _go_on(self, owned: OwnedPartition, piece_bytes: int) -> bool:
        """In the thread, after each piece: wait as long as the limit wants."""
        if self._stopping.wait(piece_bytes / self._bytes_per_s if self._bytes_per_s else 0.0):
            return False
        return not owned.waits_for_room or self._has_room(piece_bytes)

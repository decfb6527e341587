"""The metrics of one process: filled by an observer, read at each scrape."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from engine.apply.records import Applied
from engine.errors import CommandError
from engine.store.options import SharedMemory
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.applying.partitions.ownership import Ownership
from ingest.dead_letters.dead_letter import DeadLetters
from ingest.reporting.observer import Cleaned, Condition
from ingest.reporting.rate_limited import RateLimitedLog
from ops.config import Settings
from ops.metrics.catalog import BATCH_RECORDS, CATALOG, LATENCY_SECONDS
from ops.metrics.changes import ToldChanges, read_changes
from ops.metrics.counts import PartitionCounts, add_latency
from ops.metrics.readings import Readings, ScrapeSlices
from ops.metrics.snapshots import read_snapshots
from ops.metrics.sources import (
    read_clients,
    read_commands,
    read_counts,
    read_log,
    read_memory,
    read_owners,
    read_partition,
    read_process,
    store_errors,
)
from ops.metrics.stall import LoopStalls
from ops.metrics.workers import GroupFigures, read_group, read_workers
from ops.reasons import shown_reason
from ops.snapshots.report import SnapshotReport
from resp.server import Server
from slotlog.distribution import APPLY_SECONDS, Distribution
from slotlog.log import Log

_READY_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)
_stdlib_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """The objects that a scrape reads.

    Attributes:
        settings: of the process.
        partitions: of the owned partitions.
        log: that is applied.
        memory: that the partitions' stores share.
        server: for Redis clients; None when there is none.
        readiness: what `/readyz` answers.
        ownership: what is known of the partitions' owners; None where nobody looks.
        dead_letters: where they go; None: nowhere.
        snapshots: what is known of each partition's.
        changes: what was told of keys that change; None: nothing.
        group: tells how the group is.
    """

    settings: Settings
    partitions: Mapping[int, OwnedPartition]
    log: Log
    memory: SharedMemory
    server: Server | None
    readiness: Callable[[], Awaitable[Mapping[str, Any]]]
    ownership: Ownership | None = None
    dead_letters: DeadLetters | None = None
    snapshots: Mapping[int, SnapshotReport] = field(default_factory=dict)
    changes: ToldChanges | None = None
    group: Callable[[], GroupFigures] = GroupFigures


class Metrics:
    """The metrics of one process: an `Observer` that also writes the log lines of what it observes.

    Attributes:
        counts: of each partition that was heard of.
    """

    def __init__(self) -> None:
        self.counts: dict[int, PartitionCounts] = {}
        self._watched: Watched | None = None
        self._rejections = RateLimitedLog()
        self._batch = Distribution(BATCH_RECORDS)
        self._seconds = Distribution(APPLY_SECONDS)
        self._latency = Distribution(LATENCY_SECONDS)
        self._cleaning = Distribution(APPLY_SECONDS)
        self._stalls = LoopStalls()

    def watch(self, watched: Watched) -> None:
        """Let scrapes read these."""
        self._watched = watched
        for partition in watched.partitions:
            self._of(partition)

    async def run(self) -> None:
        """Measure the event loop until cancelled."""
        await self._stalls.run()

    async def exposition(self) -> bytes:
        """What `/metrics` answers; in slices, so that a scrape holds nobody up."""
        readings, slices = Readings(), ScrapeSlices()
        there = self.counts if self._watched is None else self._watched.partitions
        for partition, counts in [each for each in self.counts.items() if each[0] in there]:
            read_counts(readings, partition, counts)
            await slices.pause()
        read_commands(readings, self.counts.values())
        readings.add_distribution("batch_records", self._batch)
        readings.add_distribution("batch_apply_seconds", self._seconds)
        readings.add_distribution("event_latency_seconds", self._latency)
        readings.add_distribution("cleaning_seconds", self._cleaning)
        readings.add_distribution("event_loop_stall_seconds", self._stalls.seconds)
        readings.add("event_loop_stall_max_seconds", self._stalls.most_seconds)
        if self._watched is not None:
            await self._read(readings, self._watched, slices)
        return await readings.text(CATALOG, slices)

    def applied_bytes(self, partition: int) -> int:
        """The bytes of the records that a partition has applied since the start."""
        counts = self.counts.get(partition)
        return 0 if counts is None else counts.value_bytes

    def lag_of(self, partition: int) -> int | None:
        """The lag that was last reported, in events; None before the first report."""
        counts = self.counts.get(partition)
        return None if counts is None else counts.lag_events

    # ------------------------------------------------------------------ ingest.reporting.observer.Observer

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Count one batch."""
        self._of(partition).add(applied, value_bytes)
        self._batch.add(applied.records)
        self._seconds.add(seconds)
        add_latency(self._latency, applied)
        if _stdlib_logger.isEnabledFor(logging.DEBUG):  # asking structlog costs more than all of the above
            logger.debug("batch", partition=partition, next_offset=applied.next_offset, records=applied.records)
        if applied.dead_letters:
            (offset, reason), dead = applied.dead_letters[0], len(applied.dead_letters)
            shown = shown_reason(reason)
            logger.warning("dead_letters", partition=partition, first_offset=offset, first_reason=shown, count=dead)
        if applied.rejected and (count := self._rejections.count(applied.rejected)):
            offset, command, message = applied.rejections[0]
            logger.info(
                "rejected",
                partition=partition,
                first_offset=offset,
                first_command=command,
                first_error=shown_reason(message),
                count=count,
            )

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Say that a partition was set aside or goes on."""
        counts = self._of(partition)
        counts.condition = condition
        if condition is Condition.STOPPED and self._watched is not None:  # the store is closed next, and forgets
            counts.store_errors += store_errors(self._watched.partitions[partition].worker)
        if condition is Condition.OPENING:  # it is given up, and may be taken again later
            counts.lag_events = None
        log = logger.info if condition in {Condition.OPENING, Condition.RUNNING} else logger.error
        log("partition", partition=partition, condition=str(condition), reason=reason)

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """Note the lag."""
        self._of(partition).note_lag(events, seconds)

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """Count one slice of cleaning."""
        self._of(partition).add_cleaned(cleaned)
        if cleaned.seconds:
            self._cleaning.add(cleaned.seconds)
        logger.debug("cleaned", partition=partition, **cleaned._asdict())

    # ------------------------------------------------------------------ inside

    async def _read(self, readings: Readings, watched: Watched, slices: ScrapeSlices) -> None:
        for partition, owned in watched.partitions.items():
            worker = owned.worker
            errors = self._of(partition).store_errors + store_errors(worker)
            readings.add("rocksdb_background_errors_total", errors, str(partition))
            failing = bool(watched.log.append_counts.failure_of(partition))
            readings.add("log_append_failing", failing, str(partition))
            if partition in watched.snapshots:
                read_snapshots(readings, partition, watched.snapshots[partition])
            if watched.changes is not None:
                read_changes(readings, partition, watched.changes)
            readings.add("log_held_up_seconds", owned.held_up_seconds, str(partition))
            if owned.begin_offset is not None:
                readings.add("log_begin_offset", owned.begin_offset, str(partition))
            if worker.is_open:  # asked after each pause: it may have been closed meanwhile
                with suppress(CommandError), owned.reading():  # it is stopped then, and its condition tells
                    read_partition(readings, partition, worker)
            await slices.pause()
        if watched.memory.options is not None:
            read_memory(readings, watched.memory, watched.settings)
            await slices.pause()
        if watched.ownership is not None:
            read_owners(readings, watched.ownership, watched.partitions)
        read_group(readings, watched.group(), watched.partitions)
        read_log(readings, watched.log, watched.dead_letters)
        read_process(readings, watched.settings)
        await slices.pause()
        if watched.server is not None:
            read_clients(readings, watched.server)
            read_workers(readings, watched.server.bus)
        await slices.pause()
        readings.add("ready", await _is_ready(watched))

    def _of(self, partition: int) -> PartitionCounts:
        counts = self.counts.get(partition)
        if counts is None:
            counts = self.counts[partition] = PartitionCounts()
        return counts


async def _is_ready(watched: Watched) -> bool:
    """What `/readyz` says; a disk that does not answer makes no scrape wait."""
    try:
        async with asyncio.timeout(_READY_SECONDS):
            return bool((await watched.readiness())["ready"])
    except TimeoutError:
        return False

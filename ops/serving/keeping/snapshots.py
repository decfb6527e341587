"""Takes snapshots of a service's partitions: by schedule, and when somebody asks for one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final

import structlog

from engine.store.store import MaintainedStore
from ingest.applying.partitions.owned_partition import OwnedPartition
from ops.config import ConfigError, Settings
from ops.logging import configure_logging
from ops.snapshots.child import in_child, tell
from ops.snapshots.errors import SnapshotRefusedError, SnapshotStoreError
from ops.snapshots.keeping import collect_all
from ops.snapshots.objects import open_objects
from ops.snapshots.report import Newest, SnapshotReport, Taking
from ops.snapshots.requests import Request, answer, requests
from ops.snapshots.scratch import Scratch, remove_abandoned
from ops.snapshots.store import Listed, SnapshotStore
from ops.snapshots.taking import Taken, facts_of, link, refuse_indexed, take
from ops.snapshots.trimming import kept_from
from slotlog.clock import now_ms
from slotlog.errors import LogMismatchError
from slotlog.shared.shown_errors import shown_error

_LOOK_SECONDS: Final = 0.5
_RETRY_SECONDS_MIN: Final = 10.0
_RETRY_SECONDS_MAX: Final = 600.0
_COLLECT_SECONDS: Final = 3600.0
_LEARN_SECONDS: Final = 300.0
_TELL_SECONDS: Final = 0.2

logger = structlog.get_logger(__name__)


class Snapshots:
    """The snapshots that one service takes.

    By schedule it takes those of the partitions that it owns; what it is asked for, of any that it applies.

    Args:
        settings: where they go, and when.
        partitions: those that it applies; others are found by their number.
        owned: those of them that it owns.
        applied_bytes: of the events of a partition, since the start of the process.
        reports: of each partition that it may ever apply, to be kept up to date.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[int, OwnedPartition],
        owned: Mapping[int, OwnedPartition],
        applied_bytes: Callable[[int], int],
        reports: Mapping[int, SnapshotReport],
    ) -> None:
        self._reports = reports
        self._settings = settings
        self._partitions = partitions
        self._owned = owned
        self._applied_bytes = applied_bytes
        self._bytes_at = dict.fromkeys(reports, 0)
        self._seen = frozenset[int](), frozenset[int]()  # applied and owned, at the last look
        self._learnt = False
        self._learn_at = 0.0
        self._learn_error = ""
        self._retry_at = dict.fromkeys(reports, 0.0)
        self._retry_seconds = dict.fromkeys(reports, _RETRY_SECONDS_MIN)
        self._collect_at = 0.0
        if settings.snapshots.url:
            for partition in reports:
                partitions[partition].snapshot_offset = None

    async def run(self) -> None:
        """Take what is due and what is asked for, one at a time, until cancelled."""
        await asyncio.to_thread(remove_abandoned, self._settings.data)
        while True:
            try:
                await self._look()
            except Exception:
                logger.exception("snapshots_failed")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        for request in list(requests(self._settings.data)):
            if request.partition in self._partitions:
                await self._serve(request)
        self._note_roles()
        if self._settings.snapshots.url and monotonic() >= self._learn_at:
            await self._learn()
        if not (self._learnt and self._settings.snapshots.is_scheduled):
            return
        for partition in self._owned:
            if self._is_due(partition) and monotonic() >= self._retry_at[partition]:
                await self._try(partition, self._settings.snapshots.url)
        if monotonic() >= self._collect_at:
            self._collect_at = monotonic() + _COLLECT_SECONDS
            await in_child(collect_in_child, self._settings)

    def _note_roles(self) -> None:
        """Where a group has given this worker other partitions, others have taken the snapshots of those until now."""
        applied, owned = frozenset(self._partitions), frozenset(self._owned)
        if self._seen != (applied, owned):
            for partition in self._seen[1] - owned:  # what failed here is the next owner's now
                self._reports[partition].error = ""
            self._seen = applied, owned
            self._learnt, self._learn_at = False, 0.0

    async def _learn(self) -> None:
        """Read from the store which snapshots are the newest: others take and delete some as well."""
        applied, owned = self._seen
        try:
            there = await asyncio.to_thread(listed_of, self._settings, applied)
        except (ConfigError, SnapshotStoreError) as error:
            self._learn_error = shown_error(error)
            for partition in applied:
                each = self._partitions[partition]
                each.snapshot_offset = each.snapshot_offset or 0
            for partition in owned:
                self._failed(partition, error)
            self._learn_at = max(self._retry_at.values())
            return
        self._learnt, self._learn_at = True, monotonic() + _LEARN_SECONDS
        newest = _newest(there)
        for partition, report in self._reports.items():
            if report.error == self._learn_error:
                report.error = ""
            if partition in there:
                self._note_newest(partition, *newest.get(partition, (0, None)))
                self._note_listed(partition, there[partition])

    def _note_newest(self, partition: int, next_offset: int, taken_ms: int | None) -> None:
        report = self._reports[partition]
        if report.next_offset and next_offset != report.next_offset:  # another worker has taken one, or some are gone
            self._bytes_at[partition] = self._applied_bytes(partition)
        report.next_offset, report.taken_ms = next_offset, taken_ms
        self._partitions[partition].snapshot_offset = next_offset

    def _note_listed(self, partition: int, there: list[Listed]) -> None:
        """What the page shows of them."""
        report = self._reports[partition]
        last = max(there, key=lambda each: each.order, default=None)
        report.newest = None if last is None else Newest(last.next_offset, last.modified_ms, last.is_verified)
        oldest = next((each for each in there if each.is_verified), None)
        report.kept_from = None
        with contextlib.suppress(SnapshotRefusedError, LogMismatchError):  # of another log, which it does not cut
            report.kept_from = None if oldest is None else kept_from(oldest.usable(), self._settings.partitions)

    def _is_due(self, partition: int) -> bool:
        """Whether enough has come since the newest snapshot: of events, bytes or time."""
        settings, report = self._settings.snapshots, self._reports[partition]
        owned = self._owned[partition]
        if not owned.worker.is_open:
            return False
        events = owned.worker.machine.position.next_offset - report.next_offset
        if events <= 0:
            return False
        size = self._applied_bytes(partition) - self._bytes_at[partition]
        age_seconds = (now_ms() - (report.taken_ms or 0)) / 1000
        bounds = ((events, settings.events), (size, settings.bytes), (age_seconds, settings.seconds))
        return any(bound and value >= bound for value, bound in bounds)

    async def _serve(self, request: Request) -> None:
        try:
            taken = await self._take(request.partition, request.url)
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            self._failed(request.partition, error)
            answer(request, {"error": shown_error(error)})
        else:
            pause_seconds = self._reports[request.partition].pause_seconds
            answer(request, {**facts_of(taken), "pause_seconds": round(pause_seconds, 6)})

    async def _try(self, partition: int, url: str) -> None:
        try:
            await self._take(partition, url)
        except Exception as error:  # noqa: BLE001 - the partition goes on without, and it is tried again
            self._failed(partition, error)

    def _failed(self, partition: int, error: Exception) -> None:
        report = self._reports[partition]
        report.failed += 1
        report.error = shown_error(error)
        self._retry_at[partition] = monotonic() + self._retry_seconds[partition]
        self._retry_seconds[partition] = min(_RETRY_SECONDS_MAX, 2 * self._retry_seconds[partition])
        logger.warning("snapshot_failed", partition=partition, error=report.error)

    async def _take(self, partition: int, url: str) -> Taken:
        """Take one, whose upload and verification are a process of their own."""
        refuse_indexed(self._settings)
        began = monotonic()
        report, applied_bytes = self._reports[partition], self._applied_bytes(partition)
        scratch = await asyncio.to_thread(Scratch, self._settings.data)
        report.taking = Taking("read")

        def heard(taking: Taking) -> None:
            report.taking = taking

        try:
            pause_seconds = await self._link(partition, scratch.directory)
            taken = await in_child(take_in_child, self._settings, url, scratch.directory, partition, heard=heard)
        finally:
            report.taking = None
            await asyncio.to_thread(scratch.remove)
        report.taken += 1
        report.new_bytes += taken.new_bytes
        report.size = taken.manifest.size
        report.pause_seconds, report.seconds, report.error = pause_seconds, monotonic() - began, ""
        if url == self._settings.snapshots.url:
            self._note_newest(partition, taken.manifest.next_offset, taken.manifest.taken_ms)
            report.newest = Newest(taken.manifest.next_offset, taken.manifest.taken_ms, is_verified=True)
            if report.kept_from is None:
                report.kept_from = kept_from(taken.manifest, self._settings.partitions)
            self._bytes_at[partition] = applied_bytes
        self._retry_seconds[partition] = _RETRY_SECONDS_MIN
        logger.info(
            "snapshot_taken",
            partition=partition,
            id=taken.snapshot.id,
            bytes=report.size,
            new_bytes=taken.new_bytes,
            pause_seconds=round(pause_seconds, 6),
            seconds=round(report.seconds, 3),
        )
        return taken

    async def _link(self, partition: int, directory: Path) -> float:
        """Link the files of the open store; flushed first, in a thread, so that the loop stands still for little."""
        worker = self._partitions[partition].worker
        if not worker.is_open:
            raise SnapshotStoreError(f"partition {partition} is not open")
        store = worker.store
        await asyncio.to_thread(store.flush_all)
        if not self._is_open_as(partition, store):
            raise SnapshotStoreError(f"partition {partition} was closed meanwhile")
        return link(store, directory, partition)

    def _is_open_as(self, partition: int, store: MaintainedStore) -> bool:
        worker = self._partitions[partition].worker
        return worker.is_open and worker.store is store


def listed_of(settings: Settings, partitions: Iterable[int]) -> dict[int, list[Listed]]:
    """The snapshots of some partitions, verified or not, the oldest first."""
    store = SnapshotStore(open_objects(settings.snapshots.url))
    return {partition: store.listed(settings.topic, partition) for partition in partitions}


def newest_of(settings: Settings) -> dict[int, tuple[int, int]]:
    """Position and time of the newest verified snapshot of each partition that has one and may be applied here."""
    return _newest(listed_of(settings, settings.owned))


def _newest(listed: Mapping[int, list[Listed]]) -> dict[int, tuple[int, int]]:
    offered = ((partition, [each for each in there if each.is_verified]) for partition, there in listed.items())
    return {partition: (there[-1].next_offset, there[-1].modified_ms) for partition, there in offered if there}


# ---------------------------------------------------------------------- in a process of its own


def take_in_child(settings: Settings, url: str, directory: Path, partition: int) -> Taken:
    """Upload and verify a checkpoint."""
    configure_logging(settings.log_level)
    return take(SnapshotStore(open_objects(url)), settings, directory, partition, _told_at_times())


def _told_at_times() -> Callable[[Taking], None]:
    """Tells the service how far it is, a few times a second at most."""
    told, told_at = "", 0.0

    def at_times(taking: Taking) -> None:
        nonlocal told, told_at
        if taking.what != told or monotonic() - told_at >= _TELL_SECONDS:
            told, told_at = taking.what, monotonic()
            tell(taking)

    return at_times


def collect_in_child(settings: Settings) -> None:
    """Delete what is not to be kept."""
    configure_logging(settings.log_level)
    try:
        done = collect_all(SnapshotStore(open_objects(settings.snapshots.url)), settings.topic, settings.snapshots)
    except (SnapshotRefusedError, SnapshotStoreError) as error:
        logger.warning("snapshots_not_collected", error=str(error))
        return
    deleted = [each.id for each in done.deleted]
    if deleted or done.files:
        logger.info("snapshots_collected", deleted=deleted, files=done.files, bytes=done.size)

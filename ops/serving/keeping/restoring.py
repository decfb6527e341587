"""Restores the partitions of a service that have no usable state from snapshots, by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from threading import Event
from time import monotonic
from typing import Final

import structlog

from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.reporting.observer import Condition
from ops.config import Settings
from ops.snapshots.choosing import Wanted, choose
from ops.snapshots.errors import SnapshotRefusedError, SnapshotStoreError
from ops.snapshots.objects import open_objects
from ops.snapshots.replacing import remove_older, replace, take_decisions, trouble_of
from ops.snapshots.report import Restoring, SnapshotReport
from ops.snapshots.restoring import fetch_partition
from ops.snapshots.scratch import Scratch
from ops.snapshots.store import Listed, SnapshotStore
from ops.state.opening.directories import home_of, partition_path
from slotlog.errors import LogMismatchError, Mismatch
from slotlog.log import Log
from slotlog.shared.shown_errors import shown_error

_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS_MIN: Final = 1.0
_RETRY_SECONDS_MAX: Final = 60.0
_LINE_SECONDS: Final = 5.0
_ENDS_SECONDS: Final = 0.1

logger = structlog.get_logger(__name__)


class _BrokenOffError(Exception):
    """The service ends."""


class Restorer:
    """Restores what a service cannot go on with, as long as its settings name a store of snapshots.

    Args:
        settings: of the service.
        partitions: the owned ones.
        log: started, when the first method is called.
        reports: of each partition, to be kept up to date.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[int, OwnedPartition],
        log: Log,
        reports: Mapping[int, SnapshotReport],
    ) -> None:
        self._reports = reports
        self._settings = settings
        self._partitions = partitions
        self._log = log
        self._ends = Event()
        self._retry_at = dict.fromkeys(reports, 0.0)
        self._retry_seconds = dict.fromkeys(reports, _RETRY_SECONDS_MIN)

    @property
    def is_on(self) -> bool:
        """Whether there may be snapshots to restore from."""
        return bool(self._settings.snapshots.url) and not self._settings.index.get_secret_value()

    def text(self, partition: int) -> str:
        """What is being restored of a partition; empty where nothing is."""
        restoring = self._reports[partition].restoring
        return "" if restoring is None else restoring.text

    def close(self) -> None:
        """Break off what is under way."""
        self._ends.set()

    async def restore_missing(self) -> None:
        """Before the states are opened: restore those that need it, as `restore_if_missing`."""
        for partition in self._partitions:
            await self.restore_if_missing(partition)

    async def restore_if_missing(self, partition: int) -> None:
        """Before a state is opened: restore it if it is not there, damaged, or behind the log's begin.

        Where no snapshot can be used, the state is left as it is. A store that is away is waited for.

        Raises:
            LogMismatchError: there are snapshots, of another log than this one.
            LogUnavailableError: the log is away.
        """
        if not self.is_on:
            return
        begin_offset = await self._log.begin_offset(partition)
        trouble = await asyncio.to_thread(trouble_of, self._settings, partition, begin_offset)
        while trouble and not self._ends.is_set():
            try:
                await self._restore(partition, trouble, begin_offset)
                break
            except (SnapshotStoreError, OSError) as error:
                await self._wait(partition, error)
            except _BrokenOffError:
                break
            finally:
                self._reports[partition].restoring = None
        if self._ends.is_set():  # what was not restored must not be opened, as if there never was a state
            raise asyncio.CancelledError

    async def run(self) -> None:
        """Restore partitions that stop for such a reason, until cancelled."""
        while self.is_on:
            for partition, owned in self._partitions.items():
                if owned.condition is Condition.STOPPED and monotonic() >= self._retry_at[partition]:
                    await self._mend(partition, owned)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _mend(self, partition: int, owned: OwnedPartition) -> None:
        try:
            begin_offset = await self._log.begin_offset(partition)
            damaged = owned.reason if owned.is_still_damaged() else ""
            trouble = damaged or await asyncio.to_thread(trouble_of, self._settings, partition, begin_offset)
            if trouble and await self._restore(partition, trouble, begin_offset):
                owned.retry_at = 0.0
                self._retry_seconds[partition] = _RETRY_SECONDS_MIN
                return
        except _BrokenOffError:
            return
        except Exception as error:  # noqa: BLE001 - it stays stopped, and is tried again
            logger.warning("restore_failed", partition=partition, error=shown_error(error))
        finally:
            self._reports[partition].restoring = None
        self._retry_at[partition] = monotonic() + self._retry_seconds[partition]
        self._retry_seconds[partition] = min(_RETRY_SECONDS_MAX, 2 * self._retry_seconds[partition])

    async def _wait(self, partition: int, error: Exception) -> None:
        seconds = self._retry_seconds[partition]
        self._retry_seconds[partition] = min(_RETRY_SECONDS_MAX, 2 * seconds)
        self._reports[partition].restoring = Restoring(waits=shown_error(error))
        logger.warning("restore_waits", partition=partition, error=shown_error(error), seconds=seconds)
        for _ in range(round(seconds / _ENDS_SECONDS)):
            if not self._ends.is_set():
                await asyncio.sleep(_ENDS_SECONDS)

    async def _restore(self, partition: int, trouble: str, begin_offset: int) -> bool:
        """Restore a partition from the newest snapshot that can be used; False: there is none.

        Raises:
            LogMismatchError: there are snapshots, of another log.
            SnapshotStoreError: the store cannot be used.
            OSError: the disk is full, or failed.
        """
        settings = self._settings
        self._reports[partition].restoring = Restoring()
        store = await asyncio.to_thread(_opened, settings.snapshots.url)
        there = await asyncio.to_thread(store.listed, settings.topic, partition)
        good, refused = choose(there, Wanted(home_of(settings, partition), begin_offset=begin_offset))
        for each in refused:
            _tell_refused(*each)
        of_another_log = ""
        for snapshot in good:
            try:
                await self._log.check(partition, snapshot.next_offset, snapshot.usable().fingerprint)
                await self._put(store, snapshot, trouble)
            except LogMismatchError as error:
                of_another_log = str(error)
                _tell_refused(snapshot, of_another_log)
            except SnapshotRefusedError as error:
                _tell_refused(snapshot, str(error))
            else:
                return True
        if of_another_log:
            raise LogMismatchError(
                Mismatch.RECREATED,
                f"{trouble}, and the snapshots of it in {store.label} are of another log than {self._log.url}:"
                f" {of_another_log} If that log is to begin anew, name another place for its snapshots.",
            )
        return False

    async def _put(self, store: SnapshotStore, snapshot: Listed, trouble: str) -> None:
        """Fetch a snapshot, and put it in the place of the state."""
        settings, partition = self._settings, snapshot.partition
        manifest = snapshot.usable()
        state = self._reports[partition].restoring = Restoring(snapshot.id, 0, manifest.size, monotonic())
        logger.info("restore_begun", partition=partition, id=snapshot.id, bytes=manifest.size, reason=trouble)
        said = monotonic()

        def advance(done: int) -> None:
            nonlocal said
            if self._ends.is_set():
                raise _BrokenOffError
            state.done = done
            if monotonic() - said >= _LINE_SECONDS:
                said = monotonic()
                left = state.eta_seconds
                logger.info(
                    "restoring",
                    partition=partition,
                    done=done,
                    total=state.total,
                    unit="bytes",
                    eta_seconds=None if left is None else round(left),
                )

        scratch = await asyncio.to_thread(Scratch, settings.data)
        try:
            await asyncio.to_thread(fetch_partition, store, snapshot, scratch.directory, settings, advance)
            decisions = await asyncio.to_thread(take_decisions, settings, partition, scratch.directory)
            if self._partitions[partition].worker.is_open:
                raise SnapshotStoreError(f"partition {partition} was opened meanwhile")
            replace(settings, partition, partition_path(scratch.directory, partition))
        finally:
            await asyncio.to_thread(scratch.remove)
        await asyncio.to_thread(remove_older, settings, partition)
        self._reports[partition].restored += 1
        logger.info(
            "restored",
            partition=partition,
            id=snapshot.id,
            next_offset=snapshot.next_offset,
            seconds=round(monotonic() - state.began, 3),
            decisions=decisions,
        )


def _tell_refused(snapshot: Listed, reason: str) -> None:
    logger.warning("snapshot_refused", partition=snapshot.partition, id=snapshot.id, reason=reason)


def _opened(url: str) -> SnapshotStore:
    return SnapshotStore(open_objects(url))

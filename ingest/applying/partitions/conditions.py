"""Keeps the condition of each owned partition: sets those aside that cannot go on, and tries them again.

waiting   something outside is away (log, dead-letter store, disk space, RocksDB behind); the store stays open,
and where it is disk space, the cleaner goes on (ingest/cleaning/cleaner.py), unless there is none to open it
stopped   a record or the store cannot be applied (a bug, damage, another log, an index that is away); the store is
closed, so that an operator can work on it: `slotlog skip`, `slotlog replay`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Final

import structlog

from engine.errors import IndexUnavailableError, StoreFullError
from ingest.applying.partitions.owned_partition import RETRY_SECONDS_MIN, HasRoom, OwnedPartition
from ingest.membership.plan import Role
from ingest.reporting.observer import Condition, Observer
from slotlog.errors import LogDamagedError, LogUnavailableError
from slotlog.log import Reader
from slotlog.shared.shown_errors import shown_error

_RETRY_SECONDS_MAX: Final = {Condition.OPENING: 5.0, Condition.WAITING: 5.0, Condition.STOPPED: 60.0}
_GUARD_SECONDS: Final = 1.0
_OPENING_BYTES: Final = 1 << 20
"""What an opening writes beside the tables of what is in the write-ahead log alone: new logs, the manifest."""

logger = structlog.get_logger(__name__)

Guard = Callable[[], str]
"""Says why nothing may be written now, such as a full disk; empty when it may."""


class Conditions:
    """Sets partitions aside with their reasons, and opens them again.

    Args:
        partitions: the owned ones.
        observer: told of every change.
        guard: asked once a second whether writing is wise; None: it is.
        has_room: asked, where the guard objects, whether a store may be open all the same.

    Attributes:
        stopped_outside: partitions that were set aside outside of the loop, and are to be paused in its next turn.
    """

    def __init__(
        self, partitions: Mapping[int, OwnedPartition], observer: Observer, guard: Guard | None, has_room: HasRoom
    ) -> None:
        self.stopped_outside: set[int] = set()
        self.guard = guard
        self.has_room = has_room
        self._partitions = partitions
        self._observer = observer
        self._guard_at = 0.0

    def set_running(self, partition: int) -> None:
        """Set a partition's condition to running."""
        self._set(partition, Condition.RUNNING, "")

    def set_aside(self, partition: int, condition: Condition, reason: str, reader: Reader | None = None) -> None:
        """Set a partition to waiting or stopped, and pause it in `reader`."""
        owned = self._partitions[partition]
        owned.on_trial = False
        owned.retry_at = monotonic() + owned.retry_seconds
        owned.retry_seconds = min(_RETRY_SECONDS_MAX[condition], owned.retry_seconds * 2)
        if owned.worker.is_open:
            owned.position = owned.worker.machine.position
        self._set(partition, condition, reason)  # first: who hears that its write failed may send the next one at once
        if owned.local_appends is not None:
            owned.local_appends.give_up(reason)
        if condition is Condition.STOPPED:
            self.close(partition)
        if reader is not None:
            reader.pause(partition)

    def wait_for_disk(self, partition: int, reason: str) -> None:
        """Set a partition aside whose store had no room for a write: it is read until it can be opened again.

        Or for its opening, which is tried again. Who has nobody to ask for room, as a replay, is told at once.
        """
        self.set_aside(partition, Condition.STOPPED if self.guard is None else Condition.WAITING, reason)
        self._partitions[partition].opens_again = self.guard is not None

    def stop_outside(self, partition: int, reason: str, *, is_full: bool = False) -> None:
        """Stop a partition whose store must be reopened, from outside of the loop, which opens it again.

        At once: whatever a write that failed may have left in the store, its machine does not know of it. One that
        `is_full` has written nothing.
        """
        self.stopped_outside.add(partition)
        if is_full:
            self.wait_for_disk(partition, reason)
        else:
            self.set_aside(partition, Condition.STOPPED, reason)

    def let_go(self, partition: int, reader: Reader) -> None:
        """Close a partition that this process gives up, as if it had never had it, or follows from now on."""
        owned = self._partitions[partition]
        owned.leave()
        self.close(partition)
        reader.pause(partition)
        self.stopped_outside.discard(partition)
        owned.begin_anew()
        self._observer.condition(partition, Condition.OPENING, "")

    def close(self, partition: int) -> None:
        """Close a store. An error, such as after a failed write, does not affect other partitions."""
        try:
            self._partitions[partition].worker.close()
        except OSError as error:
            logger.error("store_not_closed_well", partition=partition, error=str(error))  # noqa: TRY400 - no bug of ours

    def ask_guard(self, reader: Reader) -> None:
        """Set all partitions to waiting if the guard objects to writing; it is asked once a second."""
        if self.guard is None or monotonic() < self._guard_at:
            return
        self._guard_at = monotonic() + _GUARD_SECONDS
        reason = self._reason_to_wait()
        if not reason:
            return
        for partition, owned in self._partitions.items():
            if owned.condition is Condition.RUNNING:
                self.set_aside(partition, Condition.WAITING, reason, reader)
                owned.waits_for_room = True

    def due(self) -> Iterator[int]:
        """The partitions whose next try is due."""
        for partition, owned in self._partitions.items():
            if owned.condition is Condition.RUNNING or owned.on_trial or monotonic() < owned.retry_at:
                continue
            if partition not in self.stopped_outside:  # while another one was tried: the next turn pauses it first
                yield partition

    async def try_again(self, partition: int, reader: Reader) -> bool:
        """Open a partition and hold it against the log, or set it aside anew with the newest reason.

        Returns:
            Whether others may be tried: not where the log is away, as each would wait for it, one after the other.
        """
        owned = self._partitions[partition]
        if owned.is_still_damaged():
            self.set_aside(partition, owned.condition, owned.reason)
            return True
        if owned.opens_again:  # it needs room for all that is in its write-ahead log alone
            wal_bytes = owned.worker.store.wal_bytes() if owned.worker.is_open else 0  # else it tells when it is tried
            if not self.has_room(wal_bytes + _OPENING_BYTES):
                self.wait_for_disk(partition, owned.reason)
                return True
            self.close(partition)
        reason = self._reason_to_wait()
        if reason and (owned.worker.is_open or not self._may_wait_open(owned)):
            self.set_aside(partition, owned.condition, reason)
            owned.waits_for_room = owned.worker.is_open
            return True
        try:
            if not owned.worker.is_open:
                owned.worker.open()
            await owned.pass_by_unreadable()
            owned.worker.take_decision()
            await owned.worker.check()
        except LogUnavailableError as error:
            # A follower's readers know that what they read may be old, and a state of before is of this log.
            waits = owned.role is Role.FOLLOWER and owned.condition is Condition.OPENING and owned.worker.is_open
            self.set_aside(partition, Condition.WAITING if waits else owned.condition, str(error))
            return isinstance(error, LogDamagedError)
        except StoreFullError as error:
            self.wait_for_disk(partition, str(error))
            return True
        except IndexUnavailableError as error:  # no state to mend: it is tried as often as a log that is away
            owned.retry_seconds = min(owned.retry_seconds, _RETRY_SECONDS_MAX[Condition.WAITING])
            self.set_aside(partition, Condition.STOPPED, str(error))
            return True
        except Exception as error:  # noqa: BLE001 - it stays stopped, with the newest reason
            self.set_aside(partition, Condition.STOPPED, shown_error(error))
            return True
        if partition not in self.stopped_outside:  # by the cleaner meanwhile: it is closed again
            self._go_on(partition, reason, reader)
        return True

    def _go_on(self, partition: int, reason: str, reader: Reader) -> None:
        """A partition is open, and fits its log; it waits if there is a `reason`."""
        owned = self._partitions[partition]
        if reason:
            owned.retry_seconds = RETRY_SECONDS_MIN  # that it could be opened is a success
            self.set_aside(partition, Condition.WAITING, reason)
            owned.waits_for_room = True
            return
        reader.seek(partition, owned.worker.machine.next_offset)
        reader.resume(partition)
        owned.position = owned.worker.machine.position
        if owned.stopped_by_record or owned.holds_record:
            owned.on_trial = True
        else:
            self.set_running(partition)

    def _reason_to_wait(self) -> str:
        try:
            return "" if self.guard is None else self.guard()
        except OSError as error:  # such as the data directory's disk, gone
            return str(error)

    def _may_wait_open(self, owned: OwnedPartition) -> bool:
        """Whether a stopped partition may wait for room, to be read and cleaned: no operator has to skip in it."""
        return not owned.stopped_by_record and owned.unreadable_offset is None and self.has_room(0)

    def _set(self, partition: int, condition: Condition, reason: str) -> None:
        owned = self._partitions[partition]
        owned.waits_for_room = owned.opens_again = False
        if (owned.condition, owned.reason) != (condition, reason):
            owned.condition, owned.reason = condition, reason
            self._observer.condition(partition, condition, reason)

"""The loop that fetches records of the owned partitions and lets each partition's worker apply them.

Offsets come from the state, never from a consumer group. A partition that cannot go on is set aside with its reason
while the others go on, and is tried again by itself, from what its store says:

    waiting   something outside is away (log, dead-letter store, disk space, RocksDB behind); the store stays open,
              and where it is disk space, the cleaner goes on (ingest/cleaning/cleaner.py)
    stopped   a record or the store cannot be applied (a bug, damage, another log); the store is closed, so that an
              operator can work on it: `slotlog skip`, `slotlog replay`
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final

import structlog

from engine.errors import CorruptionError, PartitionStoppedError, StoreBusyError
from ingest.applying.local_appends import apply_fetched
from ingest.applying.owned_partition import RETRY_SECONDS_MIN, HasRoom, OwnedPartition, no_room
from ingest.applying.watch import Watch
from ingest.applying.worker import Worker
from ingest.reporting.observer import Condition, Observer
from slotlog.errors import LogDamagedError, LogMismatchError, LogRecordError, LogUnavailableError, RecordHeldError
from slotlog.log import Log, LogRecord, Reader
from slotlog.shared.shown_errors import named_error, shown_error

_FETCH_WAIT_MS: Final = 200
_FETCH_RECORDS_MAX: Final = 20_000
_RETRY_SECONDS_MAX: Final = {Condition.WAITING: 5.0, Condition.STOPPED: 60.0}
_GUARD_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)

Guard = Callable[[], str]
"""Says why nothing may be written now, such as a full disk; empty when it may."""


class Consumer:
    """Applies the owned partitions of one log, in one task.

    Args:
        workers: one for each owned partition, closed.
        observer: told of every batch and every change.
        guard: asked once a second whether writing is wise.
        identity_seconds: how often the log is held against the state, to notice another one in its place.
        has_room: asked, where the guard objects, whether a store may be open all the same.

    Attributes:
        alive_at: when its loop last got on, on the monotonic clock; 0 before it began. Waiting for the log is no halt.
    """

    def __init__(
        self,
        log: Log,
        workers: Mapping[int, Worker],
        observer: Observer,
        guard: Guard | None = None,
        *,
        identity_seconds: float = 60.0,
        has_room: HasRoom = no_room,
    ) -> None:
        self.partitions = {partition: OwnedPartition(worker) for partition, worker in workers.items()}
        self._log = log
        self._observer = observer
        self._guard = guard
        self._guard_at = 0.0
        self._has_room = has_room
        self._stopped_outside: set[int] = set()
        self.alive_at = 0.0
        self._watch = Watch(log, self.partitions, observer, identity_seconds)
        for partition, owned in self.partitions.items():
            owned.stop = partial(self.set_aside, partition)

    @property
    def log_heard_at(self) -> float:
        """When the log last answered, on the monotonic clock; 0 before it did."""
        return self._watch.heard_at

    # ------------------------------------------------------------------ life

    async def open(self) -> None:
        """Open every partition and hold it against the log.

        A partition that is damaged, or whose directory cannot be used, is set aside; where none can be used, and what
        else does not fit, is a mistake in the settings and refuses the start.

        Raises:
            StateMismatchError, LogMismatchError, LogUnavailableError, OSError: nothing is open or running then; it can
                be called again.
        """
        try:
            await self._open_each()
        except BaseException:
            self.close()
            raise
        for partition, owned in self.partitions.items():
            if owned.worker.is_open:
                owned.position = owned.worker.machine.position
                self._set(partition, Condition.RUNNING, "")

    async def _open_each(self) -> None:
        unusable: list[OSError] = []
        for partition, owned in self.partitions.items():
            try:
                owned.worker.open()
            except BlockingIOError:  # another process has it
                raise
            except (CorruptionError, OSError) as error:
                if isinstance(error, OSError):
                    unusable.append(error)
                self._set_aside(partition, Condition.STOPPED, str(error))
                continue
            try:
                await owned.worker.check()
            except LogDamagedError as error:
                self._set_aside(partition, Condition.STOPPED, str(error))
        if len(unusable) == len(self.partitions):
            raise unusable[0]

    def close(self) -> None:
        """Close every store."""
        for partition, owned in self.partitions.items():
            self._close_worker(partition, owned)

    async def run(self, stop: asyncio.Event) -> None:
        """Apply until `stop` is set, after `open`. Ends between two batches, with everything applied committed."""
        reader = self._reader()
        watch = asyncio.create_task(self._watch.run())
        try:
            while not stop.is_set():
                await self._turn(reader)
                if watch.done():
                    watch.result()
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            await reader.close()
            with contextlib.suppress(LogUnavailableError):
                await self._watch.commit()

    async def run_to(self, ends: Mapping[int, int], turned: Callable[[], None] = lambda: None) -> None:
        """Apply until each partition in `ends` has reached its offset there, after `open`. For replays and demos.

        Args:
            ends: offset by partition.
            turned: called after each turn, to show progress.

        Raises:
            RuntimeError: a partition stopped; its reason is in the message. What is away is waited for.
        """
        reader = self._reader()
        try:
            while any(self.partitions[p].worker.machine.next_offset < end for p, end in ends.items()):
                await self._turn(reader, ends)
                for partition, owned in self.partitions.items():
                    if owned.condition is Condition.STOPPED:
                        message = f"partition {partition} stopped: {owned.reason}"
                        raise RuntimeError(message)
                turned()
        finally:
            await reader.close()

    def _reader(self) -> Reader:
        """A reader of all owned partitions; those that could not be opened are paused until they can."""
        positions = {partition: owned.committed for partition, owned in self.partitions.items()}
        reader = self._log.reader({partition: at.next_offset if at else 0 for partition, at in positions.items()})
        for partition, owned in self.partitions.items():
            owned.pass_by = reader.pass_by
            if owned.condition is not Condition.RUNNING:
                reader.pause(partition)
        return reader

    def set_aside(self, partition: int, reason: str) -> None:
        """Stop a partition whose store must be reopened, from outside of the loop, which opens it again.

        At once: whatever a write that failed may have left in the store, its machine does not know of it.
        """
        self._stopped_outside.add(partition)
        self._set_aside(partition, Condition.STOPPED, reason)

    # ------------------------------------------------------------------ one turn

    async def _turn(self, reader: Reader, ends: Mapping[int, int] | None = None) -> None:
        self.alive_at = monotonic()
        while self._stopped_outside:
            reader.pause(self._stopped_outside.pop())
        self._ask_guard(reader)
        self._stop_mismatched(reader)
        await self._try_again(reader)
        running = [p for p, owned in self.partitions.items() if owned.condition is Condition.RUNNING or owned.on_trial]
        for partition in running:
            reader.pass_by(partition, self.partitions[partition].worker.machine.next_offset)
        try:
            fetched = await reader.fetch(_FETCH_WAIT_MS, _FETCH_RECORDS_MAX)
        except LogRecordError as error:
            owned = self.partitions[error.partition]
            owned.unreadable_offset = error.offset
            if owned.local_appends is None and owned.worker.is_open and _pass_by_unreadable(owned):
                return  # as in a replay
            self._set_aside(error.partition, Condition.STOPPED, str(error))
            reader.pause(error.partition)
            return
        except LogUnavailableError as error:
            if running:
                logger.warning("log_unavailable", error=str(error))
            condition = Condition.STOPPED if isinstance(error, LogDamagedError) else Condition.WAITING
            for partition in running:
                self._set_aside(partition, condition, str(error))
                reader.pause(partition)
            await asyncio.sleep(RETRY_SECONDS_MIN)
            return
        except LogMismatchError as error:
            await self._find_mismatch(reader, error)
            await asyncio.sleep(RETRY_SECONDS_MIN)  # nothing above need wait: the loop would never turn
            return
        for partition in running:
            self.alive_at = monotonic()
            if partition in self._stopped_outside:
                continue
            records = fetched.get(partition, [])
            to_position = reader.position(partition)
            if ends is not None and to_position > ends.get(partition, 0):
                to_position = ends.get(partition, 0)
                records = [record for record in records if record[0] < to_position]
            owned = self.partitions[partition]
            local, applied_to = owned.local_appends, owned.worker.machine.next_offset
            if records or to_position > applied_to or (local is not None and local.in_trouble):
                await self._apply(reader, partition, records, to_position)

    async def _apply(self, reader: Reader, partition: int, records: Sequence[LogRecord], end: int) -> None:
        owned = self.partitions[partition]
        try:
            if owned.local_appends is None:
                start = owned.worker.machine.next_offset
                await owned.worker.apply(records, start, end, partial(reader.headers, partition))
            else:
                await apply_fetched(owned, owned.local_appends, records, end, partial(reader.headers, partition))
        except (LogUnavailableError, StoreBusyError, RecordHeldError) as error:
            owned.holds_record = isinstance(error, RecordHeldError)
            self._set_aside(partition, Condition.WAITING, str(error))
        except CorruptionError as error:
            if owned.worker.is_open:
                owned.note_damage()
            self._set_aside(partition, Condition.STOPPED, str(error))
        except Exception as error:
            if partition in self._stopped_outside:  # while this was under way: the reason is known
                self._set_aside(partition, Condition.STOPPED, owned.reason)
                return
            owned.stopped_by_record = isinstance(error, PartitionStoppedError)
            reason = str(error) if owned.stopped_by_record else named_error(error)
            if reason != owned.reason:
                logger.exception("partition_failed", partition=partition, exc_info=error)
            self._set_aside(partition, Condition.STOPPED, reason)
        else:
            if partition in self._stopped_outside:
                return
            owned.retry_seconds = RETRY_SECONDS_MIN
            owned.on_trial = owned.stopped_by_record = owned.holds_record = False
            self._set(partition, Condition.RUNNING, "")
            return
        reader.pause(partition)

    async def _find_mismatch(self, reader: Reader, error: LogMismatchError) -> None:
        """A reader does not say which partition it could not read: ask each."""
        found = False
        for partition, owned in self.partitions.items():
            if owned.condition is not Condition.RUNNING:
                continue
            try:
                await owned.worker.check()
            except LogMismatchError as mismatch:
                self._set_aside(partition, Condition.STOPPED, str(mismatch))
                reader.pause(partition)
                found = True
            except LogUnavailableError:
                found = True
        if not found:
            for partition, owned in self.partitions.items():
                if owned.condition is Condition.RUNNING:
                    self._set_aside(partition, Condition.STOPPED, str(error))
                    reader.pause(partition)

    # ------------------------------------------------------------------ partitions set aside

    def _ask_guard(self, reader: Reader) -> None:
        if self._guard is None or monotonic() < self._guard_at:
            return
        self._guard_at = monotonic() + _GUARD_SECONDS
        reason = self._reason_to_wait()
        if not reason:
            return
        for partition, owned in self.partitions.items():
            if owned.condition is Condition.RUNNING:
                self._set_aside(partition, Condition.WAITING, reason)
                owned.waits_for_room = True
                reader.pause(partition)

    def _reason_to_wait(self) -> str:
        try:
            return "" if self._guard is None else self._guard()
        except OSError as error:  # such as the data directory's disk, gone
            return str(error)

    def _stop_mismatched(self, reader: Reader) -> None:
        """Stop what the watch found to be another log, here between two batches."""
        while self._watch.mismatches:
            partition, reason = self._watch.mismatches.popitem()
            if self.partitions[partition].condition is Condition.RUNNING:  # else the loop has found out by itself
                self._set_aside(partition, Condition.STOPPED, reason)
                reader.pause(partition)

    async def _try_again(self, reader: Reader) -> None:
        for partition, owned in self.partitions.items():
            if owned.condition is Condition.RUNNING or owned.on_trial or monotonic() < owned.retry_at:
                continue
            if partition in self._stopped_outside:  # while another one was tried: the next turn pauses it first
                continue
            self.alive_at = monotonic()
            if owned.is_still_damaged():
                self._set_aside(partition, owned.condition, owned.reason)
                continue
            reason = self._reason_to_wait()
            if reason and (owned.worker.is_open or not self._may_wait_open(owned)):
                self._set_aside(partition, owned.condition, reason)
                owned.waits_for_room = owned.worker.is_open
                continue
            try:
                if not owned.worker.is_open:
                    owned.worker.open()
                _pass_by_unreadable(owned)
                owned.worker.take_decision()
                await owned.worker.check()
            except LogUnavailableError as error:
                self._set_aside(partition, owned.condition, str(error))
                if not isinstance(error, LogDamagedError):
                    return  # the others would wait for the same log, one time-out after the other
            except Exception as error:  # noqa: BLE001 - it stays stopped, with the newest reason
                self._set_aside(partition, Condition.STOPPED, shown_error(error))
            else:
                if partition in self._stopped_outside:  # by the cleaner meanwhile: it is closed again
                    continue
                if reason:
                    owned.retry_seconds = RETRY_SECONDS_MIN  # that it could be opened is a success
                    self._set_aside(partition, Condition.WAITING, reason)
                    owned.waits_for_room = True
                    continue
                reader.seek(partition, owned.worker.machine.next_offset)
                reader.resume(partition)
                owned.position = owned.worker.machine.position
                if owned.stopped_by_record or owned.holds_record:
                    owned.on_trial = True
                else:
                    self._set(partition, Condition.RUNNING, "")

    def _may_wait_open(self, owned: OwnedPartition) -> bool:
        """Whether a stopped partition may wait for room, to be read and cleaned: no operator has to skip in it."""
        return not owned.stopped_by_record and owned.unreadable_offset is None and self._has_room(0)

    def _set_aside(self, partition: int, condition: Condition, reason: str) -> None:
        owned = self.partitions[partition]
        owned.on_trial = False
        owned.retry_at = monotonic() + owned.retry_seconds
        owned.retry_seconds = min(_RETRY_SECONDS_MAX[condition], owned.retry_seconds * 2)
        if owned.worker.is_open:
            owned.position = owned.worker.machine.position
        self._set(partition, condition, reason)  # first: who hears that its write failed may send the next one at once
        if owned.local_appends is not None:
            owned.local_appends.give_up(reason)
        if condition is Condition.STOPPED:
            self._close_worker(partition, owned)

    def _set(self, partition: int, condition: Condition, reason: str) -> None:
        owned = self.partitions[partition]
        owned.waits_for_room = False
        if (owned.condition, owned.reason) != (condition, reason):
            owned.condition, owned.reason = condition, reason
            self._observer.condition(partition, condition, reason)

    def _close_worker(self, partition: int, owned: OwnedPartition) -> None:
        """Close a store; one that cannot be closed well, as after a failed write, takes no other partition along."""
        try:
            owned.worker.close()
        except OSError as error:
            logger.error("store_not_closed_well", partition=partition, error=str(error))  # noqa: TRY400 - no bug of ours


def _pass_by_unreadable(owned: OwnedPartition) -> bool:
    """Go past records that the log cannot give, if an operator has decided so: they are never fetched to be skipped."""
    machine, offset = owned.worker.machine, owned.unreadable_offset
    if offset is not None and offset == machine.next_offset < (end := machine.position.skips.end_from(offset)):
        owned.worker.path.pass_by(end)
        owned.unreadable_offset = None
    return owned.unreadable_offset is None

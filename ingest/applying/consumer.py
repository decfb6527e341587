"""Applies the owned partitions: fetches their records in a loop and passes them to each partition's worker.

Offsets come from the state, never from a consumer group. A partition that cannot go on is set aside with its reason
while the others go on, and is tried again by itself, from what its store says (partitions/conditions.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Final

import structlog

from engine.errors import (
    CorruptionError,
    IndexUnavailableError,
    PartitionStoppedError,
    StoreBusyError,
    StoreFullError,
)
from ingest.applying.batches.worker import Worker
from ingest.applying.local_appends import apply_fetched
from ingest.applying.partitions.conditions import Conditions, Guard
from ingest.applying.partitions.owned_partition import RETRY_SECONDS_MIN, HasRoom, OwnedPartition, no_room
from ingest.applying.partitions.roles import Roles, to_be_applied
from ingest.applying.watch import COMMIT_SECONDS, Watch
from ingest.membership.plan import Role
from ingest.reporting.observer import Condition, Observer
from slotlog.errors import LogDamagedError, LogMismatchError, LogRecordError, LogUnavailableError, RecordHeldError
from slotlog.log import Log, LogRecord, Reader
from slotlog.shared.shown_errors import named_error

_FETCH_WAIT_MS: Final = 200
_FETCH_RECORDS_MAX: Final = 20_000

logger = structlog.get_logger(__name__)


class Consumer:
    """Applies the owned partitions of one log, in one task.

    Args:
        workers: one for each partition that it may apply, closed.
        observer: told of every batch and every change.
        guard: asked once a second whether writing is wise.
        identity_seconds: how often the log is held against the state, to notice another one in its place.
        has_room: asked, where the guard objects, whether a store may be open all the same.
        role: of each partition at the start.
        commit_seconds: how often lag tools are told how far the owned partitions are.

    Attributes:
        roles: lets partitions be taken and given up while it runs.
        partitions: those that it applies now, as owner or follower.
        owned: those of them that it owns.
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
        role: Role = Role.OWNER,
        commit_seconds: float = COMMIT_SECONDS,
    ) -> None:
        self.every = {partition: OwnedPartition(worker, role) for partition, worker in workers.items()}
        self.roles = Roles(self.every)
        self.partitions = self.roles.applied
        self.owned = self.roles.owned
        self._log = log
        self.conditions = Conditions(self.partitions, observer, guard, has_room)
        self.alive_at = 0.0
        self._watch = Watch(log, self.partitions, self.roles.owned, observer, identity_seconds, commit_seconds)
        for partition, owned in self.every.items():
            owned.stop = partial(self.conditions.stop_outside, partition)

    @property
    def log_heard_at(self) -> float:
        """When the log last answered, on the monotonic clock; 0 before it did."""
        return self._watch.heard_at

    @property
    def log_trouble(self) -> str:
        """Why the log did not answer when it was asked last; empty where it did."""
        return self._watch.trouble

    # ------------------------------------------------------------------ life

    async def open(self) -> None:
        """Open every partition and hold it against the log.

        A partition that is damaged, whose directory cannot be used, or whose disk is full, is set aside; where no
        directory can be used, and what else does not fit, is a mistake in the settings and refuses the start.

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
                self.conditions.set_running(partition)

    async def _open_each(self) -> None:
        unusable: list[OSError] = []
        for partition, owned in self.partitions.items():
            try:
                owned.worker.open()
            except BlockingIOError:  # another process has it
                raise
            except StoreFullError as error:
                if self.conditions.guard is None:
                    raise
                self.conditions.wait_for_disk(partition, str(error))
                continue
            except (CorruptionError, OSError) as error:
                if isinstance(error, OSError):
                    unusable.append(error)
                self.conditions.set_aside(partition, Condition.STOPPED, str(error))
                continue
            try:
                await owned.worker.check()
            except LogDamagedError as error:
                self.conditions.set_aside(partition, Condition.STOPPED, str(error))
        if unusable and len(unusable) == len(self.partitions):
            raise unusable[0]

    def close(self) -> None:
        """Close every store."""
        for partition in self.partitions:
            self.conditions.close(partition)

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
        positions = {partition: owned.committed for partition, owned in self.every.items()}
        reader = self._log.reader({partition: at.next_offset if at else 0 for partition, at in positions.items()})
        for partition, owned in self.every.items():
            owned.pass_by = reader.pass_by
            if owned.condition is not Condition.RUNNING:
                reader.pause(partition)
        return reader

    # ------------------------------------------------------------------ one turn

    async def _turn(self, reader: Reader, ends: Mapping[int, int] | None = None) -> None:
        self.alive_at = monotonic()
        self.roles.take_effect(self.conditions, reader)
        while self.conditions.stopped_outside:
            reader.pause(self.conditions.stopped_outside.pop())
        self.conditions.ask_guard(reader)
        self._stop_mismatched(reader)
        for partition in self.conditions.due():
            self.alive_at = monotonic()
            if not await self.conditions.try_again(partition, reader):
                break
        self.roles.hold_back(reader)
        running = [p for p, owned in self.partitions.items() if owned.condition is Condition.RUNNING or owned.on_trial]
        for partition in running:
            reader.pass_by(partition, self.partitions[partition].worker.machine.next_offset)
        try:
            fetched = await reader.fetch(_FETCH_WAIT_MS, _FETCH_RECORDS_MAX)
        except LogRecordError as error:
            owned = self.partitions[error.partition]
            owned.unreadable_offset = error.offset
            if owned.local_appends is None and owned.worker.is_open and await owned.pass_by_unreadable():
                return  # as in a replay
            self.conditions.set_aside(error.partition, Condition.STOPPED, str(error), reader)
            return
        except LogUnavailableError as error:
            if running:
                logger.warning("log_unavailable", error=str(error))
            condition = Condition.STOPPED if isinstance(error, LogDamagedError) else Condition.WAITING
            for partition in running:
                self.conditions.set_aside(partition, condition, str(error), reader)
            await asyncio.sleep(RETRY_SECONDS_MIN)
            return
        except LogMismatchError as error:
            await self._find_mismatch(reader, error)
            await asyncio.sleep(RETRY_SECONDS_MIN)  # nothing above need wait: the loop would never turn
            return
        for partition in running:
            self.alive_at = monotonic()
            if partition in self.conditions.stopped_outside:
                continue
            owned = self.partitions[partition]
            records, to_offset = to_be_applied(partition, owned, reader, fetched.get(partition, []))
            if ends is not None and to_offset > ends.get(partition, 0):
                to_offset = ends.get(partition, 0)
                records = [record for record in records if record[0] < to_offset]
            local, applied_to = owned.local_appends, owned.worker.machine.next_offset
            if records or to_offset > applied_to or (local is not None and local.in_trouble):
                await self._apply(reader, partition, records, to_offset)

    async def _apply(self, reader: Reader, partition: int, records: list[LogRecord], end: int) -> None:
        owned = self.partitions[partition]
        try:
            if owned.local_appends is None:
                start = owned.worker.machine.next_offset
                await owned.worker.apply(records, start, end, partial(reader.headers, partition))
            else:
                await apply_fetched(owned, owned.local_appends, records, end, partial(reader.headers, partition))
        except (LogUnavailableError, StoreBusyError, RecordHeldError) as error:
            owned.holds_record = isinstance(error, RecordHeldError)
            self.conditions.set_aside(partition, Condition.WAITING, str(error))
        except StoreFullError as error:
            self.conditions.wait_for_disk(partition, str(error))
        except IndexUnavailableError as error:  # the store may have a batch that its machine does not know of
            self.conditions.set_aside(partition, Condition.STOPPED, str(error))
        except CorruptionError as error:
            if owned.worker.is_open:
                owned.note_damage()
            self.conditions.set_aside(partition, Condition.STOPPED, str(error))
        except Exception as error:
            if partition in self.conditions.stopped_outside:  # while this was under way: the reason is known
                self.conditions.set_aside(partition, Condition.STOPPED, owned.reason)
                return
            owned.stopped_by_record = isinstance(error, PartitionStoppedError)
            reason = str(error) if owned.stopped_by_record else named_error(error)
            if reason != owned.reason:
                logger.exception("partition_failed", partition=partition, exc_info=error)
            self.conditions.set_aside(partition, Condition.STOPPED, reason)
        else:
            if partition in self.conditions.stopped_outside:
                return
            owned.retry_seconds = RETRY_SECONDS_MIN
            owned.on_trial = owned.stopped_by_record = owned.holds_record = False
            self.conditions.set_running(partition)
            return
        reader.pause(partition)

    async def _find_mismatch(self, reader: Reader, error: LogMismatchError) -> None:
        """Find the partition that the reader could not read, which it does not say, by asking each."""
        found = False
        for partition, owned in self.partitions.items():
            if owned.condition is not Condition.RUNNING:
                continue
            try:
                await owned.worker.check()
            except LogMismatchError as mismatch:
                self.conditions.set_aside(partition, Condition.STOPPED, str(mismatch), reader)
                found = True
            except LogUnavailableError:
                found = True
        if not found:
            for partition, owned in self.partitions.items():
                if owned.condition is Condition.RUNNING:
                    self.conditions.set_aside(partition, Condition.STOPPED, str(error), reader)

    def _stop_mismatched(self, reader: Reader) -> None:
        """Stop, between two batches, the partitions whose log the watch found to be another one."""
        while self._watch.mismatches:
            partition, reason = self._watch.mismatches.popitem()
            if self.partitions[partition].condition is Condition.RUNNING:  # else the loop has found out by itself
                self.conditions.set_aside(partition, Condition.STOPPED, reason, reader)

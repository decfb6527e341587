"""Log to state: the loop that fetches records of the owned partitions and lets each partition's worker apply them.

Offsets come from the state, never from a consumer group. A partition that cannot go on is set aside with its reason
while the others go on, and is tried again by itself, from what its store says:

    waiting   something outside is away (log, dead-letter store, disk space, RocksDB behind); the store stays open
    stopped   a record or the store cannot be applied (a bug, damage, another log); the store is closed, so that an
              operator can work on it: `slotlog skip`, `slotlog replay`
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Final

import structlog

from engine.errors import CorruptionError, PartitionStoppedError, StoreBusyError
from engine.system import Position
from ingest.clock import now_ms
from ingest.errors import LogMismatchError, LogUnavailableError
from ingest.log import Log, LogRecord, Reader
from ingest.observer import Condition, Observer
from ingest.worker import Worker

_FETCH_WAIT_MS: Final = 200
_FETCH_RECORDS_MAX: Final = 20_000
_RETRY_SECONDS_MIN: Final = 1.0
_RETRY_SECONDS_MAX: Final = {Condition.WAITING: 5.0, Condition.STOPPED: 60.0}
_LAG_SECONDS: Final = 2.0
_COMMIT_SECONDS: Final = 5.0
_GUARD_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)

Guard = Callable[[], str]
"""Says why nothing may be written now, such as a full disk; empty when it may."""


@dataclass(slots=True)
class Seat:
    """One owned partition and how it is.

    Attributes:
        stopped_by_record: why it is not running is a record, not its store or its log.
        on_trial: open again after a record stopped it; it counts as stopped until a batch is committed.
        position: the committed one, also while the worker is closed; None before it was open.
        caught_up_ms: wall time at which nothing was left to apply; 0 if that was never seen.
        retry_at: on the monotonic clock.
    """

    worker: Worker
    condition: Condition = Condition.OPENING
    reason: str = ""
    on_trial: bool = False
    position: Position | None = None
    caught_up_ms: int = 0
    retry_at: float = 0.0
    retry_seconds: float = field(default=_RETRY_SECONDS_MIN)
    stopped_by_record: bool = False


class Consumer:
    """Applies the owned partitions of one log, in one task.

    Args:
        workers: one for each owned partition, closed.
        observer: told of every batch and every change.
        guard: asked once a second whether writing is wise.
        identity_seconds: how often the log is held against the state, to notice another one in its place.
    """

    def __init__(
        self,
        log: Log,
        workers: Mapping[int, Worker],
        observer: Observer,
        guard: Guard | None = None,
        *,
        identity_seconds: float = 60.0,
    ) -> None:
        self.seats = {partition: Seat(worker) for partition, worker in workers.items()}
        self._log = log
        self._observer = observer
        self._guard = guard
        self._guard_at = 0.0
        self._identity_seconds = identity_seconds
        self._mismatches: dict[int, str] = {}

    # ------------------------------------------------------------------ life

    async def open(self) -> None:
        """Open every partition and hold it against the log.

        A damaged partition is set aside; anything else that does not fit is a mistake in the settings and refuses the
        start.

        Raises:
            StateMismatchError, LogMismatchError, OSError: nothing stays open then.
        """
        try:
            for partition, seat in self.seats.items():
                try:
                    seat.worker.open()
                except CorruptionError as error:
                    self._set_aside(partition, Condition.STOPPED, str(error))
                    continue
                await seat.worker.check()
                seat.position = seat.worker.machine.position
                self._set(partition, Condition.RUNNING, "")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every store."""
        for partition, seat in self.seats.items():
            self._close_worker(partition, seat)

    async def run(self, stop: asyncio.Event) -> None:
        """Apply until `stop` is set, after `open`. Ends between two batches, with everything applied committed."""
        reader = self._reader()
        watch = asyncio.create_task(self._watch())
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
                await self._log.commit(self._positions())

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
            while any(self.seats[p].worker.machine.next_offset < end for p, end in ends.items()):
                await self._turn(reader, ends)
                for partition, seat in self.seats.items():
                    if seat.condition is Condition.STOPPED:
                        message = f"partition {partition} stopped: {seat.reason}"
                        raise RuntimeError(message)
                turned()
        finally:
            await reader.close()

    def _reader(self) -> Reader:
        """A reader of all owned partitions; those that could not be opened are paused until they can."""
        reader = self._log.reader({**dict.fromkeys(self.seats, 0), **self._positions()})
        for partition, seat in self.seats.items():
            if seat.condition is not Condition.RUNNING:
                reader.pause(partition)
        return reader

    # ------------------------------------------------------------------ one turn

    async def _turn(self, reader: Reader, ends: Mapping[int, int] | None = None) -> None:
        self._ask_guard(reader)
        self._stop_mismatched(reader)
        await self._try_again(reader)
        running = [p for p, seat in self.seats.items() if seat.condition is Condition.RUNNING or seat.on_trial]
        before = {partition: reader.position(partition) for partition in running}
        try:
            fetched = await reader.fetch(_FETCH_WAIT_MS, _FETCH_RECORDS_MAX)
        except LogUnavailableError as error:
            if running:
                logger.warning("log_unavailable", error=str(error))
            for partition in running:
                self._set_aside(partition, Condition.WAITING, str(error))
                reader.pause(partition)
            await asyncio.sleep(_RETRY_SECONDS_MIN)
            return
        except LogMismatchError as error:
            await self._find_mismatch(reader, error)
            return
        for partition in running:
            records = fetched.get(partition, [])
            to_position = reader.position(partition)
            if ends is not None and to_position > ends.get(partition, 0):
                to_position = ends.get(partition, 0)
                records = [record for record in records if record[0] < to_position]
            if records or to_position > before[partition]:
                await self._apply(reader, partition, records, before[partition], to_position)

    async def _apply(self, reader: Reader, partition: int, records: Sequence[LogRecord], start: int, end: int) -> None:
        seat = self.seats[partition]
        try:
            await seat.worker.apply(records, start, end, partial(reader.headers, partition))
        except (LogUnavailableError, StoreBusyError) as error:
            self._set_aside(partition, Condition.WAITING, str(error))
        except CorruptionError as error:
            self._set_aside(partition, Condition.STOPPED, str(error))
        except Exception as error:
            seat.stopped_by_record = isinstance(error, PartitionStoppedError)
            reason = str(error) if seat.stopped_by_record else f"{type(error).__name__}: {error}"
            if reason != seat.reason:
                logger.exception("partition_failed", partition=partition, exc_info=error)
            self._set_aside(partition, Condition.STOPPED, reason)
        else:
            seat.retry_seconds = _RETRY_SECONDS_MIN
            seat.on_trial = seat.stopped_by_record = False
            self._set(partition, Condition.RUNNING, "")
            return
        reader.pause(partition)

    async def _find_mismatch(self, reader: Reader, error: LogMismatchError) -> None:
        """A reader does not say which partition it could not read: ask each."""
        found = False
        for partition, seat in self.seats.items():
            if seat.condition is not Condition.RUNNING:
                continue
            try:
                await seat.worker.check()
            except LogMismatchError as mismatch:
                self._set_aside(partition, Condition.STOPPED, str(mismatch))
                reader.pause(partition)
                found = True
            except LogUnavailableError:
                found = True
        if not found:
            for partition, seat in self.seats.items():
                if seat.condition is Condition.RUNNING:
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
        for partition, seat in self.seats.items():
            if seat.condition is Condition.RUNNING:
                self._set_aside(partition, Condition.WAITING, reason)
                reader.pause(partition)

    def _reason_to_wait(self) -> str:
        try:
            return "" if self._guard is None else self._guard()
        except OSError as error:  # such as the data directory's disk, gone
            return str(error)

    def _stop_mismatched(self, reader: Reader) -> None:
        """Stop what the watch found to be another log, here between two batches."""
        while self._mismatches:
            partition, reason = self._mismatches.popitem()
            self._set_aside(partition, Condition.STOPPED, reason)
            reader.pause(partition)

    async def _try_again(self, reader: Reader) -> None:
        for partition, seat in self.seats.items():
            if seat.condition is Condition.RUNNING or seat.on_trial or monotonic() < seat.retry_at:
                continue
            reason = self._reason_to_wait()
            if reason:
                self._set_aside(partition, seat.condition, reason)
                continue
            try:
                if not seat.worker.is_open:
                    seat.worker.open()
                await seat.worker.check()
            except LogUnavailableError as error:
                self._set_aside(partition, seat.condition, str(error))
                return  # the others would wait for the same log, one time-out after the other
            except Exception as error:  # noqa: BLE001 - it stays stopped, with the newest reason
                self._set_aside(partition, Condition.STOPPED, str(error))
            else:
                reader.seek(partition, seat.worker.machine.next_offset)
                reader.resume(partition)
                seat.position = seat.worker.machine.position
                if seat.stopped_by_record:
                    seat.on_trial = True
                else:
                    self._set(partition, Condition.RUNNING, "")

    def _set_aside(self, partition: int, condition: Condition, reason: str) -> None:
        seat = self.seats[partition]
        seat.on_trial = False
        if seat.worker.is_open:
            seat.position = seat.worker.machine.position
        if condition is Condition.STOPPED:
            self._close_worker(partition, seat)
        seat.retry_at = monotonic() + seat.retry_seconds
        seat.retry_seconds = min(_RETRY_SECONDS_MAX[condition], seat.retry_seconds * 2)
        self._set(partition, condition, reason)

    def _set(self, partition: int, condition: Condition, reason: str) -> None:
        seat = self.seats[partition]
        if (seat.condition, seat.reason) != (condition, reason):
            seat.condition, seat.reason = condition, reason
            self._observer.condition(partition, condition, reason)

    def _close_worker(self, partition: int, seat: Seat) -> None:
        """Close a store; one that cannot be closed well, as after a failed write, takes no other partition along."""
        try:
            seat.worker.close()
        except OSError as error:
            logger.error("store_not_closed_well", partition=partition, error=str(error))  # noqa: TRY400 - no bug of ours

    def _positions(self) -> dict[int, int]:
        """The committed position of every partition that is open."""
        return {
            partition: seat.worker.machine.position.next_offset
            for partition, seat in self.seats.items()
            if seat.worker.is_open
        }

    # ------------------------------------------------------------------ beside the loop

    async def _watch(self) -> None:
        """Lag every 2 s, offsets for lag tools every 5 s, the log's identity every minute."""
        commit_at = monotonic() + _COMMIT_SECONDS
        identity_at = monotonic() + self._identity_seconds
        while True:
            try:
                if monotonic() >= identity_at:  # first: asking a deleted topic for its end takes a whole time-out
                    identity_at = monotonic() + self._identity_seconds
                    await self._check_identity()
                await self._report_lag()
                if monotonic() >= commit_at:
                    commit_at = monotonic() + _COMMIT_SECONDS
                    await self._log.commit(self._positions())
            except LogUnavailableError:
                pass  # the loop finds out as well, and says so
            except Exception as error:
                logger.exception("watch_failed", exc_info=error)
            await asyncio.sleep(min(_LAG_SECONDS, self._identity_seconds))

    async def _report_lag(self) -> None:
        for partition, seat in self.seats.items():
            end = await self._log.end_offset(partition)
            position = seat.worker.machine.position if seat.worker.is_open else seat.position
            if position is None:
                continue
            events = max(0, end - position.next_offset)
            if not events:
                seat.caught_up_ms = now_ms()
            since_ms = max(position.clock_ms, seat.caught_up_ms)
            self._observer.lag(partition, events, max(0.0, (now_ms() - since_ms) / 1000) if events else 0.0)

    async def _check_identity(self) -> None:
        for partition, seat in self.seats.items():
            if seat.condition is not Condition.RUNNING:
                continue
            try:
                await seat.worker.check()
            except LogUnavailableError:
                return
            except LogMismatchError as error:
                self._mismatches[partition] = str(error)

"""Applies a batch to the state of an open partition: from decoded records to one atomic write.

    Machine.apply -> dead letters acknowledged -> Machine.commit -> the observer is told

It waits for a store that is behind with its compactions. It saves the records before one that stops the partition. It
removes what is due before a record sets the clock back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, NoReturn

from engine.apply.machine import Applied, Machine, Record
from engine.cleaning.sweep import Sweeper, Swept
from engine.errors import DueLeftError, PartitionStoppedError, StoreBusyError
from engine.store.store import MaintainedStore
from engine.tables.system import Home
from ingest.applying.batches.patience import patience
from ingest.applying.slicing.fiber import AbandonedError
from ingest.applying.slicing.gate import Gate
from ingest.dead_letters.dead_letter import DeadLetters, letter_of
from ingest.reporting.observer import Observer
from slotlog.errors import LogUnavailableError
from slotlog.events import decode
from slotlog.log import Headers, HeadersOf, Log, LogRecord
from slotlog.shared.errors import InvariantError

if TYPE_CHECKING:
    from slotlog.log.tracing import Tracing

_SWEPT_KEYS_MAX: Final = 100  # about 5 ms of the event loop


def no_headers(_offset: int) -> Headers:
    """The headers of a record that has none."""
    return ()


class CommitPath:
    """Applies and commits batches of one open partition. Each opening of the store makes a new one.

    `run` is all of it. Who applies records by itself, in a fiber, between the reads of clients, commits them by
    `commit` and tells of them by `observe`.

    Args:
        home: which topic and partition.
        machine: the open one.
        store: behind it.
        gate: before it.
        log: the records' own.
        dead_letters: None for a replay, which sends none.
        observer: told of every batch that is committed.
        tell_swept: told of what has expired, once that is committed.
        tracing: makes spans of what is applied from the log; None: no spans.
        may_speak: whether dead letters may be sent now: another worker may own the partition by now.
        said_to: so far others have sent the dead letters when they owned the partition.

    Attributes:
        dead_letters: as above; it may change between two batches.
        headers_of: gives the headers of a record by offset, for dead letters and spans.
    """

    def __init__(
        self,
        home: Home,
        machine: Machine,
        store: MaintainedStore,
        gate: Gate,
        log: Log,
        dead_letters: DeadLetters | None,
        observer: Observer,
        tell_swept: Callable[[Swept], None],
        tracing: Tracing | None,
        may_speak: Callable[[], bool],
        said_to: Callable[[], int],
    ) -> None:
        self._topic, self._partition = home.topic, home.partition
        self._opened = machine
        self._store = store
        self._gate = gate
        self._log = log
        self.dead_letters = dead_letters
        self._observer = observer
        self._tell_swept = tell_swept
        self._tracing = tracing
        self._may_speak = may_speak
        self._said_to = said_to
        self.headers_of: HeadersOf = no_headers

    @property
    def _machine(self) -> Machine:
        if self._gate.machine is not self._opened:
            raise AbandonedError
        return self._opened

    def commit(self, last: LogRecord) -> None:
        """Commit what was applied up to the record `last`. Raises as `Machine.commit`."""
        self._machine.commit(self._log.fingerprint(self._partition, last))

    def observe(self, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Tell the observer of a batch that is committed."""
        self._observer.applied(self._partition, applied, value_bytes, seconds)

    async def pass_by(self, to_offset: int) -> None:
        """Go on to `to_offset`, before which the log gives no more records. Raises as `Machine.commit`."""
        await self._gate.call(partial(self._pass_by, to_offset))

    def _pass_by(self, to_offset: int) -> None:
        machine = self._machine
        machine.apply([], machine.next_offset, to_offset=to_offset)
        try:
            machine.commit(None)
        except BaseException:
            machine.rollback()
            raise

    async def run(
        self,
        batch: Sequence[LogRecord],
        decoded: Sequence[Record],
        value_bytes: int,
        began: float,
        *,
        waiting: Container[int] = frozenset(),
        to_offset: int = 0,
    ) -> Applied:
        """Apply and commit one batch, or its beginning.

        Args:
            batch: the records; they follow the last one that was applied.
            decoded: their events.
            value_bytes: how large their values are, for the observer.
            began: when work on them began, on `perf_counter`'s clock.
            waiting: the offsets whose outcome somebody waits for.
            to_offset: where the log went on after the last of them, when it passed by offsets without a record.

        Raises:
            PartitionStoppedError: everything before that record is applied and committed.
            LogUnavailableError: the dead-letter store is away, or this worker may not be the owner any more.
            StoreBusyError: RocksDB has been behind with its compactions for half a minute.
            AbandonedError: the store was closed meanwhile; nothing of what is not committed is left.
            Exception: the store failed; close it and open it again.
        """
        from_offset = self._machine.next_offset
        try:
            try:
                applied = await self._apply(decoded, from_offset, waiting, to_offset)
            except StoreBusyError:  # it was rolled back: a large collection was to be staged
                applied = await self._apply_patiently(decoded, from_offset, waiting, to_offset)
        except PartitionStoppedError as stop:
            count = await self._apply_before(stop.offset, batch, decoded, from_offset)
            if not isinstance(stop.__cause__, DueLeftError):
                raise
            await self._sweep()
            applied = await self._apply(decoded[count : count + 1], self._machine.next_offset, waiting)
            await self._finish(batch[count:], applied, 0, 0.0)
            applied.records += count
            return applied
        await self._finish(batch, applied, value_bytes, perf_counter() - began)
        return applied

    # ------------------------------------------------------------------ steps

    async def _apply(
        self, decoded: Sequence[Record], from_offset: int, waiting: Container[int] = frozenset(), to_offset: int = 0
    ) -> Applied:
        return await self._gate.call(partial(self._machine.apply, decoded, from_offset, waiting, to_offset))

    async def _apply_patiently(
        self, decoded: Sequence[Record], from_offset: int, waiting: Container[int], to_offset: int
    ) -> Applied:
        """Give RocksDB up to half a minute to catch up with its compactions; begin with the batch anew each time."""
        async for attempt in patience():
            with attempt:
                applied = await self._apply(decoded, from_offset, waiting, to_offset)
        return applied

    async def _finish(self, batch: Sequence[LogRecord], applied: Applied, value_bytes: int, seconds: float) -> None:
        """Store the dead letters of what was applied, commit it, and tell of it."""
        if applied.dead_letters and self.dead_letters is not None:
            try:
                await self._store_dead_letters(self.dead_letters, batch, applied)
            except BaseException:
                await self._gate.rollback()
                raise
        began = perf_counter()
        try:
            await self._commit(batch[applied.records - 1])
        except BaseException as error:
            await self._gate.rollback()
            if isinstance(error, InvariantError):
                await self._stop_at_cause(batch[: applied.records], error)
            raise
        seconds += perf_counter() - began
        self.observe(applied, value_bytes, seconds)
        if self._tracing is not None:
            self._tracing.applied(self._partition, batch[: applied.records], self.headers_of, seconds)

    async def write_gathered(self) -> None:
        """Write the batches that the store has gathered. Raises as `run`, where the store fails."""
        await self._patiently(self._store.write_gathered)

    async def _commit(self, last: LogRecord) -> None:
        """`commit`; the overlay waits meanwhile."""
        await self._patiently(partial(self.commit, last))

    async def _patiently(self, write: Callable[[], None]) -> None:
        """Give RocksDB up to half a minute for a write."""
        try:
            await self._gate.call(write)
        except StoreBusyError:
            async for attempt in patience():
                with attempt:
                    await self._gate.call(write)

    async def _store_dead_letters(self, place: DeadLetters, batch: Sequence[LogRecord], applied: Applied) -> None:
        unsaid = [(offset, reason) for offset, reason in applied.dead_letters if offset >= self._said_to()]
        if not unsaid:
            return
        if not self._may_speak():
            raise LogUnavailableError("the group has not confirmed for long that this worker owns the partition")
        by_offset = {record[0]: record for record in batch}
        of = partial(letter_of, self._topic, self._partition)
        letters = [of(by_offset[offset], reason, self.headers_of(offset)) for offset, reason in unsaid]
        await place.store(letters)

    # ------------------------------------------------------------------ trouble

    async def _apply_before(
        self, offset: int, batch: Sequence[LogRecord], decoded: Sequence[Record], from_offset: int
    ) -> int:
        """Save what stands before the record that stopped the partition. Returns how many records that is."""
        count = sum(record[0] < offset for record in decoded)
        at = 0
        while at < count:
            applied = await self._apply(decoded[at:count], from_offset)
            await self._finish(batch[at:count], applied, 0, 0.0)
            at += applied.records
            from_offset = applied.next_offset
        return count

    async def _stop_at_cause(self, batch: Sequence[LogRecord], failure: InvariantError) -> NoReturn:
        """Of a batch that must not be written, write what stands before the record to blame, one by one, and stop."""
        if len(batch) == 1:
            offset, time_ms, _, value = batch[0]
            raise PartitionStoppedError(offset, decode(offset, time_ms, value)[2], failure) from failure
        for record in batch:
            applied = await self._apply([decode(*record[:2], record[3])], self._machine.next_offset)
            await self._finish([record], applied, 0, 0.0)
        raise failure  # it was none of them alone: the next try goes on behind them

    async def _sweep(self) -> None:
        """Remove all that is due, in slices: what a record that sets the clock back asks for."""
        sweeper = Sweeper(self._machine, self._store)
        more = True
        while more:
            async for attempt in patience():
                with attempt:
                    swept = await self._gate.call(partial(sweeper.expire, _SWEPT_KEYS_MAX))
            more = swept.more
            self._tell_swept(swept)
            await asyncio.sleep(0)

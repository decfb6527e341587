"""Applies the log's records to one owned partition, one atomic batch at a time.

    decode -> Machine.apply -> dead letters acknowledged -> Machine.commit

A batch holds at most 1,000 records and 4 MiB, and fewer where that took more than 5 ms of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from functools import partial
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Final, NoReturn

from engine.apply.machine import CACHED_KEYS_MAX, Applied, Machine, Record
from engine.cleaning.sweep import Sweeper, Swept
from engine.errors import DueLeftError, InvariantError, PartitionStoppedError, StoreBusyError
from engine.limits import TIME_MS_MAX
from engine.store.directory import same_database
from engine.store.rocks import RocksStore
from engine.store.store import Store
from engine.tables.system import Home, Retimes, retime_changes
from ingest.applying.gate import Gate
from ingest.applying.patience import patience
from ingest.applying.slices import Slices
from ingest.dead_letters.dead_letter import DeadLetters, letter_of
from ingest.errors import RecordHeldError
from ingest.events import decode
from ingest.log import Headers, Log, LogRecord
from ingest.reporting.observer import Observer

if TYPE_CHECKING:
    from ingest.log.tracing import Tracing

BATCH_RECORDS_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
_BATCH_RECORDS_MIN: Final = 16
_LOOP_SECONDS_MAX: Final = 0.005
_SWEPT_KEYS_MAX: Final = 100  # about as long

_TIME_OF: Final = itemgetter(1)

OpenStore = Callable[[int], Store]
"""Opens the store of a partition; raises CorruptionError, OSError."""

HeadersOf = Callable[[int], Headers]

TellSwept = Callable[[int, Swept], None]
"""Takes a partition and what has expired in it, once that is committed."""


def _tell_nobody(_partition: int, _swept: Swept) -> None:
    """Nobody wants to know what expires."""


def _nothing_decided(_partition: int) -> Retimes:
    """No operator has said anything."""
    return ()


def no_headers(_offset: int) -> Headers:
    """What a record without headers has."""
    return ()


class Worker:
    """Applies one partition.

    Args:
        home: which topic, partition and layout.
        open_store: called at each `open`.
        dead_letters: None for a replay, which sends none.
        latest_ms: the latest time that a record may have now to be applied; None: any, as in a replay.
        decided: what an operator has decided on the times of a partition's records, as `Position.retimes` has it.
        records_max: the largest batch; smaller ones change nothing but the time it takes.
        tracing: makes spans of what is applied from the log; None: no spans.
        slices: of the process, so that a long command does not hold the event loop; None: it does, as in a replay.
    """

    def __init__(
        self,
        home: Home,
        log: Log,
        open_store: OpenStore,
        dead_letters: DeadLetters | None,
        observer: Observer,
        *,
        latest_ms: Callable[[], int] | None = None,
        decided: Callable[[int], Retimes] = _nothing_decided,
        records_max: int = BATCH_RECORDS_MAX,
        cached_keys_max: int = CACHED_KEYS_MAX,
        tracing: Tracing | None = None,
        slices: Slices | None = None,
    ) -> None:
        self.gate = Gate(slices or Slices())
        self.partition = home.partition
        self.home = home
        self._log = log
        self._open_store = open_store
        self._dead_letters = dead_letters
        self._observer = observer
        self._latest_ms = latest_ms
        self._decided = decided
        self._records_max = self._records = records_max
        self._cached_keys_max = cached_keys_max
        self._tracing = tracing
        self.tell_swept: TellSwept = _tell_nobody
        self._headers_of: HeadersOf = no_headers
        self._store: Store | None = None
        self._machine: Machine | None = None

    @property
    def machine(self) -> Machine:
        """The open machine."""
        if self._machine is None:
            message = f"partition {self.partition} is not open"
            raise RuntimeError(message)
        return self._machine

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            message = f"partition {self.partition} is not open"
            raise RuntimeError(message)
        return self._store

    @property
    def is_open(self) -> bool:
        """Whether the store is held."""
        return self._store is not None

    def open(self) -> None:
        """Open store and machine, at the position that the store has.

        Raises:
            StateMismatchError, CorruptionError, OSError: as `Machine` and the store do; nothing stays open then.
        """
        self.close()
        self._store = self._open_store(self.partition)
        try:
            self._machine = Machine(self._store, self.home, cached_keys_max=self._cached_keys_max)
            self.gate.machine = self._machine
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the store; what was not committed is forgotten, and what is suspended ends."""
        self.gate.close()
        self._machine = None
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def sameness(self) -> Callable[[], bool]:
        """A question for later, also after `close`: is what would be opened still the store that is open now?"""
        return same_database(self.store.path) if isinstance(self.store, RocksStore) else lambda: True

    async def check(self) -> None:
        """Hold the log against the committed position; LogMismatchError when they do not fit."""
        position = self.machine.position
        await self._log.check(self.partition, position.next_offset, position.fingerprint)

    async def apply(
        self, records: Sequence[LogRecord], from_position: int, to_position: int, headers_of: HeadersOf = no_headers
    ) -> None:
        """Apply what one fetch gave, in batches.

        Args:
            records: in offset order.
            from_position: where the fetch began.
            to_position: where the log's reader stands now: after the last record, or after markers behind it.
            headers_of: gives the headers of a record by offset, for dead letters.

        Raises:
            PartitionStoppedError, RecordHeldError: everything before that record is applied and committed.
            LogUnavailableError: the dead-letter store is away.
            StoreBusyError: RocksDB has been behind with its compactions for half a minute.
            Exception: the store failed; close it and open it again.
        """
        if from_position != self.machine.next_offset:
            message = f"records from offset {from_position}, but the next one to apply is {self.machine.next_offset}"
            raise ValueError(message)
        if to_position < (records[-1][0] + 1 if records else from_position):
            raise InvariantError(f"the log's reader has given more than it says: it stands at offset {to_position}")
        self._headers_of = headers_of
        at = 0
        while at < len(records):
            began = perf_counter()
            batch, value_bytes = self._batch(records, at)
            if self._latest_ms is not None:
                batch = self._up_to_held(batch, self._latest_ms)
            end = to_position if at + len(batch) == len(records) else 0
            at += await self._apply_batch(batch, value_bytes, end)
            self._adapt(perf_counter() - began)
            await asyncio.sleep(0)
        if not records and to_position > from_position:
            self.gate.enter()
            self.machine.apply([], from_position, to_position=to_position)
            try:
                self.machine.commit(None)
            except BaseException:
                self.gate.rollback()
                raise

    def take_decision(self) -> None:
        """Keep in the state what an operator has decided on the times of records, if anything: see `decided`."""
        position = self.machine.position
        for decision in self._decided(self.partition):
            if decision not in position.retimes:
                self.store.write(retime_changes(*decision))
                kept = [each for each in position.retimes if each[0] != decision[0]]
                position.retimes = tuple(sorted([*kept, decision]))

    def is_held(self, offset: int, time_ms: int) -> bool:
        """Whether the record there is not to be applied now: it is from the future, and nobody has decided on it."""
        machine = self.machine
        if self._latest_ms is None or time_ms <= machine.clock_ms or time_ms > TIME_MS_MAX:
            return False
        if time_ms <= self._latest_ms() or machine.position.skips.end_from(offset) > offset:
            return False
        return not any(begin <= offset < end for begin, end, _ in machine.position.retimes)

    def _up_to_held(self, batch: Sequence[LogRecord], latest_ms: Callable[[], int]) -> Sequence[LogRecord]:
        """The records before the first one that is held, or up to one that may set a clock back that is ahead."""
        if self.machine.clock_ms > (latest := latest_ms()):  # what follows is judged by the clock that it sets
            setting = (place for place, record in enumerate(batch, 1) if b"SETCLOCK" in (record[3] or b"").upper())
            batch = batch[: next(setting, None)]
        if max(map(_TIME_OF, batch)) <= max(self.machine.clock_ms, latest):  # 0.03 us for each record
            return batch
        for place, (offset, time_ms, _, _) in enumerate(batch):
            if self.is_held(offset, time_ms):
                if not place:
                    raise RecordHeldError(self.partition, offset, time_ms)
                return batch[:place]
        return batch

    def _batch(self, records: Sequence[LogRecord], at: int) -> tuple[Sequence[LogRecord], int]:
        count = self._records
        while True:
            batch = records[at : at + count]
            value_bytes = sum([len(record[3]) for record in batch if record[3] is not None])
            if value_bytes <= BATCH_BYTES_MAX or count == 1:
                return batch, value_bytes
            count = max(1, count // 2)

    def _adapt(self, seconds: float) -> None:
        """Size the next batch so that it holds the event loop for about 5 ms at most."""
        if seconds > _LOOP_SECONDS_MAX:
            fitting = int(self._records * _LOOP_SECONDS_MAX / seconds)
            self._records = min(self._records_max, max(_BATCH_RECORDS_MIN, fitting))
        elif self._records < self._records_max:
            self._records = min(self._records_max, self._records * 2)

    async def _apply_batch(self, batch: Sequence[LogRecord], value_bytes: int, to_position: int) -> int:
        """One batch, applied and committed. Returns how many records it took."""
        began = perf_counter()
        decoded = [decode(offset, time_ms, value) for offset, time_ms, _, value in batch]
        return (await self._apply_decoded(batch, decoded, value_bytes, began, to_position)).records

    async def apply_decoded(
        self, batch: Sequence[LogRecord], decoded: Sequence[Record], waiting: Container[int]
    ) -> Applied:
        """Apply and commit one small batch whose events are known: what this process has appended itself.

        Args:
            batch: the records; they follow the last one that was applied.
            decoded: their events.
            waiting: the offsets whose outcome somebody waits for.

        Raises:
            As `apply`.
        """
        for offset, time_ms, _, _ in batch:
            if self.is_held(offset, time_ms):
                raise RecordHeldError(self.partition, offset, time_ms)
        value_bytes = sum([len(record[3]) for record in batch if record[3] is not None])
        return await self._apply_decoded(batch, decoded, value_bytes, perf_counter(), 0, waiting)

    async def _apply_decoded(
        self,
        batch: Sequence[LogRecord],
        decoded: Sequence[Record],
        value_bytes: int,
        began: float,
        to_position: int,
        waiting: Container[int] = frozenset(),
    ) -> Applied:
        from_position = self.machine.next_offset
        try:
            try:
                applied = await self._apply_in_slices(decoded, from_position, waiting, to_position)
            except StoreBusyError:  # it was rolled back: a large collection was to be staged
                applied = await self._apply_patiently(decoded, from_position, waiting, to_position)
        except PartitionStoppedError as stop:
            count = await self._apply_before(stop.offset, batch, decoded, from_position)
            if not isinstance(stop.__cause__, DueLeftError):
                raise
            await self._sweep()
            applied = await self._apply_in_slices(decoded[count : count + 1], self.machine.next_offset, waiting)
            await self._commit(batch[count:], applied, 0, 0.0)
            applied.records += count
            return applied
        await self._commit(batch, applied, value_bytes, perf_counter() - began)
        return applied

    async def _sweep(self) -> None:
        """Remove all that is due, in slices: what a record that sets the clock back asks for."""
        sweeper = Sweeper(self.machine, self.store)
        self.gate.enter()
        more = True
        while more:
            async for attempt in patience():
                with attempt:
                    self.gate.enter()
                    swept = sweeper.expire(_SWEPT_KEYS_MAX)
            more = swept.more
            self.tell_swept(self.partition, swept)
            await asyncio.sleep(0)

    async def _apply_before(
        self, offset: int, batch: Sequence[LogRecord], decoded: Sequence[Record], from_position: int
    ) -> int:
        """Save what stands before the record that stopped the partition. Returns how many records that is."""
        count = sum(record[0] < offset for record in decoded)
        at = 0
        while at < count:
            applied = await self._apply_in_slices(decoded[at:count], from_position)
            await self._commit(batch[at:count], applied, 0, 0.0)
            at += applied.records
            from_position = applied.next_offset
        return count

    async def _commit(self, batch: Sequence[LogRecord], applied: Applied, value_bytes: int, seconds: float) -> None:
        if applied.dead_letters and self._dead_letters is not None:
            try:
                await self._store_dead_letters(self._dead_letters, batch, applied)
            except BaseException:
                self.gate.rollback()
                raise
        began = perf_counter()
        applied.first_time_ms = batch[0][1]
        fingerprint = self._log.fingerprint(self.partition, batch[applied.records - 1])
        try:
            try:
                await self.gate.call(partial(self.machine.commit, fingerprint))
            except StoreBusyError:
                await self._commit_patiently(fingerprint)
        except BaseException as error:
            self.gate.rollback()
            if isinstance(error, InvariantError):
                await self._stop_at_cause(batch[: applied.records], error)
            raise
        seconds += perf_counter() - began
        self.observe(applied, value_bytes, seconds)
        if self._tracing is not None:
            self._tracing.applied(self.partition, batch[: applied.records], self._headers_of, seconds)

    async def _stop_at_cause(self, batch: Sequence[LogRecord], failure: InvariantError) -> NoReturn:
        """Of a batch that must not be written, write what stands before the record to blame, one by one, and stop."""
        if len(batch) == 1:
            offset, time_ms, _, value = batch[0]
            raise PartitionStoppedError(offset, decode(offset, time_ms, value)[2], failure) from failure
        for record in batch:
            applied = await self._apply_in_slices([decode(*record[:2], record[3])], self.machine.next_offset)
            await self._commit([record], applied, 0, 0.0)
        raise failure  # it was none of them alone: the next try goes on behind them

    async def _apply_in_slices(
        self, decoded: Sequence[Record], from_position: int, waiting: Container[int] = frozenset(), to_position: int = 0
    ) -> Applied:
        return await self.gate.call(partial(self.machine.apply, decoded, from_position, waiting, to_position))

    def observe(self, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Tell the observer of a batch that is committed."""
        self._observer.applied(self.partition, applied, value_bytes, seconds)

    async def _commit_patiently(self, fingerprint: bytes) -> None:
        """Give RocksDB up to half a minute to catch up with its compactions; the overlay waits meanwhile."""
        async for attempt in patience():
            with attempt:
                await self.gate.call(partial(self.machine.commit, fingerprint))

    async def _apply_patiently(
        self, decoded: Sequence[Record], from_position: int, waiting: Container[int], to_position: int
    ) -> Applied:
        """Likewise, from the beginning of the batch each time."""
        async for attempt in patience():
            with attempt:
                applied = await self._apply_in_slices(decoded, from_position, waiting, to_position)
        return applied

    async def _store_dead_letters(self, place: DeadLetters, batch: Sequence[LogRecord], applied: Applied) -> None:
        by_offset = {record[0]: record for record in batch}
        of = partial(letter_of, self.home.topic, self.partition)
        letters = [of(by_offset[offset], reason, self._headers_of(offset)) for offset, reason in applied.dead_letters]
        await place.store(letters)

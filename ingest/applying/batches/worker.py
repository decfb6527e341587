"""Opens the store of one owned partition, and applies the log's records to it in batches.

A batch holds at most 1,000 records and 4 MiB, and fewer where that took more than 5 ms of the event loop. How it gets
into the state is in `ingest/applying/batches/commit_path.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Final

from engine.apply.machine import KEY_CACHE_BYTES, Applied, Machine, Record
from engine.cleaning.sweep import Swept
from engine.store.store import MaintainedStore
from engine.tables.system import Home, Retimes, retime_changes
from ingest.applying.batches.batch_size import BATCH_RECORDS_MAX, LOOP_SECONDS_MAX, BatchSize
from ingest.applying.batches.commit_path import CommitPath, no_headers
from ingest.applying.batches.decoding import decode_batch
from ingest.applying.slicing.gate import Gate
from ingest.applying.slicing.slices import Slices
from ingest.dead_letters.dead_letter import DeadLetters
from ingest.reporting.observer import Observer
from slotlog.errors import RecordHeldError
from slotlog.log import HeadersOf, Log, LogRecord
from slotlog.shared.errors import InvariantError
from slotlog.shared.limits import TIME_MS_MAX

if TYPE_CHECKING:
    from slotlog.log.tracing import Tracing

_TIME_OF: Final = itemgetter(1)

OpenStore = Callable[[int], MaintainedStore]
"""Opens the store of a partition; raises CorruptionError, OSError."""

TellSwept = Callable[[int, Swept], None]
"""Takes a partition and what has expired in it, once that is committed."""


def _tell_nobody(_partition: int, _swept: Swept) -> None:
    """Nobody wants to know what expires."""


def _always() -> bool:
    """An owner by settings."""
    return True


def _nothing_decided(_partition: int) -> Retimes:
    """No operator has decided anything."""
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
        loop_seconds_max: as `BatchSize`.
        tracing: makes spans of what is applied from the log; None: no spans.
        slices: of the process, so that a long command does not hold the event loop; None: it does, as in a replay.

    Attributes:
        may_speak: whether an owner still is one, as far as its group can tell: else it sends no dead letters.
        said_to: before this offset others have done all that an owner alone does, when they owned the partition.
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
        loop_seconds_max: float = LOOP_SECONDS_MAX,
        key_cache_bytes: int = KEY_CACHE_BYTES,
        tracing: Tracing | None = None,
        slices: Slices | None = None,
    ) -> None:
        self.gate = Gate(slices or Slices())
        self.partition = home.partition
        self.home = home
        self._log = log
        self._open_store = open_store
        self._dead_letters = dead_letters
        self._speaks = True
        self._observer = observer
        self._latest_ms = latest_ms
        self._decided = decided
        self._batch_size = BatchSize(records_max, loop_seconds_max)
        self._key_cache_bytes = key_cache_bytes
        self._tracing = tracing
        self.tell_swept: TellSwept = _tell_nobody
        self.may_speak: Callable[[], bool] = _always
        self.said_to = 0
        self._store: MaintainedStore | None = None
        self._machine: Machine | None = None
        self._path: CommitPath | None = None

    @property
    def machine(self) -> Machine:
        """The open machine."""
        if self._machine is None:
            message = f"partition {self.partition} is not open"
            raise RuntimeError(message)
        return self._machine

    @property
    def store(self) -> MaintainedStore:
        """The open store."""
        if self._store is None:
            message = f"partition {self.partition} is not open"
            raise RuntimeError(message)
        return self._store

    @property
    def path(self) -> CommitPath:
        """How records get into the open machine and store."""
        if self._path is None:
            message = f"partition {self.partition} is not open"
            raise RuntimeError(message)
        return self._path

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
            self._machine = Machine(self._store, self.home, key_cache_bytes=self._key_cache_bytes)
            self.gate.machine = self._machine
            self._path = CommitPath(
                self.home,
                self._machine,
                self._store,
                self.gate,
                self._log,
                self._dead_letters if self._speaks else None,
                self._observer,
                self._swept,
                self._tracing,
                self._may_speak_now,
                self._said_to_now,
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the store. What was not committed is forgotten, and suspended work ends."""
        self._machine = self._path = None
        store, self._store = self._store, None
        try:
            self.gate.close()
        finally:  # whatever work says that is ended in its midst
            if store is not None:
                store.close()

    def speak(self, *, aloud: bool) -> None:
        """Send dead letters from now on, or none: a follower leaves them to the owner."""
        self._speaks = aloud
        if self._path is not None:
            self._path.dead_letters = self._dead_letters if aloud else None

    def _may_speak_now(self) -> bool:
        return self.may_speak()

    def _said_to_now(self) -> int:
        return self.said_to

    def _swept(self, swept: Swept) -> None:
        self.tell_swept(self.partition, swept)

    async def check(self) -> None:
        """Check that the log fits the committed position; LogMismatchError if it does not."""
        position = self.machine.position
        await self._log.check(self.partition, position.next_offset, position.fingerprint)

    async def apply(
        self, records: list[LogRecord], from_offset: int, to_offset: int, headers_of: HeadersOf = no_headers
    ) -> None:
        """Apply the records of one fetch, in batches.

        Args:
            records: in offset order. Those that are applied are taken out of the list.
            from_offset: where the fetch began.
            to_offset: where the log's reader stands now: after the last record, or after markers behind it.
            headers_of: gives the headers of a record by offset, for dead letters.

        Raises:
            PartitionStoppedError, RecordHeldError: everything before that record is applied and committed.
            LogUnavailableError: the dead-letter store is away.
            StoreBusyError: RocksDB has been behind with its compactions for half a minute.
            Exception: the store failed; close it and open it again.
        """
        if from_offset != self.machine.next_offset:
            message = f"records from offset {from_offset}, but the next one to apply is {self.machine.next_offset}"
            raise ValueError(message)
        if to_offset < (records[-1][0] + 1 if records else from_offset):
            raise InvariantError(f"the log's reader has given more than it says: it stands at offset {to_offset}")
        path = self.path
        path.headers_of = headers_of
        if not records and to_offset > from_offset:
            await path.pass_by(to_offset)
        if records:
            await self._apply_gathered(records, to_offset)

    async def _apply_gathered(self, records: list[LogRecord], to_offset: int) -> None:
        """Apply records in batches that the store may gather; at the end all of them are written."""
        store = self.store
        try:
            await self._apply_in_batches(records, to_offset)
        finally:
            store.is_gathering = False
            if self._store is store:  # else it was closed, and has written them
                await self.path.write_gathered()

    async def _apply_in_batches(self, records: list[LogRecord], to_offset: int) -> None:
        path, store = self.path, self.store
        while records:
            began = perf_counter()
            batch, value_bytes = self._batch_size.cut(records)
            if self._latest_ms is not None:
                batch = self._up_to_held(batch, self._latest_ms)
            end = to_offset if len(batch) == len(records) else 0
            decoded = decode_batch(batch)
            store.is_gathering = len(batch) < len(records)  # the last one is written at once, and those before it
            applied = await path.run(batch, decoded, value_bytes, began, to_offset=end)
            # Their memory goes to the next batch while it is in the processor's caches. That of a whole fetch, which is
            # some 9,000 records, is in none: 0.4 of 9 us an event from Kafka, measured on a busy machine.
            del records[: applied.records]
            del batch, decoded
            self._batch_size.adapt(perf_counter() - began)
            await asyncio.sleep(0)

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
        return await self.path.run(batch, decoded, value_bytes, perf_counter(), waiting=waiting)

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

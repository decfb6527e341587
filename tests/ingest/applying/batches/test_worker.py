"""A worker by itself: what is left of a batch that could not be written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from math import inf
from pathlib import Path

import pytest

from engine.apply.machine import Machine
from engine.apply.records import Applied
from engine.commands.registry import SPECS
from engine.errors import StoreBusyError
from engine.store.gathering import GatheringStore
from engine.store.memory import MemoryStore
from engine.store.options import SharedMemory
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from engine.tables.system import Position
from ingest.applying.batches.worker import Worker
from ingest.applying.slicing.fiber import AbandonedError
from ingest.applying.slicing.slices import Slices
from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from ingest.reporting.observer import NullObserver
from slotlog.errors import RecordHeldError
from slotlog.events import encode
from slotlog.log import Entry, LogRecord
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.layouts import column_families, home_of
from tests.resp.harness import until


class BusyOnce(MemoryStore):
    """Refuses the first write."""

    refused = False

    def write(self, changes: Changes) -> None:
        """Nothing is written the first time."""
        if not self.refused:
            self.refused = True
            raise StoreBusyError("behind")
        super().write(changes)


async def test_a_gap_that_cannot_be_written_is_not_passed(tmp_path: Path) -> None:
    """Offsets without a record, whose end could not be committed, are still to come: nothing is left uncommitted."""
    store = BusyOnce(column_families())
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    worker = Worker(home_of("t", 0, 1), log, lambda _: store, None, NullObserver())
    worker.open()

    with pytest.raises(StoreBusyError):
        await worker.apply([], 0, 3)
    assert (0, True) == (worker.machine.next_offset, worker.machine.is_settled)
    await worker.apply([], 0, 3)
    assert (3, 3) == (worker.machine.next_offset, worker.machine.position.next_offset)


class ClosesMeanwhile(EmbeddedDeadLetters):
    """While it is written to, the worker is closed."""

    worker: Worker | None = None

    async def store(self, letters: Sequence[DeadLetter]) -> None:
        """The letters are kept then."""
        assert self.worker is not None
        self.worker.close()


async def test_a_worker_that_is_closed_meanwhile_commits_nothing(tmp_path: Path) -> None:
    """Where the store is closed while dead letters are stored, what was applied is forgotten: nothing is written."""
    store = MemoryStore(column_families())
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    await log.start()
    place = ClosesMeanwhile(log)
    worker = place.worker = Worker(home_of("t", 0, 1), log, lambda _: store, place, NullObserver())
    worker.open()

    with pytest.raises(AbandonedError):
        await worker.apply([(0, 1, None, encode("SET", ["k", "v"])), (1, 1, None, b"no event")], 0, 2)
    worker.open()
    assert (0, None) == (worker.machine.next_offset, worker.machine.read(b"GET", [b"k"]))
    await log.close()


class Closing(MemoryStore):
    """Counts how often it is closed."""

    closed = 0

    def close(self) -> None:
        """Nothing is forgotten."""
        self.closed += 1


async def test_a_store_is_closed_whatever_the_work_says_that_ends_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is told, and the worker can be opened again."""
    store = Closing(column_families())
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    worker = Worker(home_of("t", 0, 1), log, lambda _: store, None, NullObserver())
    worker.open()

    def fail() -> None:
        raise OSError("the disk is away")

    with monkeypatch.context() as patched:
        patched.setattr(worker.gate, "close", fail)
        with pytest.raises(OSError, match="the disk is away"):
            worker.close()
    assert (1, False) == (store.closed, worker.is_open)
    worker.open()
    assert worker.is_open


class Told(NullObserver):
    """Keeps the position at each commit."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.positions: list[Position] = []

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """A batch is committed."""
        assert self.worker is not None
        self.positions.append(self.worker.machine.position)


async def test_a_batch_that_is_cut_has_the_mark_of_its_own_last_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a batch ends early for its size, the state keeps the fingerprint of the last record that it applied."""
    monkeypatch.setattr("engine.apply.machine.OVERLAY_BYTES_MAX", 100)
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    await log.start()
    await log.append([Entry(0, None, encode("SET", [f"k{n}", "v" * 200])) for n in range(3)])
    told = Told()
    store = MemoryStore(column_families())
    worker = told.worker = Worker(home_of("t", 0, 1), log, lambda _: store, None, told)
    worker.open()
    records = (await log.reader({0: 0}).fetch(1000, 10))[0]
    await worker.apply([*records], 0, 3)

    assert [(each + 1, log.fingerprint(0, records[each])) for each in range(3)] == [
        (position.next_offset, position.fingerprint) for position in told.positions
    ]
    await log.close()


class Left(NullObserver):
    """Keeps how many records of a fetch are left when the next batch is committed."""

    def __init__(self, fetched: list[LogRecord]) -> None:
        self.fetched = fetched
        self.left: list[int] = []

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """A batch is committed, and those before it are let go."""
        self.left.append(len(self.fetched))


async def test_records_are_let_go_batch_by_batch(tmp_path: Path) -> None:
    """A fetch of many batches does not hold the memory of those that are applied."""
    records: list[LogRecord] = [(n, 1, None, encode("SET", [f"k{n}", "v"])) for n in range(5)]
    left = Left(records)
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    await log.start()
    store = MemoryStore(column_families())
    worker = Worker(home_of("t", 0, 1), log, lambda _: store, None, left, records_max=2, loop_seconds_max=inf)
    worker.open()
    await worker.apply(records, 0, 5)

    assert ([5, 3, 1], [], 5) == (left.left, records, worker.machine.next_offset)
    await log.close()


class Suspending(MemoryStore):
    """Suspends who scans it."""

    suspends: Callable[[], bool] | None = None

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records, when it may go on."""
        while self.suspends is not None and self.suspends():
            pass
        return super().scan(column_family, start, end, reverse=reverse)


async def test_a_gap_is_passed_behind_a_suspended_read(tmp_path: Path) -> None:
    """The loop turns meanwhile: who passes by offsets without a record does not run a long read to its end."""
    store, slices = Suspending(column_families()), Slices()
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    worker = Worker(home_of("t", 0, 1), log, lambda _: store, None, NullObserver(), slices=slices)
    await log.start()
    worker.open()
    await worker.apply([(0, 1, None, encode("SADD", ["s", "a"]))], 0, 1)
    store.suspends = lambda: slices.pause(sys._getframe())
    read = asyncio.create_task(worker.gate.call(partial(worker.machine.evaluate, SPECS[b"SMEMBERS"], [b"s"], 0)))
    await until(lambda: worker.gate.is_held)
    passing = asyncio.create_task(worker.apply([], 1, 3))
    for _ in range(3):
        await asyncio.sleep(0)
    assert (False, False, 1) == (read.done(), passing.done(), worker.machine.next_offset)
    store.suspends = None
    await passing

    assert ([b"a"], 3) == (await read, worker.machine.position.next_offset)
    await log.close()


class Counting(GatheringStore):
    """Counts what goes to RocksDB: how many events are applied in the state that it has then."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, column_families(), SharedMemory(), 16_384)
        self.written: list[int] = []

    def write_gathered(self) -> None:
        """Note each write that has something to write."""
        if any(self._values.values()):
            self.written.append(self._batches)
        super().write_gathered()


def counted(count: int) -> list[LogRecord]:
    """So many INCRs of one key."""
    return [(offset, 1000, None, encode("INCR", ["key"])) for offset in range(count)]


async def test_the_batches_of_a_fetch_are_written_at_its_end(tmp_path: Path) -> None:
    """RocksDB has all of them when `apply` returns, those before the last by one write. One alone is not gathered."""
    store = Counting(tmp_path / "0")
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    await log.start()
    worker = Worker(home_of("t", 0, 1), log, lambda _: store, None, NullObserver(), records_max=10)
    worker.open()
    try:
        await worker.apply(counted(35), 0, 35)
        several = list(store.written)
        await worker.apply([(35, 1000, None, encode("INCR", ["key"]))], 35, 36)
        with closing(RocksStore(tmp_path / "0", column_families(), read_only=True)) as stored:
            position = Machine(stored, home_of("t", 0, 1)).next_offset
    finally:
        worker.close()
        await log.close()

    assert ([3], [3], 36) == (several, store.written, position)


async def test_a_fetch_that_ends_early_leaves_nothing_gathered(tmp_path: Path) -> None:
    """What stands before a record from the future is in RocksDB, although its batch was not the last of the fetch."""
    store = Counting(tmp_path / "0")
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    await log.start()
    home = home_of("t", 0, 1)
    worker = Worker(home, log, lambda _: store, None, NullObserver(), records_max=10, latest_ms=lambda: 1000)
    worker.open()
    records = counted(40)
    records[25] = (25, 2000, None, encode("INCR", ["key"]))
    try:
        with pytest.raises(RecordHeldError):
            await worker.apply(records, 0, 40)
        with closing(RocksStore(tmp_path / "0", column_families(), read_only=True)) as stored:
            position = Machine(stored, home).next_offset
    finally:
        worker.close()
        await log.close()

    assert (25, [3], False) == (position, store.written, store.is_gathering)

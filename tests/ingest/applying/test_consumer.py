"""The consumer: one partition's trouble stays its own, and is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic

import pytest

from engine.apply.machine import Applied
from engine.errors import StoreFullError
from engine.store.memory import MemoryStore
from engine.store.store import Changes
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import Condition, NullObserver
from slotlog.errors import LogMismatchError, Mismatch
from slotlog.events import encode
from slotlog.log import Entry, Log, open_log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.reader import EmbeddedReader
from slotlog.log.log import LogRecord
from slotlog.shared.slots import partition_of, slot
from tests.layouts import column_families, home_of

FAMILIES = column_families()
PARTITIONS = 2
_PATIENCE_SECONDS = 60.0


class Recorder(NullObserver):
    """Keeps what the consumer says."""

    def __init__(self) -> None:
        self.conditions: list[tuple[int, str]] = []
        self.lags: dict[int, int] = {}
        self.records = 0

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Count."""
        self.records += applied.records

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Keep."""
        self.conditions.append((partition, str(condition)))

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """Keep."""
        self.lags[partition] = events


class Store(MemoryStore):
    """A memory store whose close fails when told to."""

    close_fails = False

    def close(self) -> None:
        """Fail as RocksDB does after a failed write."""
        if self.close_fails:
            raise OSError("not closed well")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    """An embedded log of two partitions."""
    log = open_log(f"sqlite:///{tmp_path / 'log.sqlite3'}", topic="topic", partitions=PARTITIONS)
    await log.start()
    yield log
    await log.close()


def key_of(partition: int) -> bytes:
    """Some key of that partition."""
    return next(key for key in (b"%d" % n for n in range(99)) if partition_of(slot(key), PARTITIONS) == partition)


def entry(partition: int, command: str, *args: str | bytes) -> Entry:
    """An event for `partition`."""
    return Entry(partition, b"\0\0", encode(command, list(args)))


class Running:
    """A consumer of both partitions that runs in the background."""

    def __init__(
        self,
        log: Log,
        observer: Recorder,
        guard: Callable[[], str] | None = None,
        *,
        identity_seconds: float = 60.0,
    ) -> None:
        self.stores = {partition: Store(FAMILIES) for partition in range(PARTITIONS)}
        workers = {
            partition: Worker(home_of("topic", partition, PARTITIONS), log, self.stores.__getitem__, None, observer)
            for partition in self.stores
        }
        self.consumer = Consumer(log, workers, observer, guard, identity_seconds=identity_seconds)
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Consumer:
        await self.consumer.open()
        self._task = asyncio.create_task(self.consumer.run(self._stop))
        return self.consumer

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._task
        self.consumer.close()


async def until(holds: Callable[[], bool], what: str = "something holds") -> None:
    """Wait until something holds; a vain wait fails after 20 s, and says for what."""
    give_up_at = monotonic() + _PATIENCE_SECONDS
    while not holds():
        assert monotonic() < give_up_at, f"waited in vain until {what}"
        await asyncio.sleep(0.01)


async def test_a_store_that_cannot_be_closed_takes_no_other_partition_along(log: Log) -> None:
    """When a stopped partition's store fails to close as well, the other partition goes on."""
    observer = Recorder()
    running = Running(log, observer)
    running.stores[0].close_fails = True
    async with running:
        await log.append([entry(0, "RULES", "99")])
        await until(lambda: (0, "stopped") in observer.conditions, "partition 0 is stopped")
        await log.append([entry(1, "INCR", key_of(1))])
        await until(lambda: observer.records == 1, "partition 1 has applied its record")


async def test_a_partition_whose_opening_finds_no_room_waits_for_it(log: Log) -> None:
    """The others go on, and no store is opened before there is room; who cannot ask for room is refused the start."""
    observer, room, opened = Recorder(), [0], 0
    running = Running(log, observer, lambda: "")
    conditions, owned = running.consumer.conditions, running.consumer.every[0]

    def open_store(partition: int) -> Store:
        nonlocal opened
        opened += 1
        if opened <= 2:
            raise StoreFullError("no room to open it")
        return running.stores[partition]

    owned.worker._open_store = open_store
    conditions.has_room = lambda size: size <= room[0]
    async with running:
        await log.append([entry(0, "INCR", key_of(0)), entry(1, "INCR", key_of(1))])
        await until(lambda: observer.records == 1, "partition 1 has applied its record")
        tried_at = owned.retry_at
        await until(lambda: owned.retry_at > tried_at, "there is still no room")
        while_full = owned.condition, owned.reason, owned.worker.is_open, opened
        room[0] = 1 << 30
        await until(lambda: observer.records == 2, "partition 0 has applied its record")

        assert (Condition.WAITING, "no room to open it", False, 1) == while_full
        assert (3, ["waiting", "running"]) == (
            opened,
            [said for partition, said in observer.conditions if not partition],
        )
    opened, conditions.guard = 0, None
    with pytest.raises(StoreFullError, match="no room to open it"):
        await running.consumer.open()


async def test_a_stopped_partition_goes_on_reporting_its_lag(log: Log) -> None:
    """What waits behind the record that stopped a partition is counted as its lag, so that an alert can fire."""
    observer = Recorder()
    async with Running(log, observer):
        await log.append([entry(0, "RULES", "99"), *(entry(0, "INCR", key_of(0)) for _ in range(9))])
        await until(lambda: (0, "stopped") in observer.conditions, "partition 0 is stopped")
        await until(lambda: observer.lags.get(0) == 10, "its lag is reported")


async def test_a_record_that_stops_a_partition_stops_it_once(log: Log) -> None:
    """A new try is no recovery: the partition counts as stopped until the record is behind it."""
    observer = Recorder()
    async with Running(log, observer) as consumer:
        await log.append([entry(0, "RULES", "99")])
        await until(lambda: (0, "stopped") in observer.conditions, "partition 0 is stopped")
        owned = consumer.partitions[0]
        tried_at = owned.retry_at
        await until(lambda: owned.retry_at > tried_at, "it is tried again")

    assert [(0, "running"), (1, "running"), (0, "stopped")] == observer.conditions


async def test_a_guard_that_fails_makes_partitions_wait(log: Log) -> None:
    """A data directory whose disk is gone is a reason to wait, not to end."""
    observer = Recorder()

    def guard() -> str:
        raise OSError("no such disk")

    async with Running(log, observer, guard) as consumer:
        await until(lambda: (0, "waiting") in observer.conditions, "partition 0 waits")

        assert "no such disk" == consumer.partitions[0].reason


async def test_a_log_that_moves_is_not_held_up(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that come between two questions look like an open transaction; they are none once the end has moved."""

    async def one_more(self: EmbeddedLog, partition: int) -> int:
        return await self.end_offset(partition) + 1

    monkeypatch.setattr(EmbeddedLog, "high_watermark", one_more)
    async with Running(log, Recorder(), identity_seconds=0.01) as consumer:
        owned = consumer.partitions[0]
        await until(lambda: owned.held_up_since > 0, "it looks held up")
        since = owned.held_up_since
        await log.append([entry(0, "INCR", key_of(0))])
        await until(lambda: owned.held_up_since > since, "its end has moved")


async def test_a_mismatch_that_stays_lets_the_loop_turn(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that refuses at once, again and again, stops the partitions and nothing else: the service can end."""

    async def refuse(*_: object) -> dict[int, list[LogRecord]]:
        raise LogMismatchError(Mismatch.RECREATED, "another log")

    monkeypatch.setattr(EmbeddedReader, "fetch", refuse)
    observer = Recorder()
    async with Running(log, observer):
        await until(lambda: {(0, "stopped"), (1, "stopped")} <= {*observer.conditions}, "both are stopped")


async def test_a_write_whose_outcome_is_unknown_opens_the_store_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed write the position is read again from the store: the event counts once, written or not."""
    observer = Recorder()
    running = Running(log, observer)
    store = running.stores[0]
    write = store.write

    def write_and_fail(changes: Changes) -> None:
        monkeypatch.setattr(store, "write", write)
        write(changes)
        raise OSError("EIO")

    monkeypatch.setattr(store, "write", write_and_fail)
    async with running as consumer:
        await log.append([entry(0, "INCR", key_of(0))])
        await until(lambda: observer.conditions.count((0, "running")) == 2, "it runs again")

        assert b"1" == consumer.partitions[0].worker.machine.read(b"GET", [key_of(0)])


class SlowCheck:
    """Lets the log's check of one partition, from now on, wait until it may go on."""

    def __init__(self, log: Log, monkeypatch: pytest.MonkeyPatch, partition: int) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self._partition, self._check = partition, log.check
        monkeypatch.setattr(log, "check", self._wait)

    async def _wait(self, partition: int, next_offset: int, fingerprint: bytes | None) -> None:
        if partition == self._partition:
            self.asked.set()
            await self.go_on.wait()
        await self._check(partition, next_offset, fingerprint)


async def test_a_partition_may_be_closed_while_it_is_held_against_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk was full the cleaner goes on until the partition runs; what it closes is opened once more."""
    observer, reasons = Recorder(), ["the disk is full"]
    running = Running(log, observer, lambda: reasons[0])
    async with running as consumer:
        await until(lambda: all(owned.waits_for_room for owned in consumer.partitions.values()), "both wait for room")
        slow = SlowCheck(log, monkeypatch, 0)
        reasons[0] = ""
        await slow.asked.wait()
        consumer.conditions.stop_outside(0, "a write of the cleaner has failed")
        slow.go_on.set()
        await log.append([entry(partition, "INCR", key_of(partition)) for partition in range(PARTITIONS)])
        await until(lambda: observer.records == PARTITIONS, "both have applied their record")


async def test_a_partition_may_be_closed_while_another_one_is_held_against_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: it is opened again when it is no more read for, or it would run and never be read."""
    observer = Recorder()
    running = Running(log, observer)
    async with running as consumer:
        slow = SlowCheck(log, monkeypatch, 0)
        consumer.conditions.stop_outside(0, "a write has failed")
        await slow.asked.wait()
        consumer.conditions.stop_outside(1, "a write has failed")
        consumer.partitions[1].retry_at = 0.0
        slow.go_on.set()
        await log.append([entry(partition, "INCR", key_of(partition)) for partition in range(PARTITIONS)])
        await until(lambda: observer.records == PARTITIONS, "both have applied their record")

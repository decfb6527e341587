"""The cleaner of a running service: what is due and dead goes between two batches, and nobody's outcome changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from engine.cleaning.sweep import Swept
from engine.errors import StoreBusyError
from engine.layouts.layout import Form
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF, Changes
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.cleaning.cleaner import Cleaner, CleaningSettings
from ingest.reporting.observer import Cleaned, Condition, NullObserver
from slotlog.events import decode, encode
from slotlog.log import Entry, Log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.log import LogRecord
from tests.layouts import column_families, home_of, layout_of

FAMILIES: Final = column_families()
SLICE_SECONDS: Final = 0.01
LONG_SECONDS: Final = 1000.0


class Store(MemoryStore):
    """A memory store that notes scans, and whose writes fail when told to."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.scans: list[str] = []
        self.stretches: list[tuple[bytes, bytes | None]] = []
        self.failures: list[Exception] = []
        self.fails_after_write = False
        self.closed = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Scan, and note it."""
        self.scans.append(column_family)
        if column_family == EXPIRY_CF:
            self.stretches.append((start, end))
        return super().scan(column_family, start, end, reverse=reverse)

    def write(self, changes: Changes) -> None:
        """Write, or fail: before, as a busy store does, or after, as one of which nobody knows what it has done."""
        if self.failures:
            failure = self.failures.pop()
            if self.fails_after_write:
                super().write(changes)
            raise failure
        super().write(changes)

    def close(self) -> None:
        """Count."""
        self.closed += 1


class Heard(NullObserver):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.cleanings: list[Cleaned] = []
        self.conditions: list[tuple[Condition, str]] = []

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """Keep."""
        self.cleanings.append(cleaned)

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Keep."""
        self.conditions.append((condition, reason))

    def total(self, name: str) -> int:
        """The sum of one count."""
        return sum(getattr(cleaned, name) for cleaned in self.cleanings)


class Running:
    """A consumer and its cleaner, of one partition of an embedded log; the cleaner does what a test tells it."""

    def __init__(self, log: Log, store: Store | RocksStore, settings: CleaningSettings) -> None:
        self.log = log
        self.heard = Heard()
        worker = Worker(home_of(log.topic, 0, 1), log, lambda _: store, None, self.heard)
        self.consumer = Consumer(log, {0: worker}, self.heard)
        self.owned = self.consumer.partitions[0]
        self.cleaner = Cleaner(
            log, self.consumer.partitions, self.heard, self.consumer.conditions.stop_outside, settings
        )
        self.swept: list[Swept] = []
        self.may_expire = True
        self.cleaner.serve(lambda _, swept: self.swept.append(swept), lambda: self.may_expire)

    async def apply(self, *commands: str, time_ms: int | None = None) -> None:
        """Append commands, and wait until they are applied."""
        await self.log.append(
            [Entry(0, None, encode(name, list(args)), time_ms) for name, *args in map(str.split, commands)]
        )
        await self.caught_up()

    async def caught_up(self) -> None:
        """Wait until everything in the log is applied."""
        end = await self.log.end_offset(0)
        await until(lambda: self.owned.worker.is_open and self.owned.worker.machine.position.next_offset >= end)

    def clean(self) -> None:
        """Everything that there is to do now."""
        while self.cleaner.clean_some(SLICE_SECONDS):
            pass

    def records(self, column_family: str) -> int:
        """How many there are."""
        return len(list(self.owned.worker.store.scan(column_family, b"", None)))

    async def names(self) -> list[bytes]:
        """Of the events in the log."""
        reader = self.log.reader({0: 0})
        records: list[LogRecord] = []
        while reader.position(0) < await self.log.end_offset(0):
            records += (await reader.fetch(100, 1000)).get(0, [])
        await reader.close()
        return [decode(offset, time_ms, value)[2] for offset, time_ms, _, value in records]


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds; the test's time limit ends a vain wait."""
    while not holds():  # noqa: ASYNC110 - what is waited for is told to nobody
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running(
    directory: Path, settings: CleaningSettings | None = None, store: Store | RocksStore | None = None
) -> AsyncIterator[Running]:
    """A consumer that runs, of an embedded log."""
    log = EmbeddedLog(directory / "log.sqlite3", topic="t", partitions=1)
    await log.start()
    async with applying(log, settings, store) as one:
        yield one
    await log.close()


@asynccontextmanager
async def applying(
    log: Log, settings: CleaningSettings | None = None, store: Store | RocksStore | None = None
) -> AsyncIterator[Running]:
    """A consumer of this log that runs."""
    one = Running(log, store or Store(), settings or CleaningSettings(interval_s=LONG_SECONDS))
    await one.consumer.open()
    stop = asyncio.Event()
    task = asyncio.create_task(one.consumer.run(stop))
    try:
        yield one
    finally:
        stop.set()
        await task
        one.consumer.close()


FILL: Final = (
    *(f"SET k{n} v PX 10" for n in range(25)),
    *(f"RPUSH l{n} a b c" for n in range(5)),
    "HSETEX h PX 10 FIELDS 2 b 1 c 1",  # first, as a layout may rewrite a hash that gets its first field time
    "HSET h a 1",
    "HSETEX gone PX 10 FIELDS 1 b 1",
    "DEL l0 l1 l2 l3",
)


@pytest.mark.form(Form.FIELD_TIMES)
async def test_everything_goes(tmp_path: Path) -> None:
    """Due keys and fields, and dead collections; each is counted and told once, and the digest stays the same."""
    async with running(tmp_path, CleaningSettings(keys_max=7)) as one:
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v PX 100000", time_ms=2000)
        store, machine = one.owned.worker.store, one.owned.worker.machine
        before = digest(store, layout_of(), machine.clock_ms)
        one.clean()

        assert (25, 3) == (one.heard.total("keys"), one.heard.total("fields"))
        assert (5, 4 * 3 + 1) == (one.heard.total("graves"), one.heard.total("elements"))
        assert (1, 0) == (one.records(EXPIRY_CF), one.records(GRAVEYARD_CF))
        assert sorted([*((0, b"k%d" % n) for n in range(25)), (0, b"gone")]) == sorted(
            key for swept in one.swept for key in swept.keys
        )
        assert all(len(swept.keys) <= 7 for swept in one.swept)
        assert before == digest(store, layout_of(), machine.clock_ms)


async def test_an_idle_partition_costs_nothing(tmp_path: Path) -> None:
    """After a look that found nothing left no store is asked until an event comes, and then after the interval."""
    store = Store()
    async with running(tmp_path, CleaningSettings(interval_s=0.01), store) as one:
        await one.apply(*FILL, time_ms=1000)
        one.clean()
        store.scans.clear()
        for _ in range(5):
            await asyncio.sleep(0.02)
            one.clean()
        idle = list(store.scans)
        await one.apply("SET a 1", time_ms=2000)
        await asyncio.sleep(0.02)
        one.clean()

        assert [] == idle
        assert 25 == one.heard.total("keys")


@pytest.mark.form(Form.FIELD_TIMES)
async def test_keys_stay_while_they_may_not_expire(tmp_path: Path) -> None:
    """Dead collections go all the same; once keys may go again, they go without an event."""
    async with running(tmp_path) as one:
        one.may_expire = False
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        one.clean()
        before = one.heard.total("keys"), one.heard.total("graves")
        one.may_expire = True
        one.clean()

        assert (0, 4) == before
        assert (25, 5) == (one.heard.total("keys"), one.heard.total("graves"))


async def test_what_a_flush_took_away_is_no_backlog(tmp_path: Path) -> None:
    """A slice that finds nothing where the last one left something says so: what is shown of the backlog is 0 then."""
    async with running(tmp_path, CleaningSettings(interval_s=LONG_SECONDS, keys_max=10)) as one:
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        one.cleaner.clean_some(SLICE_SECONDS)
        await one.apply("FLUSHALL", time_ms=2000)
        one.clean()
        dues = [cleaned.expiry_due_ms for cleaned in one.heard.cleanings if cleaned.expiry_due_ms is not None]
        assert dues[0] > 0 == dues[-1]


async def test_a_busy_store_is_left_alone(tmp_path: Path) -> None:
    """What RocksDB refuses is tried again later; nothing is lost, and the partition runs on."""
    store = Store()
    async with running(tmp_path, store=store) as one:
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        store.failures = [StoreBusyError("busy")]
        one.clean()
        refused = one.heard.total("keys")
        job = one.cleaner.job(0)
        assert job is not None
        job.not_before = 0.0
        one.clean()

        assert (0, 25) == (refused, one.heard.total("keys"))
        assert Condition.RUNNING is one.owned.condition


@pytest.mark.parametrize("after_write", [False, True], ids=["nothing written", "all written"])
async def test_a_failed_write_sets_the_partition_aside(tmp_path: Path, after_write: bool) -> None:
    """Whether the write is there or not: the store is closed at once, opened again, and the outcome is the same."""
    store = Store()
    async with running(tmp_path, store=store) as one:
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        before = digest(store, layout_of(), 2000)
        store.fails_after_write, store.failures = after_write, [OSError("disk failed")]
        one.clean()
        closed, condition = store.closed, one.owned.condition
        await one.log.append([Entry(0, None, encode("SET", ["k1", "new"]), 2000)])
        await until(lambda: one.owned.condition is Condition.RUNNING)
        await one.caught_up()
        one.clean()

        assert (1, Condition.STOPPED) == (closed, condition)
        assert (Condition.STOPPED, "cleaning failed: OSError: disk failed") in one.heard.conditions
        assert (0, 0) == (one.records(EXPIRY_CF), one.records(GRAVEYARD_CF))
        assert digest(store, layout_of(), 2000) != before
        await one.apply("DEL k1", time_ms=2000)
        assert digest(store, layout_of(), 2000) == before


async def test_a_partition_set_aside_during_a_fetch(tmp_path: Path) -> None:
    """The consumer, which waits for records meanwhile, applies none of them to the store that is closed."""
    async with running(tmp_path) as one:
        await one.apply("SET a 1")
        one.consumer.conditions.stop_outside(0, "a reason")
        await one.log.append([Entry(0, None, encode("SET", ["b", "1"]))])
        await until(lambda: one.owned.condition is Condition.RUNNING)
        await one.apply("SET c 1")

        assert 3 == one.owned.worker.machine.position.next_offset
        assert [(Condition.STOPPED, "a reason")] == [
            heard for heard in one.heard.conditions if heard[0] is Condition.STOPPED
        ]


async def test_nothing_is_cleaned_while_it_does_not_run(tmp_path: Path) -> None:
    """A partition that is set aside is left alone."""
    async with running(tmp_path) as one:
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        one.owned.condition = Condition.WAITING
        one.clean()
        waiting = list(one.heard.cleanings)
        one.owned.condition = Condition.RUNNING
        one.clean()

        assert [] == waiting
        assert 25 == one.heard.total("keys")


async def test_ranges_are_compacted(tmp_path: Path) -> None:
    """A large dead collection goes as a range, whose room a compaction in a thread gives back."""
    store = RocksStore(tmp_path / "0", FAMILIES)
    async with running(tmp_path, CleaningSettings(interval_s=0.02), store) as one:
        for start in range(0, 5000, 1000):
            await one.apply("RPUSH l " + " ".join(f"{n}{'x' * 100}" for n in range(start, start + 1000)))
        store.flush_all()
        full = sum(store.disk_bytes().values())
        await one.apply("DEL l")
        task = asyncio.create_task(one.cleaner.run())
        await until(lambda: one.heard.total("ranges"))
        job = one.cleaner.job(0)
        assert job is not None
        await until(lambda: not job.reclaimer.ranges())
        task.cancel()
        await asyncio.wait((task,))

        assert sum(store.disk_bytes().values()) < full / 4
        assert 5000 == one.heard.total("elements")

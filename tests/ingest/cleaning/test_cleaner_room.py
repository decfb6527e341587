"""A partition that waits because the disk is full is cleaned, and so may come back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

import pytest

from engine.errors import StoreFullError
from engine.store.rocks import RocksStore
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF
from ingest.applying.partitions.owned_partition import RETRY_SECONDS_MIN
from ingest.cleaning import compactor
from ingest.cleaning.cleaner import Cleaner, CleaningSettings
from ingest.reporting.observer import Condition
from slotlog.events import encode
from slotlog.log import Entry
from tests.ingest.cleaning.test_cleaner import FAMILIES, FILL, SLICE_SECONDS, Running, Store, running, until

MIB: Final = 1024 * 1024
RESERVE: Final = 2 * MIB
RECORDS: Final = 4000
VALUE_BYTES: Final = 2000
SETTINGS: Final = CleaningSettings(interval_s=0.02)


class FullDisk:
    """A disk of which nothing but a partition's store takes room; as full as it is said to be."""

    def __init__(self, directory: Path) -> None:
        self.size = 1 << 40
        self._directory = directory

    def used(self) -> int:
        """Bytes of all files."""
        size = 0
        for file in self._directory.iterdir():
            with suppress(FileNotFoundError):  # RocksDB has just removed it
                size += file.stat().st_size
        return size

    def guard(self) -> str:
        """As `ops.state.opening.directories.free_space_guard`."""
        return "the disk is full" if self.size - self.used() < RESERVE else ""

    def has_room(self, size: int) -> bool:
        """As `ops.state.opening.directories.has_room_to_clean`."""
        return self.size - self.used() - size >= RESERVE // 2


@asynccontextmanager
async def on_disk(directory: Path) -> AsyncIterator[tuple[Running, FullDisk]]:
    """A consumer and its cleaner on a disk that has room."""
    path = directory / "0"
    async with running(directory, SETTINGS, RocksStore(path, FAMILIES)) as one:
        disk = FullDisk(path)
        one.consumer.conditions.guard = disk.guard
        one.cleaner = Cleaner(
            one.log, one.consumer.partitions, one.heard, one.consumer.conditions.stop_outside, SETTINGS, disk.has_room
        )
        yield one, disk


def filling(kind: str) -> list[tuple[str, list[object]]]:
    """Events of 8 MB that do not compress."""
    random = Random(1)
    value = [random.randbytes(VALUE_BYTES) for _ in range(RECORDS)]
    events: dict[str, list[tuple[str, list[object]]]] = {
        "one large hash": [("HSET", ["h", f"f{n}", value[n]]) for n in range(RECORDS)],
        "many small lists": [("RPUSH", [f"l{n // 4}", value[n]]) for n in range(RECORDS)],
        "keys that are due": [("SET", [f"k{n}", value[n], "PX", 10]) for n in range(RECORDS)],
    }
    return events[kind]


DELETING: Final[dict[str, list[tuple[str, list[object]]]]] = {
    "one large hash": [("DEL", ["h"])],
    "many small lists": [("DEL", [f"l{n}" for n in range(RECORDS // 4)])],
    "keys that are due": [("TICK", [])],
}


@pytest.mark.parametrize("kind", DELETING)
async def test_a_partition_comes_back_by_itself(tmp_path: Path, kind: str) -> None:
    """Nobody makes room: what is due and dead goes, its room comes back, and the events that wait are applied."""
    async with on_disk(tmp_path) as (one, disk):
        await one.log.append([Entry(0, None, encode(name, args), 1000) for name, args in filling(kind)])
        await one.caught_up()
        store = one.owned.worker.store
        assert isinstance(store, RocksStore)
        store.flush_all()
        await one.log.append([Entry(0, None, encode(name, args), 2000) for name, args in DELETING[kind]])
        await one.caught_up()
        disk.size = disk.used() + RESERVE - 100_000
        await until(lambda: one.owned.condition is Condition.WAITING)
        await one.log.append([Entry(0, None, encode("SET", ["last", "1"]), 3000)])
        task = asyncio.create_task(one.cleaner.run())
        await until(lambda: one.owned.condition is Condition.RUNNING)
        await one.caught_up()
        task.cancel()
        await asyncio.wait((task,))

        assert b"1" == one.owned.worker.machine.read(b"GET", [b"last"])
        assert [Condition.RUNNING, Condition.WAITING, Condition.RUNNING] == [heard for heard, _ in one.heard.conditions]


async def test_a_flush_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever took the room that it needed may be gone by then; until it is done nothing is given back."""
    monkeypatch.setattr(compactor, "_RETRY_SECONDS", 0.01)
    async with on_disk(tmp_path) as (one, disk):
        store, failures = one.owned.worker.store, [OSError("no space left")]
        assert isinstance(store, RocksStore)
        flush_all = store.flush_all

        def flush_or_fail() -> None:
            if failures:
                raise failures.pop()
            flush_all()

        await one.log.append([Entry(0, None, encode(name, args), 1000) for name, args in filling("keys that are due")])
        await one.caught_up()
        flush_all()
        monkeypatch.setattr(store, "flush_all", flush_or_fail)
        await one.apply("TICK", time_ms=2000)
        disk.size = disk.used() + RESERVE - 100_000
        await until(lambda: one.owned.condition is Condition.WAITING)
        task = asyncio.create_task(one.cleaner.run())
        await until(lambda: one.owned.condition is Condition.RUNNING)
        task.cancel()
        await asyncio.wait((task,))

        assert [] == failures


async def test_nothing_is_cleaned_in_the_last_of_the_room(tmp_path: Path) -> None:
    """Where there is not even room for tombstones, a partition is left alone: a failed write would close its store."""
    async with on_disk(tmp_path) as (one, disk):
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        disk.size = disk.used() + RESERVE // 2 - 1
        await until(lambda: one.owned.condition is Condition.WAITING)
        one.clean()
        left = one.records(GRAVEYARD_CF)
        disk.size += 100_000
        one.clean()

        assert (4, 0) == (left, one.records(GRAVEYARD_CF))
        assert Condition.WAITING is one.owned.condition


async def test_whatever_else_is_waited_for_is_no_full_disk(tmp_path: Path) -> None:
    """A partition that runs again, or waits for its log, does not wait for room."""
    async with on_disk(tmp_path) as (one, disk):
        await one.apply(*FILL, time_ms=1000)
        disk.size = disk.used() + RESERVE - 1
        await until(lambda: one.owned.waits_for_room)
        disk.size += MIB
        await until(lambda: one.owned.condition is Condition.RUNNING)
        runs = one.owned.waits_for_room
        one.consumer.conditions.set_aside(0, Condition.WAITING, "the log is away")

        assert (False, False) == (runs, one.owned.waits_for_room)
        assert not one.cleaner.clean_some(SLICE_SECONDS)


async def test_a_partition_that_a_full_disk_has_stopped_waits_for_room(tmp_path: Path) -> None:
    """A write that failed has closed its store: it is opened again, to be read and cleaned, with the disk full."""
    store, reasons = Store(), ["the disk is full"]
    async with running(tmp_path, SETTINGS, store) as one:
        await one.apply(*FILL, time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        one.consumer.conditions.guard = lambda: reasons[0]
        one.consumer.conditions.has_room = lambda _size: len(reasons) > 1
        one.cleaner = Cleaner(
            one.log,
            one.consumer.partitions,
            one.heard,
            one.consumer.conditions.stop_outside,
            SETTINGS,
            lambda _size: True,
        )
        await until(lambda: one.owned.waits_for_room)
        store.failures = [OSError("no space left")]
        one.clean()
        tried_at = one.owned.retry_at
        await until(lambda: one.owned.retry_at > tried_at)
        without_room = one.owned.condition, one.owned.worker.is_open
        reasons.append("a little was made free")
        await until(lambda: one.owned.waits_for_room)
        retry_seconds = one.owned.retry_at - monotonic()
        one.clean()
        read = one.owned.worker.machine.read(b"GET", [b"kept"])
        reasons[0] = ""
        await one.apply("SET last v", time_ms=3000)

        assert (Condition.STOPPED, False) == without_room
        assert retry_seconds <= RETRY_SECONDS_MIN
        assert (b"v", 0, 0) == (read, one.records(GRAVEYARD_CF), one.records(EXPIRY_CF))


@pytest.mark.parametrize("who", ["a batch", "the cleaner"])
async def test_a_store_that_has_met_a_full_disk_is_read_until_there_is_room(tmp_path: Path, who: str) -> None:
    """Its write has failed as a whole: it stays open, and is opened anew once its write-ahead log finds room."""
    store, room = Store(), [0]
    async with running(tmp_path, SETTINGS, store) as one:
        await one.apply(*FILL, "SET kept v", time_ms=1000)
        await one.apply("SET kept w", time_ms=2000)
        one.consumer.conditions.guard = lambda: ""
        one.consumer.conditions.has_room = lambda size: size <= room[0]
        store.failures = [StoreFullError("no space left")]
        if who == "a batch":
            await one.log.append([Entry(0, None, encode("SET", ["kept", "x"]), 3000)])
        else:
            one.clean()
        await until(lambda: one.owned.opens_again)
        tried_at = one.owned.retry_at
        await until(lambda: one.owned.retry_at > tried_at)
        while_full = one.owned.condition, one.owned.reason, store.closed
        read = one.owned.worker.machine.read(b"GET", [b"kept"])
        cleans = one.cleaner.clean_some(SLICE_SECONDS)
        room[0] = 1 << 30
        await until(lambda: one.owned.condition is Condition.RUNNING)
        await one.apply("APPEND kept z", time_ms=4000)
        after = one.owned.worker.machine.read(b"GET", [b"kept"])

        assert (Condition.WAITING, "no space left", 0) == while_full
        assert (b"w", False) == (read, cleans)
        assert (1, b"xz" if who == "a batch" else b"wz", False) == (store.closed, after, one.owned.opens_again)


async def test_who_cannot_ask_for_room_is_stopped_by_a_full_disk(tmp_path: Path) -> None:
    """A replay ends with the reason: it would wait for ever."""
    store = Store()
    async with running(tmp_path, SETTINGS, store) as one:
        store.failures = [StoreFullError("no space left")]
        await one.log.append([Entry(0, None, encode("SET", ["a", "b"]), 1000)])
        await until(lambda: one.heard.conditions[-1:] != [(Condition.RUNNING, "")])

        assert (Condition.STOPPED, "no space left") == one.heard.conditions[-1]


async def test_a_partition_that_a_record_has_stopped_stays_closed(tmp_path: Path) -> None:
    """Whatever the disk has: an operator may have to skip the record, for which the store must be free."""
    async with running(tmp_path, SETTINGS, Store()) as one:
        one.consumer.conditions.has_room = lambda _size: True
        await one.log.append([Entry(0, None, encode("RULES", ["99"]), 1000)])
        await until(lambda: one.owned.condition is Condition.STOPPED)
        one.consumer.conditions.guard = lambda: "the disk is full"
        tried_at = one.owned.retry_at
        await until(lambda: one.owned.retry_at > tried_at)

        assert (Condition.STOPPED, False) == (one.owned.condition, one.owned.worker.is_open)

"""The compactor of a running service compacts every deleted range."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.store.rocks import RocksStore
from engine.store.store import LOCAL_CF
from engine.tables.compaction_notes import NOTE, DeletedRange
from engine.values.encoding import prefix_end
from ingest.applying.partitions.owned_partition import no_room
from ingest.cleaning.chores import CleaningJob
from ingest.cleaning.cleaner import CleaningSettings
from ingest.cleaning.compactor import Compactor
from ingest.reporting.observer import NullObserver
from tests.ingest.cleaning.test_cleaner import FAMILIES, Running, running, until


def notes(one: Running) -> int:
    """How many deleted ranges wait for their compaction."""
    return len(list(one.owned.worker.store.scan(LOCAL_CF, NOTE, prefix_end(NOTE))))


async def test_a_flush_of_a_running_service_is_compacted(tmp_path: Path) -> None:
    """Also after the compactor has looked and found nothing: no reclaimer has to delete a range first."""
    store = RocksStore(tmp_path / "0", FAMILIES)
    async with running(tmp_path, CleaningSettings(interval_s=0.02), store) as one:
        await one.apply("SET a 1")
        task = asyncio.create_task(one.cleaner.run())
        job = one.cleaner.job(0)
        assert job is not None
        await until(lambda: not job.may_have_ranges)
        await one.apply("FLUSHALL")
        noted = notes(one)
        await until(lambda: one.heard.total("ranges") and not notes(one))
        task.cancel()
        await asyncio.wait((task,))

        assert noted > 0


async def test_a_flush_during_a_compaction_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it deletes of the very range that is being compacted is not done with when that is done."""
    store = RocksStore(tmp_path / "0", FAMILIES)
    compact, deleted = store.compact, asyncio.Event()
    compacted: list[tuple[object, ...]] = []
    async with running(tmp_path, CleaningSettings(interval_s=0.02), store) as one:
        loop, go_on = asyncio.get_running_loop(), asyncio.Event()

        def compact_slowly(*args: object) -> bool:
            compacted.append(args[:2])
            done = compact(*args)  # type: ignore[arg-type]
            loop.call_soon_threadsafe(deleted.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
            return done

        await one.apply("SET a 1", "FLUSHALL", "SET a 1")
        monkeypatch.setattr(store, "compact", compact_slowly)
        task = asyncio.create_task(one.cleaner.run())
        await deleted.wait()
        await one.apply("FLUSHALL")
        go_on.set()
        await until(lambda: not notes(one))
        task.cancel()
        await asyncio.wait((task,))

        assert 2 == compacted.count(compacted[0])


async def test_each_time_it_is_another_ranges_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each partition, however many there are: no range waits for ever where others are deleted again and again."""
    for name in "01":
        (tmp_path / name).mkdir()
    async with running(tmp_path / "0") as one, running(tmp_path / "1") as other:
        both = [one, other]
        waiting: list[list[str]] = [[], []]
        compacted: list[list[str]] = [[], []]

        async def compact(_: Compactor, partition: int, job: CleaningJob, deleted: DeletedRange) -> bool:
            compacted[partition].append(deleted.column_family)
            waiting[partition] = [each.column_family for each in job.reclaimer.ranges()]
            await both[partition].apply("SET a 1", "FLUSHALL")
            return True

        monkeypatch.setattr(Compactor, "_compact", compact)
        partitions = {partition: each.owned for partition, each in enumerate(both)}
        compactor = Compactor(
            partitions, lambda partition: both[partition].cleaner.job(0), NullObserver(), one.cleaner.failed, 0, no_room
        )
        for each in both:
            await each.apply("SET a 1", "FLUSHALL")
        while len(compacted[1]) < max(2, len(waiting[1])):
            assert [False, False] == [await compactor._look(partition) for partition in partitions]

        assert waiting == [sorted(names) for names in compacted]


class Waits:
    """Stands for the event that ends a compaction: keeps how long each piece was to wait, and waits for nothing."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def wait(self, seconds: float) -> bool:
        """Nobody ends it."""
        self.seconds.append(seconds)
        return False

    def set(self) -> None:
        """As an event."""

    def clear(self) -> None:
        """As an event."""


@pytest.mark.parametrize("bytes_per_s", [0, 1000])
async def test_a_compaction_keeps_to_its_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_per_s: int
) -> None:
    """After each piece it waits as long as its bytes take at that rate; without a limit it does not wait."""
    pieces: list[int] = []
    store = RocksStore(tmp_path / "0", FAMILIES)
    compact = store.compact

    def counting(family: str, start: bytes, end: bytes, go_on: Callable[[int], bool]) -> bool:
        def counted(size: int) -> bool:
            pieces.append(size)
            return go_on(size)

        return compact(family, start, end, counted)

    monkeypatch.setattr(store, "compact", counting)
    async with running(tmp_path, CleaningSettings(compaction_bytes_per_s=bytes_per_s), store) as one:
        await one.apply(*(f"SET key:{n} {n}" for n in range(100)))
        store.flush_all()
        await one.apply("FLUSHALL")
        waits = Waits()
        monkeypatch.setattr(one.cleaner._compactor, "_stopping", waits)
        while notes(one):
            await one.cleaner._compactor._look(0)

        assert 0 < sum(pieces)
        assert [size / bytes_per_s if bytes_per_s else 0.0 for size in pieces] == waits.seconds

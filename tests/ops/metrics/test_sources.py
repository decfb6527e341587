"""Metrics take their values from batches, cleaning, stores, appends, the event loop and a replay's file."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.apply.machine import KEY_CACHE_BYTES
from engine.apply.records import Applied, Record
from engine.cleaning.sweep import Sweeper
from engine.errors import CommandError
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from ingest.applying.batches.worker import Worker
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.reporting.observer import Cleaned, Condition
from ops.config import Settings
from ops.metrics import CATALOG, Metrics, Watched
from ops.metrics.readings import ScrapeSlices
from ops.metrics.stall import LoopStalls
from ops.metrics.textfile import ReplayFile
from ops.state.opening.directories import home_of, shared_memory, store_opener
from slotlog.errors import LogUnavailableError
from slotlog.log import Entry, open_log
from tests.ops.verbs import run, write_lines


def read(exposition: str) -> dict[str, float]:
    """Series -> value."""
    lines = [line.rpartition(" ") for line in exposition.splitlines() if not line.startswith("#")]
    return {head: float(value) for head, _, value in lines}


async def scraped(metrics: Metrics) -> dict[str, float]:
    """What a scrape gives."""
    return read((await metrics.exposition()).decode())


async def _ready() -> dict[str, Any]:
    return {"ready": True}


@asynccontextmanager
async def watching(directory: Path, partitions: int) -> AsyncIterator[tuple[Metrics, dict[int, Worker]]]:
    """Metrics of open partitions on an embedded log, without a server."""
    settings = Settings(data=directory, partitions=partitions)
    log = open_log(f"sqlite:///{directory / 'log'}", topic=settings.topic, partitions=partitions)
    await log.start()
    metrics = Metrics()
    memory = shared_memory(settings)
    opener = store_opener(settings, directory, memory)
    workers = {each: Worker(home_of(settings, each), log, opener, None, metrics) for each in range(partitions)}
    metrics.watch(
        Watched(settings, {each: OwnedPartition(worker) for each, worker in workers.items()}, log, memory, None, _ready)
    )
    for worker in workers.values():
        worker.open()
    try:
        yield metrics, workers
    finally:
        for worker in workers.values():
            worker.close()
        await log.close()


def test_batches_add_up_by_partition_and_family() -> None:
    """Commands count by name over all partitions, and by family in each."""
    metrics = Metrics()
    for partition, name in ((0, b"SET"), (0, b"INCR"), (1, b"HSET")):
        applied = Applied(0)
        applied.records = 2
        applied.commands[name] = 2
        applied.reject(0, name, CommandError("ERR no"))
        metrics.applied(partition, applied, 10, 0.001)

    values = asyncio.run(scraped(metrics))

    assert 4 == values['slotlog_events_applied_total{partition="0"}']
    assert 2 == values['slotlog_events_rejected_total{partition="0"}']
    assert 4 == values['slotlog_family_commands_applied_total{partition="0",family="string"}']
    assert 2 == values['slotlog_family_commands_applied_total{partition="1",family="hash"}']
    assert 2 == values['slotlog_commands_applied_total{command="HSET"}']
    assert 1 == values['slotlog_commands_rejected_total{command="INCR"}']
    assert 3 == values["slotlog_batch_records_count"]
    assert 3 == values['slotlog_batch_records_bucket{le="2.0"}']
    assert 0 == values['slotlog_batch_records_bucket{le="1.0"}']


def test_cleaning_adds_up_and_leaves_its_backlog() -> None:
    """Each kind of slice changes the backlog of its own kind; a compaction, which holds up nobody, is no time of it."""
    metrics = Metrics()
    metrics.cleaned(0, Cleaned(keys=5, fields=2, seconds=0.001, expiry_due_ms=1000))
    metrics.cleaned(0, Cleaned(graves=1, elements=70, seconds=0.002, grave_ms=2500, ranges_waiting=1))
    behind = asyncio.run(scraped(metrics))
    metrics.cleaned(0, Cleaned(keys=3, seconds=0.001, expiry_due_ms=0))
    metrics.cleaned(0, Cleaned(graves=1, seconds=0.001, grave_ms=0))
    metrics.cleaned(0, Cleaned(ranges=1))
    done = asyncio.run(scraped(metrics))

    assert 2.5 == behind['slotlog_oldest_grave_timestamp_seconds{partition="0"}']
    assert 1e9 < behind['slotlog_expiry_behind_seconds{partition="0"}']
    assert 1 == behind['slotlog_compaction_ranges_waiting{partition="0"}']
    assert (8, 2, 2, 70, 1) == tuple(
        done[f'slotlog_{name}_total{{partition="0"}}']
        for name in ("expired_keys", "expired_fields", "reclaimed_graves", "reclaimed_records", "compacted_ranges")
    )
    assert 0 == done['slotlog_expiry_behind_seconds{partition="0"}']
    assert 0 == done['slotlog_compaction_ranges_waiting{partition="0"}']
    assert 'slotlog_oldest_grave_timestamp_seconds{partition="0"}' not in done
    assert 4 == done["slotlog_cleaning_seconds_count"]


def test_an_impossible_time_of_a_record_is_no_latency() -> None:
    """A dead letter may have any time at all; it must not spoil the sum for good."""
    metrics = Metrics()
    for time_ms in (-5, 0, 2**62):
        applied = Applied(0)
        applied.records = 1
        applied.first_time_ms = time_ms
        metrics.applied(0, applied, 1, 0.001)

    assert 0 == asyncio.run(scraped(metrics))["slotlog_event_latency_seconds_count"]


def test_partitions_may_close_before_and_during_a_scrape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed partition has no series of its store, its counts stay, and the others are all there."""

    async def scrape() -> tuple[dict[str, float], dict[str, float]]:
        async with watching(tmp_path, 3) as (metrics, workers):
            metrics.condition(1, Condition.STOPPED, "a test")
            workers[1].close()
            before = await scraped(metrics)

            async def pause(_: ScrapeSlices) -> None:
                workers[2].close()

            monkeypatch.setattr(ScrapeSlices, "pause", pause)
            return before, await scraped(metrics)

    before, during = asyncio.run(scrape())

    offsets = [f'slotlog_next_offset{{partition="{each}"}}' for each in range(3)]
    assert [True, False, True] == [offset in before for offset in offsets]
    assert [True, False, False] == [offset in during for offset in offsets]
    assert 1 == during['slotlog_partition_condition{partition="1",condition="stopped"}']
    assert "slotlog_block_cache_bytes" in during


def test_a_scrape_lets_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each partition and each metric it gives the event loop away, if its slice is over."""
    monkeypatch.setattr("ops.metrics.readings._SLICE_SECONDS", 0.0)

    async def scrape() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with watching(tmp_path, 4) as (metrics, _):
            counting = asyncio.create_task(count())
            await metrics.exposition()
            counting.cancel()
        return turns

    assert len(CATALOG) <= asyncio.run(scrape())


def test_keys_in_memory_are_counted(tmp_path: Path) -> None:
    """How many keys a partition holds, what they take with their elements, and its part of what all may take."""

    async def scrape() -> dict[str, float]:
        async with watching(tmp_path, 1) as (metrics, workers):
            machine = workers[0].machine
            for n in range(100):
                machine.apply([(n, 1, b"HSET", [b"h%d" % (n % 50), b"f%d" % n, b"v"], 0, None, None)], n)
            machine.commit(b"fingerprint")
            return await scraped(metrics)

    found = asyncio.run(scrape())
    held = {what: found[f'slotlog_keys_held_bytes{{partition="0",what="{what}"}}'] for what in ("keys", "elements")}
    assert 50 == found['slotlog_keys_held{partition="0"}']
    assert 50 * 400 < held["keys"] < 50 * 1000
    assert 100 * 100 < held["elements"] < 100 * 300
    assert 0 == found['slotlog_keys_held_bytes{partition="0",what="ranks"}']
    assert KEY_CACHE_BYTES == found['slotlog_keys_held_budget_bytes{partition="0"}']


def test_stores_tell_their_numbers(tmp_path: Path) -> None:
    """What is written is in the memtables; once flushed it is in files of its column family, and is counted."""

    async def scrape() -> tuple[dict[str, float], dict[str, float]]:
        async with watching(tmp_path, 2) as (metrics, workers):
            store: Any = workers[0].store
            before = await scraped(metrics)
            changes = Changes()
            changes.of("data").update({b"%d" % number: b"x" * 100 for number in range(1000)})
            store.write(changes)
            middle = await scraped(metrics)
            assert middle['slotlog_memtable_bytes{partition="0"}'] > before['slotlog_memtable_bytes{partition="0"}']
            assert middle['slotlog_wal_bytes{partition="0"}'] > 100_000
            store.flush_all()
            return before, await scraped(metrics)

    before, after = asyncio.run(scrape())

    def of(name: str, partition: int) -> str:
        return f'slotlog_{name}{{partition="{partition}",column_family="data"}}'

    assert 1000 == after[of("stored_records", 0)]
    assert 0 < after[of("disk_live_bytes", 0)] <= after[of("disk_bytes", 0)]
    assert 0 == after[of("disk_bytes", 1)]
    assert after["slotlog_flush_written_bytes_total"] > before["slotlog_flush_written_bytes_total"]
    assert 1 == after['slotlog_level0_files{partition="0"}']
    assert 0 < after["slotlog_disk_free_bytes"] < after["slotlog_disk_size_bytes"]


def test_appends_are_counted(tmp_path: Path) -> None:
    """Both ways of appending, with their records and their errors."""

    async def append() -> dict[str, float]:
        async with watching(tmp_path, 1) as (metrics, workers):
            log: Any = workers[0]._log
            await log.append([Entry(0, None, b"a"), Entry(0, None, b"b")])
            log.append_at_once([Entry(0, None, b"c")])
            with pytest.raises(ValueError, match="partition 7"):
                await log.append([Entry(7, None, b"d")])
            values = await scraped(metrics)
            await log.close()
            with pytest.raises(LogUnavailableError):
                log.append_at_once([Entry(0, None, b"e")])
            return {**values, **{f"later {name}": value for name, value in (await scraped(metrics)).items()}}

    values = asyncio.run(append())

    assert 2 == values["slotlog_log_append_seconds_count"]
    assert 3 == values["slotlog_log_appended_records_total"]
    assert 1 == values['slotlog_log_append_errors_total{outcome="nothing"}']
    assert 0 == values['slotlog_log_append_errors_total{outcome="unknown"}']
    assert 0 < values["slotlog_log_disk_bytes"]


def test_the_latest_timer_is_remembered_for_a_minute() -> None:
    """However many scrape meanwhile; then it is forgotten."""
    stalls = LoopStalls()
    stalls.note(100.0, 0.7)
    for second in range(101, 160):
        stalls.note(float(second), 0.001)
    within = stalls.most_seconds
    for second in range(160, 240):
        stalls.note(float(second), -0.0001)

    assert (0.7, 0.0) == (within, stalls.most_seconds)
    assert 140 == sum(stalls.seconds.counts)


def test_the_loop_is_measured() -> None:
    """A loop that is held up is late; the timer says by how much, as far as it was due meanwhile."""

    async def stall() -> float:
        stalls = LoopStalls()
        running = asyncio.create_task(stalls.run())
        await asyncio.sleep(0)
        time.sleep(0.15)  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0.1)
        running.cancel()
        return stalls.most_seconds

    assert asyncio.run(stall()) >= 0.09


def test_a_replay_keeps_its_file(tmp_path: Path) -> None:
    """`--metrics-file` ends with everything done, at a time that has passed, and is what promtool takes."""
    events = write_lines(tmp_path / "events", [{"cmd": "INCR", "args": ["n"]} for _ in range(20)])
    data, file = tmp_path / "data", tmp_path / "slotlog.prom"
    run("produce", events, "--data", data)
    result = run("replay", "--data", data, "--to", tmp_path / "rebuilt", "--metrics-file", file)
    promtool = shutil.which("promtool")
    assert promtool is not None, "apt-get install prometheus"
    checked = subprocess.run([promtool, "check", "metrics"], input=file.read_bytes(), capture_output=True, check=False)
    values = read(file.read_text())

    assert 0 == result.exit_code, result.output
    assert (20, 20) == (values["slotlog_replay_done_events"], values["slotlog_replay_total_events"])
    assert {each.name for each in CATALOG if each.needs == "replay"} == values.keys()
    assert (0, b"", b"") == (checked.returncode, checked.stdout, checked.stderr)
    assert [] == list(tmp_path.glob("*.new"))


def test_a_replay_says_when_it_will_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the rate so far: a quarter done in 10 s leaves 30."""
    clock = [100.0]
    monkeypatch.setattr("ops.metrics.textfile.monotonic", lambda: clock[0])
    monkeypatch.setattr("ops.metrics.textfile.now_ms", lambda: 1_000_000)
    file = ReplayFile(tmp_path / "file.prom")
    file.note(0, 400)
    first = (tmp_path / "file.prom").read_text()
    clock[0] = 110.0
    file.note(100, 400)

    assert "slotlog_replay_end" not in first
    assert 1030.0 == read((tmp_path / "file.prom").read_text())["slotlog_replay_end_timestamp_seconds"]


def lag(metrics: Metrics) -> list[float | None]:
    """The lag of partition 0 as a scrape has it: events, seconds, and whether it is known."""
    values = asyncio.run(scraped(metrics))
    return [values.get(f'slotlog_lag_{name}{{partition="0"}}') for name in ("events", "seconds", "known")]


def test_a_lag_that_is_not_known_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the log does not answer, the time since it did counts as lag; no number of events is made up before."""
    clock = [1000.0]
    monkeypatch.setattr("ops.metrics.counts.monotonic", lambda: clock[0])
    metrics = Metrics()
    metrics.condition(0, Condition.OPENING, "")
    clock[0] += 40
    never = lag(metrics)
    metrics.lag(0, 0, 0.0)
    at_once = lag(metrics)
    clock[0] += 15
    soon = lag(metrics)
    clock[0] += 25
    long_after = lag(metrics)
    metrics.lag(0, 7, 3.5)
    back = lag(metrics)
    clock[0] += 60
    behind = lag(metrics)

    assert [None, 40, 0] == never
    assert [[0, 0, 1], [0, 0, 1], [0, 40, 0]] == [at_once, soon, long_after]
    assert [[7, 3.5, 1], [7, 63.5, 0]] == [back, behind]


async def test_errors_of_a_store_that_was_closed_still_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed flush stops the partition, whose store is closed at once and forgets: its errors are kept, once."""
    async with watching(tmp_path, 1) as (metrics, workers):
        with monkeypatch.context() as patched:
            patched.setattr(RocksStore, "number_of", lambda *_: 2)
            failing = await scraped(metrics)
            metrics.condition(0, Condition.STOPPED, "no space left")
        workers[0].close()
        metrics.condition(0, Condition.STOPPED, "still no space left")
        closed = await scraped(metrics)
        workers[0].open()
        again = await scraped(metrics)

    name = 'slotlog_rocksdb_background_errors_total{partition="0"}'
    assert (2, 2, 2) == (failing[name], closed[name], again[name])


async def test_due_keys_are_counted_up_to_a_bound(tmp_path: Path) -> None:
    """From where the sweep stands; so a scrape never reads more than a thousand entries of a partition."""
    async with watching(tmp_path, 1) as (metrics, workers):
        machine = workers[0].machine
        sets: list[Record] = [(n, 1000, b"SET", [b"%d" % n, b"v", b"PX", b"10"], 0, None, None) for n in range(1100)]
        machine.apply([*sets, (1100, 5000, b"TICK", [], 0, None, None)], 0)
        machine.commit(b"f")
        sweeper = Sweeper(machine, workers[0].store)
        counted = []
        for keys_max in (0, 600, 400, 1000):
            if keys_max:
                sweeper.expire(keys_max)
            counted.append((await scraped(metrics))['slotlog_expiry_due_keys{partition="0"}'])

    assert [1000, 500, 100, 0] == counted


def test_errors_of_a_store_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever conditions a partition goes through, each opening of its store counts its errors once."""
    name = 'slotlog_rocksdb_background_errors_total{partition="0"}'
    monkeypatch.setattr(RocksStore, "number_of", lambda _, name: 3 if name == "background-errors" else 0)

    async def told() -> list[float]:
        async with watching(tmp_path, 1) as (metrics, workers):
            seen = [(await scraped(metrics))[name]]
            for condition, reason in (
                (Condition.WAITING, "the disk is full"),
                (Condition.STOPPED, "a write failed"),
                (Condition.STOPPED, "it cannot be opened"),
            ):
                metrics.condition(0, condition, reason)
                if condition is Condition.STOPPED:
                    workers[0].close()
                seen.append((await scraped(metrics))[name])
            workers[0].open()
            metrics.condition(0, Condition.RUNNING, "")
            return [*seen, (await scraped(metrics))[name]]

    assert [3, 3, 3, 3, 6] == asyncio.run(told())

"""A replay puts RocksDB's compactions off: what it builds is what a service builds, to the byte."""

from __future__ import annotations

import asyncio
from contextlib import closing
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.store.options import FILES_MAX
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from ingest.applying.batches.batch_size import BATCH_RECORDS_MAX, LOOP_SECONDS_MAX, BatchSize
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver
from ops.config import load_settings
from ops.snapshots.starting import start_from_snapshot
from ops.state.opening.directories import home_of, prepare_data, store_opener
from ops.state.rebuilding import replay
from ops.state.rebuilding.replay_plan import Until
from slotlog.log import open_log
from tests.ops.verbs import succeed, write_lines

SMALL_BATCH = 7


def events() -> list[dict[str, Any]]:
    """Some of each type, keys that are deleted, renamed and expire, ids that come twice."""
    draws = Random(1)
    written: list[dict[str, Any]] = []
    for n in range(400):
        text = draws.randbytes(300).hex()
        written += [
            {"cmd": "SET", "args": [f"string-{n % 90}", text, "PX", 1 + n % 3]},
            {"cmd": "HSET", "args": [f"hash-{n % 40}", f"field-{n % 7}", text]},
            {"cmd": "ZADD", "args": ["zset", n % 50, f"member-{n % 200}"]},
            {"cmd": "LPUSH", "args": [f"list-{n % 5}", text]},
            {"cmd": "INCR", "args": ["n"], "id": f"once-{n % 300}"},
            {"cmd": "DEL", "args": [f"hash-{n % 13}"]} if n % 11 == 0 else {"cmd": "SADD", "args": ["set", n]},
        ]
    return [*written, {"cmd": "RENAME", "args": ["set", "other"]}, {"cmd": "XADD", "args": ["stream", "1-1", "f", "v"]}]


async def apply_slowly(data: Path, to: Path) -> None:
    """Build the state as a service does: a few records at a time, with a write-ahead log."""
    settings = load_settings(data=data)
    target = settings.model_copy(update={"data": to})
    prepare_data(target)
    log = open_log(settings.log_url, topic=settings.topic, partitions=1)
    await log.start()
    quiet = NullObserver()
    worker = Worker(home_of(settings, 0), log, store_opener(target, to), None, quiet, records_max=SMALL_BATCH)
    consumer = Consumer(log, {0: worker}, quiet)
    try:
        await consumer.open()
        await consumer.run_to({0: await log.end_offset(0)})
    finally:
        consumer.close()
        await log.close()


def files(store: RocksStore) -> int:
    """Files that wait for a compaction, in the column family that has most of them."""
    return max(numbers["num-files-at-level0"] for numbers in store.properties().values())


def test_what_is_built_in_bulk_is_what_a_service_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes in each column family, and no more files than a service would leave alone.

    Memtables are flushed after each batch, so that there are more files before the end, and fewer than it compacts.
    """
    data, slow, quick = (tmp_path / name for name in ("data", "slow", "quick"))
    succeed("produce", write_lines(tmp_path / "events", events()), "--data", data)
    asyncio.run(apply_slowly(data, slow))
    monkeypatch.setattr(replay, "RECORDS_MAX", len(events()) // (FILES_MAX + 3))
    write, settle, seen = RocksStore.write, RocksStore.settle, list[int]()

    def flushed(store: RocksStore, changes: Changes) -> None:
        write(store, changes)
        store.flush_all()

    def counted(store: RocksStore) -> bool:
        seen.append(files(store))
        return settle(store)

    monkeypatch.setenv("SLOTLOG_GATHERED_RECORDS_MAX", "0")
    monkeypatch.setattr(RocksStore, "write", flushed)
    monkeypatch.setattr(RocksStore, "settle", counted)
    succeed("replay", "--data", data, "--to", quick)
    monkeypatch.undo()

    assert succeed("dump", "--raw", "--data", slow) == succeed("dump", "--raw", "--data", quick)
    assert seen[0] > FILES_MAX
    with closing(store_opener(load_settings(data=quick), quick)(0)) as store:
        assert isinstance(store, RocksStore)
        assert files(store) < FILES_MAX
        assert 0 == store.number_of("compaction-pending")


def test_a_replay_in_a_service_leaves_its_event_loop_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `DEBUG RELOAD` builds a state: in batches of a service. A replay by itself takes as many as there are."""
    succeed("produce", write_lines(tmp_path / "events", events()[:50]), "--data", tmp_path / "data")
    sizes: list[tuple[int, float]] = []
    init = BatchSize.__init__

    def noted(size: BatchSize, records_max: int, loop_seconds_max: float) -> None:
        sizes.append((records_max, loop_seconds_max))
        init(size, records_max, loop_seconds_max)

    monkeypatch.setattr(BatchSize, "__init__", noted)
    settings = load_settings(data=tmp_path / "data")
    asyncio.run(replay.replay(settings, tmp_path / "within", Until(), start=start_from_snapshot))
    succeed("replay", "--data", tmp_path / "data", "--to", tmp_path / "alone")

    assert [(BATCH_RECORDS_MAX, LOOP_SECONDS_MAX), (replay.RECORDS_MAX, inf)] == sizes

"""kill -9 during cleaning and SIGTERM during a compaction leave an intact, equal state."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from engine.store.store import EXPIRY_CF, GRAVEYARD_CF, LOCAL_CF
from engine.tables.compaction_notes import noted
from engine.tables.expiry_index import EXPIRY_CURSOR
from engine.values.encoding import pack_u64
from ops.config import Settings, load_settings
from ops.snapshots.starting import start_from_snapshot
from ops.state.opening.directories import digest_partition, partition_path, reading, reading_store
from ops.state.rebuilding.replay import replay
from ops.state.rebuilding.replay_plan import Until
from slotlog.events import encode
from slotlog.log import Entry
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess
from tests.ops.verbs import succeed, wait_until

EVENTS = 20_000
KILLS = 12
LARGE_FIELDS = 40_000
TOPIC = "t"
QUICK = {
    "SLOTLOG_LOG_LEVEL": "debug",
    "SLOTLOG_BATCH_RECORDS_MAX": "100",
    "SLOTLOG_TTL_CLEANUP_INTERVAL_S": "0.001",
    "SLOTLOG_TTL_CLEANUP_KEYS_MAX": "20",
    "SLOTLOG_CLEANUP_LOOP_SHARE": "0.3",
}


def event(number: int) -> tuple[str, list[Any]]:
    """Strings and collections that die soon, of their time or by a DEL, some of them written again."""
    group = number // 20 % 50
    return (
        ("SET", [f"s:{number % 3000}", "x" * 50, "PX", 200]),
        ("HSET", [f"h:{group}", f"f{number}", "v"]),
        ("HSETEX", [f"h:{group}", "PX", 100, "FIELDS", 1, f"t{number}", "v"]),
        ("RPUSH", [f"l:{group}", number]),
        ("PEXPIRE", [f"l:{group}", 300]),
        ("ZADD", [f"z:{group}", number, f"m{number}"]),
        ("DEL", [f"h:{group - 1}"] if number % 3 else [f"z:{group}"]),
    )[number % 7]


def left(settings: Settings) -> tuple[bytes, int, int]:
    """How far the walk over what is due has come, how much of it is left, and how many graves."""
    with reading_store(settings, 0) as store, reading(settings, 0) as (_, machine):
        due = store.scan(EXPIRY_CF, b"", pack_u64(machine.clock_ms + 1))
        graves = store.scan(GRAVEYARD_CF, b"", None)
        return store.getter(LOCAL_CF)(EXPIRY_CURSOR) or b"", sum(1 for _ in due), sum(1 for _ in graves)


@pytest.mark.timeout(300)
async def test_kills_during_cleaning(tmp_path: Path) -> None:
    """Killed again and again while it cleans, a service goes on with it, and nothing is wrong at any time.

    In the end its digest is that of a replay that never cleaned.
    """
    choose = random.Random(20261122)
    data = tmp_path / "data"
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    options = ["--data", str(data), "--log", url, "--topic", TOPIC, "--http", "", "--resp", ""]
    settings = load_settings(data=data, log=url, topic=TOPIC)
    midway = 0
    async with opened_log(url, TOPIC) as log:
        for start in range(0, EVENTS, EVENTS // KILLS):
            entries = [
                Entry(0, None, encode(name, args), 1000 + start + n)
                for n, (name, args) in enumerate(map(event, range(start, start + EVENTS // KILLS)))
            ]
            await log.append(entries)
            with ServiceProcess(options, QUICK) as service:
                for _ in range(choose.randint(5, 16)):
                    await asyncio.to_thread(service.wait_for, "batch")
                await asyncio.sleep(choose.uniform(0, 0.05))
                service.kill()
            cursor, due, graves = left(settings)
            midway += bool(cursor and (due or graves))
            succeed("check", "--data", data, "--log", url)
        end = await log.end_offset(0)
    with ServiceProcess(options, QUICK) as service:
        service.wait_for("started")
        wait_until(lambda: digest_partition(settings, 0)[1].next_offset == end, "everything is applied")
        wait_until(lambda: not left(settings)[1], "what is due is gone")
        assert 0 == service.terminate()

    assert midway > KILLS / 3
    succeed("check", "--data", data, "--log", url)
    (replayed,) = await replay(settings, tmp_path / "again", Until(), start=start_from_snapshot)
    assert replayed.live_digest == replayed.digest


@pytest.mark.timeout(300)
async def test_a_compaction_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """SIGTERM while a large range waits for, or is in, its compaction: the process ends in time, and it is done later.

    The compaction is held to one byte a second: its thread would wait for hours between two pieces.
    """
    data = tmp_path / "data"
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    options = ["--data", str(data), "--log", url, "--topic", TOPIC, "--http", "", "--resp", ""]
    settings = load_settings(data=data, log=url, topic=TOPIC)
    async with opened_log(url, TOPIC) as log:
        for start in range(0, LARGE_FIELDS, 1000):
            fields = [word for n in range(start, start + 1000) for word in (f"f{n}", "x" * 500)]
            await log.append([Entry(0, None, encode("HSET", ["large", *fields]))])
        await log.append([Entry(0, None, encode("DEL", ["large"]))])
        await log.append([Entry(0, None, encode("SET", ["last", "1"]))])
        end = await log.end_offset(0)
    with ServiceProcess(options, {"SLOTLOG_LOG_LEVEL": "debug", "SLOTLOG_COMPACTION_BYTES_PER_S": "1"}) as service:
        while service.wait_for("batch")["next_offset"] < end:
            pass
        wait_until(lambda: not left(settings)[2], "the grave is gone")
        wait_until(lambda: b"Manual compaction starting" in _rocksdb_log(settings), "the compaction has begun")
        assert 0 == service.terminate()
    succeed("check", "--data", data, "--log", url)
    with ServiceProcess(options, {"SLOTLOG_LOG_LEVEL": "debug"}) as service:
        service.wait_for("started")
        wait_until(lambda: not _notes(settings), "the range is compacted")
        assert 0 == service.terminate()
    succeed("check", "--data", data, "--log", url)


def _rocksdb_log(settings: Settings) -> bytes:
    return (partition_path(settings.data, 0) / "LOG").read_bytes()


def _notes(settings: Settings) -> int:
    with reading_store(settings, 0) as store:
        return len(noted(store)[0])

"""`slotlog trim`: the log ends where the oldest verified snapshot begins, never behind it; a replay starts there."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.snapshots import trimming
from ops.snapshots.manifest import Manifest, SnapshotFile
from ops.snapshots.store import Listed, SnapshotStore
from slotlog.log.embedded.claims import EmbeddedClaims
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file import heads
from slotlog.log.embedded.file.file import connect
from tests.ops.snapshots.stores import MemoryObjects, state_of
from tests.ops.verbs import run, succeed, write_lines
from tests.slotlog.log.reading import append, last_record

EVENTS: list[dict[str, Any]] = [{"cmd": "HSET", "args": [f"h{n % 7}", f"f{n}", "v" * 500]} for n in range(3000)]
MORE: list[dict[str, Any]] = [
    {"cmd": "SET", "args": ["later", "1"]},
    {"cmd": "INCR", "args": ["n"], "id": "once"},
    {"cmd": "INCR", "args": ["n"], "id": "once"},
]
TOPIC = "t"


def facts(*words: object) -> Any:
    """What a verb says in JSON."""
    return json.loads(succeed(*words, "--json"))


def begin_of(data: Path) -> int:
    """Where partition 0 of the embedded log begins."""
    with closing(connect(data / "log.sqlite3")) as connection:
        return heads.head_of(connection, 0).begin_offset


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state, a snapshot of it, and events in the log that it has not applied."""
    data = state_of(tmp_path, EVENTS)
    succeed("snapshot", "--data", data, "--to", tmp_path / "store")
    succeed("produce", write_lines(tmp_path / "more", MORE), "--data", data)
    return data


def test_the_log_gets_shorter(data: Path, tmp_path: Path) -> None:
    """All that the snapshot has goes but for one record, and the file is as small; a dry run only tells it."""
    words = ("trim", "--from", tmp_path / "store", "--data", data)
    before = (data / "log.sqlite3").stat().st_size
    planned = facts(*words, "--dry-run")
    assert 0 == begin_of(data)
    done = facts(*words)
    after = (data / "log.sqlite3").stat().st_size
    again = succeed(*words)

    (facts_of_0,) = done["partitions"]
    assert {"dry_run": True, "partitions": done["partitions"], "file_smaller_bytes": 0} == planned
    assert (before - after, True) == (done["file_smaller_bytes"], after < before / 20)
    assert (0, 2999, 2999) == tuple(facts_of_0[name] for name in ("begin_offset", "trimmed_to", "deleted"))
    assert "partition 0: 0 records deleted, the log begins at offset 2999\n" == again
    succeed("produce", tmp_path / "events", "--data", data)
    assert (2999, True) == (begin_of(data), (data / "log.sqlite3").stat().st_size < before * 1.1)
    assert "3004 records as written, all is well" in succeed("check", "--log", "--data", data)


def test_a_replay_starts_from_the_snapshot(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the snapshots a replay gives the state of the whole log, also up to an offset; without, it says why not."""
    whole = facts("replay", "--data", data, "--to", tmp_path / "whole")
    part = facts("replay", "--data", data, "--to", tmp_path / "part", "--until", 3001)
    succeed("trim", "--from", tmp_path / "store", "--data", data)
    refused = run("replay", "--data", data, "--to", tmp_path / "to")
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))

    assert 1 == refused.exit_code
    assert "begins at offset 2999, so a replay has to start from a snapshot: say where they are" in refused.stderr
    (before, after) = (
        each["partitions"][0] for each in (whole, facts("replay", "--data", data, "--to", tmp_path / "to"))
    )
    for name in ("next_offset", "clock_ms", "digest"):
        assert before[name] == after[name]
    assert part["digest"] == facts("replay", "--data", data, "--to", tmp_path / "b", "--until", 3001)["digest"]
    assert "all is well" in succeed("check", "--data", tmp_path / "to")
    early = run("replay", "--data", data, "--to", tmp_path / "early", "--until", 2999)
    assert (1, True) == (early.exit_code, "it is after offset 2999" in early.stderr)


def test_a_replay_may_start_from_a_snapshot(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the log has all: it applies the rest alone, up to any end behind a snapshot; else it says why not."""
    whole = facts("replay", "--data", data, "--to", tmp_path / "whole", "--until", 3002)
    words = ("replay", "--data", data, "--from-snapshot", "--to")
    nowhere = run(*words, tmp_path / "nowhere")
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    early = run(*words, tmp_path / "early", "--until", 2999)
    rest = facts(*words, tmp_path / "rest", "--until", 3002, "--metrics-file", tmp_path / "told")

    assert "the replay of partition 0 is to start from a snapshot: say where they are" in nowhere.stderr
    assert (1, True) == (early.exit_code, "it is after offset 2999" in early.stderr)
    assert (3002, whole["digest"]) == (rest["partitions"][0]["next_offset"], rest["digest"])
    assert "slotlog_replay_done_events 2" in (tmp_path / "told").read_text()
    assert "all is well" in succeed("check", "--data", tmp_path / "rest")


def test_a_service_goes_on_at_a_log_that_was_cut(data: Path, tmp_path: Path) -> None:
    """The state that stands at the snapshot knows its log by the record that was kept, and applies the rest."""
    succeed("trim", "--from", tmp_path / "store", "--data", data)
    succeed("restore", "--from", tmp_path / "store", "--to", tmp_path / "restored")
    log = f"sqlite:///{data / 'log.sqlite3'}"
    (found,) = facts("check", "--data", tmp_path / "restored", "--log", log)["partitions"]

    assert (3000, 3, 0) == tuple(found[name] for name in ("next_offset", "behind", "violations"))


def test_without_a_verified_snapshot_nothing_goes(data: Path, tmp_path: Path) -> None:
    """No snapshot, or one that is not verified, is exit code 1, and the log stays."""
    for mark in (tmp_path / "store").rglob("*.verified"):
        mark.unlink()
    unverified = run("trim", "--from", tmp_path / "store", "--data", data)
    (tmp_path / "empty").mkdir()
    none = run("trim", "--from", tmp_path / "empty", "--data", data)

    assert (1, 1, 0) == (unverified.exit_code, none.exit_code, begin_of(data))
    assert "has no verified snapshot of it" in unverified.stderr
    assert "has no verified snapshot of it" in none.stderr
    assert ("", "") == (unverified.stdout, none.stdout)


def test_a_snapshot_of_another_log_cuts_nothing(data: Path, tmp_path: Path) -> None:
    """A log of the same name that was begun anew is not the one of the snapshot."""
    (tmp_path / "other").mkdir()
    other = state_of(tmp_path / "other", EVENTS)
    result = run("trim", "--from", tmp_path / "store", "--data", other)

    assert (1, 0) == (result.exit_code, begin_of(other))
    assert "is not of this log" in result.stderr


def test_a_state_that_is_behind_keeps_its_records(data: Path, tmp_path: Path) -> None:
    """The records that the state in --data has not applied stay, though a snapshot has them."""
    succeed("replay", "--data", data, "--to", tmp_path / "behind", "--until", 100)
    (data / "0").rename(tmp_path / "aside")
    (tmp_path / "behind" / "0").rename(data / "0")
    succeed("trim", "--from", tmp_path / "store", "--data", data)

    assert 100 == begin_of(data)


async def test_on_kafka(kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers delete the same records, and a replay starts from the snapshot."""
    monkeypatch.setenv("SLOTLOG_LOG", f"kafka://{kafka_bootstrap}")
    monkeypatch.setenv("SLOTLOG_TOPIC", f"trim-{uuid4().hex}")
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    (tmp_path / "data").mkdir()
    data = await asyncio.to_thread(state_of, tmp_path, EVENTS[:50])
    words = ("--data", data)
    await asyncio.to_thread(succeed, "snapshot", *words)
    await asyncio.to_thread(succeed, "produce", write_lines(tmp_path / "more", MORE), *words)
    whole = await asyncio.to_thread(facts, "replay", *words, "--to", tmp_path / "whole")
    (done,) = (await asyncio.to_thread(facts, "trim", *words))["partitions"]
    again = await asyncio.to_thread(facts, "replay", *words, "--to", tmp_path / "again")

    assert (0, 49) == (done["begin_offset"], done["trimmed_to"])
    assert whole["digest"] == again["digest"]


# ---------------------------------------------------------------------- by itself, with any history


def manifest(next_offset: int, fingerprint: bytes | None) -> Manifest:
    """That of a snapshot, of which the store has nothing else."""
    sha256 = "0" * 64
    file = SnapshotFile(name="CURRENT", size=1, sha256=sha256, object=f"files/{sha256}.00000000")
    numbers: dict[str, Any] = {
        "partition": 0,
        "partitions": 2,
        "format": 1,
        "rules": 1,
        "clock_ms": 0,
        "keys": 0,
        "taken_ms": 0,
    }
    return Manifest(
        slotlog="0",
        topic=TOPIC,
        layout="neokv",
        next_offset=next_offset,
        fingerprint=fingerprint,
        digest=sha256,
        files=(file,),
        **numbers,
    )


async def publish(store: SnapshotStore, log: EmbeddedLog, *, verified: bool) -> Listed | None:
    """A snapshot of a state that has applied all of the log; None of one that has applied nothing."""
    end = await log.end_offset(0)
    if not end:
        return None
    snapshot = store.publish(manifest(end, log.fingerprint(0, await last_record(log))))
    if verified:
        store.mark_verified(snapshot, 0)
    return snapshot


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 20)),
        st.tuples(st.just("snapshot"), st.booleans()),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.just("trim"), st.integers(0, 60)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_no_trim_goes_past_what_is_verified(steps: list[tuple[str, int]]) -> None:
    """Whatever is appended, taken, deleted and trimmed: each verified snapshot has the log from its last record on."""
    with TemporaryDirectory() as directory:
        asyncio.run(lived(Path(directory), steps))


async def lived(directory: Path, steps: list[tuple[str, int]]) -> None:
    """Do the steps, and look after each."""
    store = SnapshotStore(MemoryObjects())
    log = EmbeddedLog(directory / "log", topic=TOPIC, partitions=2)
    await log.start()
    begin, there = 0, list[Listed]()
    try:
        for what, number in steps:
            if what == "append":
                await append(log, *[b"x"] * number)
            elif what == "snapshot" and (snapshot := await publish(store, log, verified=bool(number))):
                there.append(snapshot)
            elif what == "delete" and there:
                store.delete(there.pop(number % len(there)))
            before, offered = begin, store.offered(TOPIC, 0)
            if what == "trim":
                await trimming.trim(log, store, 0, partial(applied, number))
            begin = await log.begin_offset(0)
            assert before <= begin <= max(before, number if what == "trim" and number else begin)
            assert before == begin or (what == "trim" and bool(offered))
            for each in offered:
                assert begin < each.next_offset  # so the record that it applied last is there, and is compared
                await log.check(0, each.next_offset, each.usable().fingerprint)
    finally:
        await log.close()


def applied(number: int, _partition: int) -> int | None:
    """How far a state is; with 0 there is none."""
    return number or None


async def test_a_snapshot_that_is_withdrawn_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is asked again before each deletion: without the snapshot no more is deleted, and that is said."""
    monkeypatch.setattr(trimming, "_RECORDS_MAX", 10)
    store = SnapshotStore(MemoryObjects())
    log = EmbeddedLog(tmp_path / "log", topic=TOPIC, partitions=2)
    await log.start()
    try:
        await append(log, *[b"x"] * 100)
        snapshot = await publish(store, log, verified=True)
        assert snapshot is not None
        trim = log.trim

        async def withdrawing(partition: int, before: int) -> int:
            if before == 30:
                store.withdraw(snapshot)
            return await trim(partition, before)

        monkeypatch.setattr(log, "trim", withdrawing)
        trimmed = await trimming.trim(log, store, 0, lambda _: None)
    finally:
        await log.close()

    assert (30, 30) == (trimmed.trimmed_to, trimmed.records)
    assert "was withdrawn meanwhile" in trimmed.trouble


KILLED = """
import os, signal, sys
from ops.cli import main
from slotlog.log.embedded import embedded_log
from slotlog.log.embedded.file import heads

left, heads._TRIM_ROWS = [int(sys.argv.pop(1))], 1000

def dying(work):
    def counted(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*arguments, **options)
    return counted

embedded_log.trim = dying(embedded_log.trim)
main()
"""


def test_killed_before_each_slice(data: Path, tmp_path: Path) -> None:
    """Killed between two slices the log is whole and begins earlier; the next trim does the rest."""
    words = ("trim", "--from", str(tmp_path / "store"), "--data", str(data))
    begins = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", KILLED, "1", *words], capture_output=True, check=False)
        assert -signal.SIGKILL == done.returncode
        begins.append(begin_of(data))
        assert "all is well" in succeed("check", "--log", "--data", data)

    assert [1000, 2000, 2999] == begins
    said, smaller = succeed(*words).splitlines()
    assert "partition 0: 0 records deleted, the log begins at offset 2999" == said
    assert re.fullmatch(r"the log's file is [0-9.]+ MiB smaller", smaller)


def test_a_file_is_written_anew(data: Path, tmp_path: Path) -> None:
    """One of an older slotlog keeps its size, until `--rewrite`, which is refused where it cannot be."""
    words = ("trim", "--from", tmp_path / "store", "--data", data)
    file = data / "log.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
    before = file.stat().st_size
    kept = facts(*words)["file_smaller_bytes"], file.stat().st_size == before
    refused = run(*words, "--rewrite", "--dry-run"), run(*words, "--rewrite", "--log", "kafka://127.0.0.1:9")
    claims = EmbeddedClaims(file)
    claims.exchange("a service", [0])
    beside = run(*words, "--rewrite")
    claims.close()
    given = facts(*words, "--rewrite")["file_smaller_bytes"]

    assert (0, True) == kept
    assert [1, 1, 1] == [each.exit_code for each in (*refused, beside)]
    assert "--dry-run does not" in refused[0].stderr
    assert "is of the embedded log" in refused[1].stderr
    assert "a service runs on this log" in beside.stderr
    assert (before - file.stat().st_size, True) == (given, given > before / 2)
    assert "4 records as written, all is well" in succeed("check", "--log", "--data", data)

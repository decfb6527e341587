"""`slotlog migrate` as an operator runs it: on a stopped service's state, beside a running one, killed and again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.layouts.neokv.layout import NeoKVOverPhase1
from engine.layouts.records import column_families, earlier_keys
from engine.store.rocks import RocksStore
from engine.tables.system import Home
from ops.state.opening.recorded import recorded_home
from ops.state.repair import migrate
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run, succeed, write_lines

STRINGS = 25
EVENTS: list[dict[str, Any]] = [
    *({"cmd": "SET", "args": [f"key:{n}", f"value {n}", *(["PX", 900_000] if n % 2 else [])]} for n in range(STRINGS)),
    *({"cmd": "HSET", "args": [f"hash:{n}", "f", "v"]} for n in range(5)),
]
KILLED = """
import os, signal, sys
from engine.store.rocks import RocksStore
from ops.state.repair import migrate
from ops.cli import main
write, left, migrate._STRINGS_MAX = RocksStore.write, [int(sys.argv.pop(1))], 4
def dying(store, changes):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    write(store, changes)
RocksStore.write = dying
main()
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A state of `neokv1`, with its log."""
    old = tmp_path / "old"
    succeed("produce", write_lines(tmp_path / "events", EVENTS), "--data", old)
    succeed("replay", "--data", old, "--to", tmp_path / "built", "--layout", "neokv1")
    (tmp_path / "built" / "0").rename(old / "0")
    return old


def left(data: Path, partition: int = 0) -> int:
    """How many strings are in an earlier record."""
    store = RocksStore(data / str(partition), column_families(NeoKVOverPhase1), read_only=True)
    try:
        return sum(1 for _ in earlier_keys(store, NeoKVOverPhase1(partition), b""))
    finally:
        store.close()


def home(data: Path) -> Home:
    """What the state says it is."""
    found = recorded_home(data)
    assert found is not None
    return found


def test_everything_is_moved_once(old: Path) -> None:
    """It says how many, the state is one of `neokv` with the same digest, and a second run finds nothing to do."""
    before = succeed("digest", "--data", old)
    counted = json.loads(succeed("migrate", "--data", old, "--dry-run", "--json"))
    assert (STRINGS, "neokv1") == (left(old), home(old).layout)
    first, second = (json.loads(succeed("migrate", "--data", old, "--json")) for _ in range(2))

    facts = {"partition": 0, "next_offset": len(EVENTS), "layout": "neokv"}
    expected = {"strings": STRINGS, "dry_run": False, "partitions": [{**facts, "strings": STRINGS}]}
    assert ({**expected, "dry_run": True}, expected, 0) == (counted, first, second["strings"])
    assert (0, "neokv") == (left(old), home(old).layout)
    assert before == succeed("digest", "--data", old)
    assert "all is well" in succeed("check", "--data", old)


def test_says_how_many(old: Path) -> None:
    """Without --json a line for each partition."""
    assert f"partition 0: {STRINGS} strings to be moved to neokv" in succeed("migrate", "--data", old, "--dry-run")
    assert f"partition 0: {STRINGS} strings moved to neokv" in succeed("migrate", "--data", old)


@pytest.mark.parametrize("batches", [0, 1, 3, 7, 8])
def test_a_killed_migration_is_run_again(batches: int, old: Path) -> None:
    """Killed by SIGKILL before any of its batches, the state is sound and whole, and the next run moves the rest."""
    before = succeed("digest", "--data", old)
    words = [sys.executable, "-c", KILLED, str(batches), "migrate", "--data", str(old)]
    assert -9 == subprocess.run(words, capture_output=True, check=False).returncode

    rest = STRINGS - min(4 * batches, STRINGS)
    assert rest == left(old)
    assert before == succeed("digest", "--data", old)
    assert "all is well" in succeed("check", "--data", old)
    assert rest == json.loads(succeed("migrate", "--data", old, "--json"))["strings"]
    assert (0, before) == (left(old), succeed("digest", "--data", old))


def test_refused_beside_a_service(old: Path) -> None:
    """What a running service has open is left alone; to count is allowed. What it writes is moved by that."""
    with ServiceProcess(["--data", str(old), "--http", "", "--resp", ""]) as service:
        service.wait_for("started")
        result = run("migrate", "--data", old)

        assert 1 == result.exit_code
        assert "open in another process: stop the service that applies it first" in result.output
        assert f"{STRINGS} strings to be moved" in succeed("migrate", "--data", old, "--dry-run")
        assert 0 == service.terminate()
    assert STRINGS == left(old)


def test_partitions_may_have_gone_different_ways(tmp_path: Path) -> None:
    """Where one of two has been migrated, all verbs read both, and the second run moves the other one."""
    data = tmp_path / "data"
    options = ("--partitions", 2, "--data", data)
    succeed("produce", write_lines(tmp_path / "events", EVENTS), *options)
    succeed("replay", *options, "--to", tmp_path / "built", "--layout", "neokv1")
    for partition in ("0", "1"):
        (tmp_path / "built" / partition).rename(data / partition)
    before = succeed("digest", "--data", data)
    second = json.loads(succeed("migrate", "--data", data, "--own", 1, "--json"))["strings"]

    assert 0 < second == STRINGS - left(data, 0)
    assert before == succeed("digest", "--data", data)
    assert STRINGS - second == json.loads(succeed("migrate", "--data", data, "--json"))["strings"]
    assert before == succeed("digest", "--data", data)


def test_a_layout_without_an_earlier_form(tmp_path: Path) -> None:
    """There is nothing to move, and how to change the layout is said; nothing is touched where no state is."""
    data = tmp_path / "data"
    succeed("produce", write_lines(tmp_path / "events", EVENTS), "--data", data)
    assert "has no state of partition 0" in run("migrate", "--data", data).output
    succeed("replay", "--data", data, "--to", tmp_path / "new", "--layout", "kvrocks")
    result = run("migrate", "--data", tmp_path / "new")

    assert 1 == result.exit_code
    assert "a state of the layout kvrocks has no earlier form, so there is nothing to move" in result.output


def test_progress_is_shown(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each batch it is told how many strings are moved, of how many at most."""
    told: list[int] = []

    class Shown:
        """Notes what it is told."""

        def __init__(self, *words: object) -> None:
            assert ("migrate", STRINGS, "strings") == words

        def __enter__(self) -> Any:
            return told.append

        def __exit__(self, *error: object) -> None:
            """Nothing to put away."""

    monkeypatch.setattr(migrate, "progress", Shown)
    monkeypatch.setattr(migrate, "_STRINGS_MAX", 10)
    succeed("migrate", "--data", old)

    assert [10, 20, STRINGS] == told

"""`slotlog replay --swap`: the rebuilt state takes the place of the live one, whenever it is killed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.store.store import Changes
from ops.config import load_settings
from ops.state.opening.directories import store_opener
from ops.state.rebuilding.swap import finish_swap, out_of_use, swap
from slotlog.shared.slots import partition_of, slot
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run, succeed, wait_for_offset, write_lines

EVENTS: list[dict[str, Any]] = [
    *({"cmd": "SET", "args": [f"key-{n}", n]} for n in range(40)),
    {"cmd": "HSET", "args": ["h", "f", "v"]},
]
PARTITIONS = 2
LATER = partition_of(slot(b"later"), PARTITIONS)
STEPS = ((Path, ("rename", "mkdir", "rmdir", "unlink")), (os, ("fsync",)), (shutil, ("rmtree",)))
"""All that a swap does to a disk."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state of two partitions beside its log, made by a service that was stopped. Its last event is not applied."""
    data = tmp_path / "data"
    options = ("--data", data, "--partitions", PARTITIONS)
    succeed("produce", write_lines(tmp_path / "events", EVENTS), *options)
    succeed("replay", *options, "--to", tmp_path / "built")
    for partition in map(str, range(PARTITIONS)):
        (tmp_path / "built" / partition).rename(data / partition)
    succeed("produce", write_lines(tmp_path / "more", [{"cmd": "INCR", "args": ["later"]}]), *options)
    return data


def digest(data: Path) -> Any:
    """The digest of a state, and where it stands."""
    said = json.loads(succeed("digest", "--data", data, "--json"))
    return said["digest"], [each["next_offset"] for each in said["partitions"]]


def names(data: Path) -> list[str]:
    """What is in a data directory beside the log."""
    return sorted(path.name for path in data.iterdir() if not path.name.startswith("log.sqlite3"))


def identities(data: Path) -> list[bytes]:
    """Which databases the partitions are."""
    return [(data / str(partition) / "IDENTITY").read_bytes() for partition in range(PARTITIONS)]


def test_the_rebuilt_state_is_in_place(data: Path) -> None:
    """Another database with the same content at the same position; a service goes on from there."""
    before, old = digest(data), identities(data)
    said = json.loads(succeed("replay", "--swap", "--data", data, "--json"))

    assert (True, before[0]) == (said["swapped"], said["digest"])
    assert (before, ["0", "1"]) == (digest(data), names(data))
    assert not set(old) & set(identities(data))
    with ServiceProcess(["--data", str(data), "--partitions", str(PARTITIONS), "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        for partition, offset in enumerate(before[1]):
            wait_for_offset(service, offset + (partition == LATER), partition)
        assert 0 == service.terminate()


def test_the_old_state_is_kept_on_demand(data: Path) -> None:
    """With --keep-old it is in `replaced`, and as long as it is there, nothing is swapped again."""
    old = identities(data)
    said = succeed("replay", "--swap", "--keep-old", "--data", data)
    again = run("replay", "--swap", "--data", data)

    assert f"{data} has the rebuilt state, and the old state is in {data / 'replaced'}" in said
    assert (["0", "1", "replaced"], old) == (names(data), identities(data / "replaced"))
    assert 1 == again.exit_code
    assert "has what an earlier --swap has replaced: move it away, or remove it" in again.stderr


def test_a_damaged_state_is_replaced(data: Path) -> None:
    """What cannot be read cannot be compared: what the log says takes its place."""
    before = digest(data)
    (manifest,) = (data / "1").glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20])
    said = succeed("replay", "--swap", "--data", data)

    assert "live      not compared" in said
    after = digest(data)
    assert (before[1][0], before[1][1]) <= tuple(after[1])
    assert "all is well" in succeed("check", "--data", data)


def test_a_different_state_is_an_operators_decision(data: Path) -> None:
    """Where the digests differ nothing is swapped, with exit code 1; --even-if-different does it."""
    settings = load_settings(data=data, partitions=PARTITIONS)
    store = store_opener(settings, data)(0)
    key, value = next(iter(store.scan("metadata", b"", None)))
    changes = Changes()
    changes.of("metadata")[key] = value[:-1] + b"?"
    store.write(changes)
    store.close()
    wrong = digest(data)
    refused = run("replay", "--swap", "--data", data)

    assert (1, wrong, ["0", "1", "rebuilt"]) == (refused.exit_code, digest(data), names(data))
    assert "DIFFERENT" in refused.stdout
    assert "nothing was put in place" in refused.stderr
    shutil.rmtree(data / "rebuilt")
    done = run("replay", "--swap", "--even-if-different", "--data", data)
    assert (1, ["0", "1"], True) == (done.exit_code, names(data), wrong != digest(data))


def test_a_state_that_nobody_opened_yet_is_held(data: Path) -> None:
    """One that was restored from a snapshot has no lock of RocksDB's until then: it is made, and held."""
    asks = (
        "import sys; from pathlib import Path; from ops.snapshots.requests import is_in_use;"
        "print(is_in_use(Path(sys.argv[1])))"
    )
    (data / "0" / "LOCK").unlink()
    with out_of_use(data, [0, 1]):
        held = [subprocess.check_output([sys.executable, "-c", asks, data / each], text=True) for each in ("0", "1")]

    assert ["True\n"] * 2 == held


def test_a_file_in_the_place_of_a_state(data: Path) -> None:
    """A file where the directory of a partition should be is named, with what to do; it stays."""
    shutil.rmtree(data / "0")
    (data / "0").write_text("a file")
    result = run("replay", "--data", data, "--swap")

    said = f"slotlog: {data / '0'} is a file, not the directory of a partition: move it away, and run this again\n"
    assert (1, said) == (result.exit_code, result.stderr[-len(said) :])
    assert "a file" == (data / "0").read_text()


def test_a_service_is_not_robbed_of_its_state(data: Path) -> None:
    """Beside a running service nothing begins; and while a swap is under way no service starts."""
    options = ["--data", str(data), "--partitions", str(PARTITIONS), "--http", "", "--resp", ""]
    with ServiceProcess(options) as service:
        service.wait_for("started")
        result = run("replay", "--swap", "--data", data)
        skipped = run("skip", 0, 0, "--data", data)
        assert (1, ["0", "1", "clock.json"]) == (result.exit_code, names(data))
        assert "is open in another process: stop the service first" in result.stderr
        assert (1, True) == (skipped.exit_code, "/readyz names the offset that it stopped at" in skipped.stderr)
        assert "slotlog query" not in skipped.stderr
        assert 0 == service.terminate()
    (data / "SWAPPING").write_text(json.dumps({"partitions": [0, 1], "keep": False}))
    with (data / "SWAPPING").open("rb") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        refused = run("serve", *options)

    assert 1 == refused.exit_code
    assert "another process puts a rebuilt state in place" in refused.stderr


@pytest.mark.parametrize("keep", [False, True])
def test_killed_before_each_step(keep: bool, data: Path, tmp_path: Path) -> None:
    """Whichever rename, sync or removal is the last: nothing reads a half, and the next start has one whole state."""
    options = ("--data", data, "--log", f"sqlite:///{data / 'log.sqlite3'}")
    succeed("replay", *options, "--to", data / "rebuilt", "--until", 0)
    before, empty = digest(data), digest(data / "rebuilt")
    seen = set()
    for step in range(100):
        copy = tmp_path / f"step-{step}"
        shutil.copytree(data, copy)
        if swapped_but_for(step, copy, keep=keep):
            break
        between = (copy / "SWAPPING").exists()
        seen.add(between)
        if between:
            refused = run("digest", "--data", copy, "--partitions", PARTITIONS)
            assert (1, True) == (refused.exit_code, "is between two states" in refused.stderr)
            finish_swap(copy)
        assert digest(copy) == (before if (copy / "rebuilt").exists() else empty)
        assert {"0", "1"} <= set(names(copy)) <= {"0", "1", "rebuilt", "replaced", "SWAPPING.new"}
        assert not (copy / "replaced").exists() or keep
        shutil.rmtree(copy)

    assert (True, {True, False}) == (15 < step < 99, seen)


def swapped_but_for(step: int, data: Path, *, keep: bool) -> bool:
    """Swap in another process, which is killed before one of its steps; whether it came to its end."""
    child = os.fork()
    if not child:
        left = [step]
        for place, its_names in STEPS:
            for name in its_names:
                setattr(place, name, counted(left, getattr(place, name)))
        swap(data, range(PARTITIONS), keep=keep)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, -signal.SIGKILL}
    return code == 0


def counted(left: list[int], work: Callable[..., Any]) -> Callable[..., Any]:
    """As `work`, but the process dies where none is left."""

    def counting(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*arguments, **options)

    return counting


@pytest.mark.parametrize(
    "words",
    [
        ["--swap", "--to", "x"],
        [],
        ["--swap", "--until", "3"],
        ["--swap", "--layout", "kvrocks"],
        ["--to", "x", "--keep-old"],
    ],
)
def test_wrong_usage(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not go together is exit code 2, and nothing is made."""
    monkeypatch.chdir(tmp_path)

    assert (2, []) == (run("replay", *words).exit_code, names(tmp_path))

"""`slotlog backup`: a copy of the embedded log that is whole or not there, whenever it is killed."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.state.repair import backup
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run, succeed, wait_for_offset, write_lines

EVENTS: list[dict[str, Any]] = [{"cmd": "SET", "args": [f"key-{n}", f"{n}" * 20_000]} for n in range(30)]
KILLED = """
import os, signal, sys
from ops.cli import main
from ops.state.repair import backup

step, real = sys.argv.pop(1), {name: getattr(backup, name) for name in ("copy_log", "_write_out", "_verified", "sync")}

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def behind(name):
    def dying(*arguments):
        real[name](*arguments)
        die()
    return dying

setattr(backup, *{
    "begun": ("copy_log", die),
    "copying": ("copy_log", lambda connection, to, advance: real["copy_log"](connection, to, die)),
    "copied": ("copy_log", behind("copy_log")),
    "on disk": ("_write_out", behind("_write_out")),
    "verified": ("_verified", behind("_verified")),
    "named": ("sync", die),
    "done": ("sync", behind("sync")),
}[step])
main()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a log of several MiB."""
    data = tmp_path / "data"
    succeed("produce", write_lines(tmp_path / "events", EVENTS), "--data", data)
    return data


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An empty directory for backups."""
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(path.name for path in directory.iterdir())


def digest_of(log: Path, directory: Path) -> str:
    """The digest of the state that a log gives."""
    replayed = succeed("replay", "--log", f"sqlite:///{log}", "--data", directory / "no", "--to", directory, "--json")
    return str(json.loads(replayed)["digest"])


def test_the_copy_is_the_log(data: Path, kept: Path, tmp_path: Path) -> None:
    """One file for its owner alone, with every record; the log that it is put in the place of gives the same state."""
    result = json.loads(succeed("backup", "--to", kept / "log", "--data", data, "--json"))
    again = succeed("backup", "--to", kept / "again", "--data", data)

    copied = {"partition": 0, "next_offset": len(EVENTS), "records": len(EVENTS)}
    size = (kept / "log").stat().st_size
    assert {"file": str(kept / "log"), "topic": "slotlog", "bytes": size, "partitions": [copied]} == result
    assert ["partition 0: next offset 30, 30 records", f"{kept / 'again'}: "] == [
        again.splitlines()[0],
        again.splitlines()[1].partition(": ")[0] + ": ",
    ]
    assert (["again", "log"], 0o600) == (names(kept), (kept / "log").stat().st_mode & 0o777)
    (tmp_path / "restored").mkdir()
    shutil.copy(kept / "log", tmp_path / "restored" / "log.sqlite3")
    restored = tmp_path / "restored" / "log.sqlite3"
    assert digest_of(data / "log.sqlite3", tmp_path / "a") == digest_of(restored, tmp_path / "b")
    assert "all is well" in succeed("check", "--log", "--data", tmp_path / "restored")


def test_beside_a_service_that_appends(data: Path, kept: Path, tmp_path: Path) -> None:
    """A running service goes on, and what it has appended by then is in the copy."""
    with ServiceProcess(["--data", str(data), "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        succeed("produce", tmp_path / "events", "--data", data)
        result = json.loads(succeed("backup", "--to", kept / "log", "--data", data, "--json"))
        succeed("produce", tmp_path / "events", "--data", data)
        wait_for_offset(service, 3 * len(EVENTS))
        assert 0 == service.terminate()

    assert 2 * len(EVENTS) == result["partitions"][0]["next_offset"]
    assert "all is well" in succeed("check", "--log", f"sqlite:///{kept / 'log'}", "--data", kept, "--log-itself")


@pytest.mark.parametrize("step", ["begun", "copying", "copied", "on disk", "verified", "named", "done"])
def test_killed_at_each_step(step: str, data: Path, kept: Path) -> None:
    """Whenever it is killed, the file is whole or not there, and the next backup removes what is left."""
    words = ["backup", "--to", str(kept / "log"), "--data", str(data)]
    done = subprocess.run([sys.executable, "-c", KILLED, step, *words], capture_output=True, check=False)
    there = {"named": ["log"], "done": ["log"]}.get(step, ["log.unfinished"])
    assert (-9, there) == (done.returncode, names(kept))
    if there == ["log"]:
        (kept / "log").rename(kept / "killed")
    succeed(*words)

    assert ["log"] == [name for name in names(kept) if name != "killed"]
    assert 1 == len({path.read_bytes() for path in kept.iterdir()})


def spoil(path: Path) -> None:
    """Flip a bit in the value of a record."""
    content = bytearray(path.read_bytes())
    content[content.index(b"7" * 1000)] ^= 1
    path.write_bytes(content)


def test_a_damaged_log_gives_no_backup(data: Path, kept: Path) -> None:
    """The damage is named, with exit code 1 and no file."""
    spoil(data / "log.sqlite3")
    result = run("backup", "--to", kept / "log", "--data", data)

    assert (1, []) == (result.exit_code, names(kept))
    assert "the copy is damaged (partition 0: record at offset 7: it is not what was written)" in result.stderr


def test_a_damaged_copy_is_no_backup(data: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the copy that is verified: where its disk loses something, there is no file, though the log is sound."""
    monkeypatch.setattr(backup, "_write_out", spoil)
    result = run("backup", "--to", kept / "log", "--data", data)

    assert (1, []) == (result.exit_code, names(kept))
    assert "if it is not, the disk of the copy is bad" in result.stderr
    assert "all is well" in succeed("check", "--log", "--data", data)


def test_an_older_copy_of_the_log_gives_no_backup(data: Path, kept: Path, tmp_path: Path) -> None:
    """A log that ends before its mark is refused, as at every other opening."""
    shutil.copy(data / "log.sqlite3", tmp_path / "older")
    succeed("produce", tmp_path / "events", "--data", data)
    shutil.copy(tmp_path / "older", data / "log.sqlite3")
    result = run("backup", "--to", kept / "log", "--data", data)

    assert (1, []) == (result.exit_code, names(kept))
    assert "ends at offset 30, but 30 records after it were durable" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "kept"], "kept is there already: name another file"),
        (["--to", "no/log"], "no is no directory: make it"),
        (["--to", "kept/log", "--log", "kafka://127.0.0.1:1"], "is backed up by Kafka"),
        (["--to", "kept/log", "--data", "kept"], "there is no log at kept/log.sqlite3"),
    ],
)
def test_bad_input_is_told(words: list[str], said: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to do, and nothing is left."""
    monkeypatch.chdir(kept.parent)
    result = run("backup", *words)

    assert (1, 1, []) == (result.exit_code, result.stderr.count("\n"), names(kept))
    assert said in result.stderr


def test_without_room_nothing_begins(data: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has less left than the log is large is said before anything is written."""
    usage = shutil.disk_usage(kept)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    result = run("backup", "--to", kept / "log", "--data", data)

    assert (1, []) == (result.exit_code, names(kept))
    assert "has 1000 bytes left, and the log" in result.stderr


def test_one_at_a_time(data: Path, kept: Path) -> None:
    """Of two backups into one file the second is refused, and leaves the first one's alone."""
    with (kept / "log.unfinished").open("wb") as file:
        file.write(b"the first")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        result = run("backup", "--to", kept / "log", "--data", data)
    left = (kept / "log.unfinished").read_bytes()

    assert (1, b"the first") == (result.exit_code, left)
    assert "another backup writes" in result.stderr
    succeed("backup", "--to", kept / "log", "--data", data)

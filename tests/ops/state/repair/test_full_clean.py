"""`slotlog clean` as an operator runs it: on a stopped service's state, beside a running one, twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.service import ServiceProcess
from tests.ops.verbs import run, succeed, write_lines

ELEMENTS = 3000
VALUE = "x" * 300


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state in which keys are due by the log's time, hashes have due fields, and collections are dead."""
    events: list[dict[str, Any]] = [
        *({"cmd": "SET", "args": [f"dying:{n}", VALUE, "PX", 1]} for n in range(100)),
        *({"cmd": "HSET", "args": ["large", f"f{n}", VALUE]} for n in range(ELEMENTS)),
        *({"cmd": "SADD", "args": [f"small:{n % 10}", n]} for n in range(100)),
        {"cmd": "HSET", "args": ["alive", "f", "1"]},
        {"cmd": "HSETEX", "args": ["alive", "PX", 1, "FIELDS", 2, "g", "1", "h", "1"]},
        {"cmd": "DEL", "args": ["large", *(f"small:{n}" for n in range(10))]},
    ]
    options = ["--data", tmp_path / "made"]
    succeed("produce", write_lines(tmp_path / "events", events), *options)
    succeed("produce", write_lines(tmp_path / "last", [{"cmd": "SET", "args": ["last", "1"]}]), *options)
    succeed("replay", *options, "--to", tmp_path / "data")
    return tmp_path / "data"


def test_everything_goes_once(data: Path) -> None:
    """What is due and what is dead is removed and counted, files shrink, the digest stays, and nothing is left."""
    before = succeed("digest", "--data", data)
    (first,) = json.loads(succeed("clean", "--now", "--data", data, "--json"))["partitions"]
    (second,) = json.loads(succeed("clean", "--now", "--data", data, "--json"))["partitions"]

    assert (100, 2, 11, ELEMENTS + 100) == (first["keys"], first["fields"], first["collections"], first["elements"])
    assert first["freed_bytes"] > ELEMENTS
    assert [0, 0, 0, 0] == [second[name] for name in ("keys", "fields", "collections", "elements")]
    assert before == succeed("digest", "--data", data)
    succeed("check", "--data", data)


def test_says_what_went(data: Path) -> None:
    """Without --json a line for each partition."""
    line = succeed("clean", "--now", "--data", data)

    assert f"partition 0: 100 keys, 2 fields, {ELEMENTS + 100} elements of 11 dead collections removed; " in line


def test_progress_has_no_total_below_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of collections that are due count as done when they go, and no total says that there are fewer."""
    events: list[dict[str, Any]] = [
        *({"cmd": "SADD", "args": [f"s:{n}", *range(50)]} for n in range(20)),
        *({"cmd": "PEXPIRE", "args": [f"s:{n}", 1]} for n in range(20)),
    ]
    succeed("produce", write_lines(tmp_path / "events", events), "--data", tmp_path)
    succeed("produce", write_lines(tmp_path / "last", [{"cmd": "SET", "args": ["last", "1"]}]), "--data", tmp_path)
    succeed("replay", "--data", tmp_path, "--to", tmp_path / "state")
    monkeypatch.setattr("ops.progress._LINE_SECONDS", 0)
    result = run("clean", "--now", "--data", tmp_path / "state")
    lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    shown = [(line["done"], line["total"]) for line in lines if line["event"] == "clean"]

    assert (20 + 20 * 50, None) == shown[-1]


def test_does_nothing_unless_told(data: Path) -> None:
    """Without --now it is a mistake in usage, which says that a running service cleans by itself."""
    result = run("clean", "--data", data)

    assert 2 == result.exit_code
    assert "cleans by itself" in result.output
    assert 100 == json.loads(succeed("clean", "--now", "--data", data, "--json"))["partitions"][0]["keys"]


def test_refused_beside_a_service(tmp_path: Path) -> None:
    """A running service's state is its own; the refusal says that it cleans by itself, and changes nothing."""
    with ServiceProcess(["--data", str(tmp_path), "--http", "", "--resp", ""]) as service:
        service.wait_for("started")
        result = run("clean", "--now", "--data", tmp_path)

        assert 1 == result.exit_code
        assert "a running service cleans by itself; stop it first" in result.output
        assert 0 == service.terminate()


def test_no_state(tmp_path: Path) -> None:
    """Where no state is, it says so."""
    result = run("clean", "--now", "--data", tmp_path)

    assert 1 == result.exit_code
    assert "has no state of partition 0" in result.output

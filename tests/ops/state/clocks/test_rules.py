"""`slotlog rules`: partitions are moved on to newer rules by an event, and what was before keeps its outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.tables.system import RULES
from tests.faults.service import ServiceProcess
from tests.ops.past.proof.states import with_state
from tests.ops.verbs import run, succeed, wait_for_offset, write_lines

HEXADECIMAL = {"cmd": "ZADD", "args": ["z", "0x10", "m"]}


def test_a_running_service_is_moved_on(tmp_path: Path) -> None:
    """A score in hexadecimal is refused before the event and taken behind it, without a restart; a replay agrees."""
    data, lines = tmp_path / "data", write_lines(tmp_path / "lines", [HEXADECIMAL])
    with ServiceProcess(["--data", str(data), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        succeed("produce", lines, "--data", data)
        wait_for_offset(service, 1)
        assert f"partition 0: rules 1, before offset 1\nthis slotlog knows rules 1 to {RULES}\n" == succeed(
            "rules", "show", "--data", data
        )
        assert "partition 0: rules 2 from offset 1 on\n" == succeed("rules", "set", 2, "--data", data)
        succeed("produce", lines, "--data", data)
        wait_for_offset(service, 3)

        assert {
            "known": RULES,
            "partitions": [{"partition": 0, "rules": 2, "next_offset": 3}],
            "missing": [],
        } == json.loads(succeed("rules", "show", "--data", data, "--json"))
    assert '"16"\n' == succeed("query", "--data", data, "ZSCORE", "z", "m")
    assert ["rejected", "applied", "applied"] == [
        json.loads(line)["outcome"] for line in succeed("tail", "--from", 0, "--count", 3, "--data", data).splitlines()
    ]
    assert "equal" in succeed("verify", "--data", data)


def test_every_partition_gets_the_event(tmp_path: Path) -> None:
    """One in each, so that a topic follows one set of rules."""
    data = tmp_path / "data"
    succeed("produce", write_lines(tmp_path / "lines", [HEXADECIMAL]), "--data", data, "--partitions", 3)
    found = json.loads(succeed("rules", "set", 2, "--data", data, "--partitions", 3, "--json"))

    assert [0, 1, 2] == [each["partition"] for each in found["partitions"]]
    replayed = json.loads(succeed("replay", "--data", data, "--partitions", 3, "--to", tmp_path / "built", "--json"))
    assert [each["offset"] + 1 for each in found["partitions"]] == [
        each["next_offset"] for each in replayed["partitions"]
    ]
    assert [2, 2, 2] == [
        each["rules"]
        for each in json.loads(succeed("rules", "show", "--data", tmp_path / "built", "--json"))["partitions"]
    ]


@pytest.mark.parametrize("number", [0, RULES + 1])
def test_unknown_rules_are_refused(tmp_path: Path, number: int) -> None:
    """Nothing is appended: it would stop every worker."""
    data = with_state(tmp_path / "data", [(0, "SET", ["k", "v"])])
    result = run("rules", "set", number, "--data", data)

    assert (1, True) == (result.exit_code, f"which knows 1 to {RULES}" in result.stderr)
    assert "0 of 1" not in succeed("digest", "--data", data)
    assert succeed("chain", "--data", data).startswith("0:1:")


def test_a_state_that_was_moved_on_is_refused_by_an_older_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which rules the state follows; a state that still follows the first ones is opened."""
    data = with_state(tmp_path / "data", [(0, "RULES", [2])])
    first = with_state(tmp_path / "first", [(0, "RULES", [1])])
    monkeypatch.setattr("engine.tables.system.RULES", 1)

    assert "follows rules 2, this slotlog knows 1; use a newer release" in run("digest", "--data", data).stderr
    assert 0 == run("digest", "--data", first).exit_code

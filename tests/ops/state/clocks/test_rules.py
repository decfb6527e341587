"""`slotlog rules`: partitions are moved on to newer rules by an event, and what was before keeps its outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.tables.system import RULES
from ops.config import Settings, load_settings
from slotlog.clock import now_ms
from slotlog.events import encode
from slotlog.log import Entry, open_log
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


def test_newer_rules_are_not_taken_back(tmp_path: Path) -> None:
    """Older rules than a state follows are refused, and nothing is appended, to no partition."""
    data = with_state(tmp_path / "data", [(0, "RULES", [3])])
    result = run("rules", "set", 2, "--data", data)

    assert (1, "") == (result.exit_code, result.stdout)
    assert "partition 0 follows rules 3 already: there is no way back to rules 2. Nothing was appended" in result.stderr
    assert succeed("chain", "--data", data).startswith("0:1:")


def test_rules_that_are_followed_are_asked_for_once(tmp_path: Path) -> None:
    """The log behind the state tells, too, since which offset; a state alone tells that it is so."""
    data = with_state(tmp_path / "data", [(0, "SET", ["k", "v"])])
    succeed("rules", "set", 2, "--data", data)
    moved = with_state(tmp_path / "moved", [(0, "RULES", [2])])

    assert "partition 0: rules 2 already, from offset 1 on\n" == succeed("rules", "set", 2, "--data", data)
    assert "partition 0: rules 2 already\n" == succeed("rules", "set", 2, "--data", moved)
    assert {"partition": 0, "rules": 2, "offset": 1, "event_offset": None} == _set(data, 2)["partitions"][0]
    assert succeed("chain", "--data", data).startswith("0:2:")
    assert 1 == run("rules", "set", 1, "--data", data).exit_code


def test_only_partitions_that_need_it_get_the_event(tmp_path: Path) -> None:
    """Without a state a log that has all of its records tells what each partition follows."""
    data = tmp_path / "data"
    succeed("produce", write_lines(tmp_path / "lines", [HEXADECIMAL]), "--data", data, "--partitions", 2)
    settings = load_settings(data=data, partitions=2)
    asyncio.run(_append(settings, [Entry(1, None, encode("RULES", [2]), None)]))

    assert [(1, 1), (None, 0)] == [
        (each["event_offset"], each["offset"]) for each in _set(data, 2, "--partitions", 2)["partitions"]
    ]


def test_an_event_that_an_operator_skips_moves_nothing(tmp_path: Path) -> None:
    """It is not applied, so the partition still has to be asked."""
    data = with_state(tmp_path / "data", [(0, "SET", ["k", "v"])])
    succeed("rules", "set", 2, "--data", data)
    succeed("skip", 0, 1, "--data", data)

    assert "partition 0: rules 2 from offset 2 on\n" == succeed("rules", "set", 2, "--data", data)


def test_what_a_cut_log_had_is_not_known(tmp_path: Path) -> None:
    """Where neither a state nor the log tells, the event is appended, and a note says what is not known."""
    data, store = with_state(tmp_path / "data", [(at, "SET", ["k", "v"]) for at in range(5)]), tmp_path / "store"
    succeed("snapshot", "--data", data, "--to", store)
    succeed("trim", "--data", data, "--from", store)
    result = run("rules", "set", 2, "--data", tmp_path / "none", "--log", load_settings(data=data).log_url)

    assert (0, "partition 0: the event at offset 5 asks for rules 2\n") == (result.exit_code, result.stdout)
    assert "whether partition 0 followed these or newer rules before is not known here" in result.stderr


@pytest.mark.parametrize(
    ("theirs", "exit_code", "said"),
    [
        (1, 0, "rules 2 from offset 2 on"),
        (2, 0, "rules 2 already, from offset 1 on; the event at offset 2 changes nothing"),
        (3, 1, "rules 3, from offset 1 on; the event at offset 2 is rejected"),
    ],
)
def test_another_operator_in_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: int, exit_code: int, said: str
) -> None:
    """What came of an event is told by the log before it, and it is a failure where newer rules hold."""
    data = with_state(tmp_path / "data", [(0, "SET", ["k", "v"])])

    def between() -> int:
        with ThreadPoolExecutor(1) as threads:
            entries = [Entry(0, None, encode("RULES", [theirs]), None)]
            threads.submit(asyncio.run, _append(load_settings(data=data), entries)).result()
        return now_ms()

    monkeypatch.setattr("ops.state.clocks.rules.now_ms", between)
    result = run("rules", "set", 2, "--data", data)

    assert (exit_code, f"partition 0: {said}\n") == (result.exit_code, result.stdout)


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


def _set(data: Path, number: int, *options: object) -> Any:
    return json.loads(succeed("rules", "set", number, "--data", data, "--json", *options))


async def _append(settings: Settings, entries: Sequence[Entry]) -> None:
    log = open_log(settings.log_url, topic=settings.topic, partitions=settings.partitions)
    await log.start()
    await log.append(entries)
    await log.close()

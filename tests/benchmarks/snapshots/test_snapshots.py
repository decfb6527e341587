"""The benchmarks of replays, snapshots and restores run, print what they should, and refuse a wrong state."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.applying.compare import WrongStateError
from benchmarks.applying.model import Model
from benchmarks.snapshots.replaying import REPLAY_SMOKE, Look, Pass, run_replay
from benchmarks.snapshots.restoring import RESTORE_SMOKE, run_restore
from benchmarks.snapshots.taking import SNAPSHOT_SMOKE, run_snapshot
from engine.proof.digest import Digest


@pytest.mark.parametrize("source", ["embedded", "kafka"])
async def test_replays_stand_beside_the_floor(
    source: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line with the rates of one process, of the floor and of two processes; all came to the model's digest."""
    if source == "kafka":
        monkeypatch.setenv("SLOTLOG_TEST_KAFKA", request.getfixturevalue("kafka_bootstrap"))
    (line,) = [json.loads(result.line()) async for result in run_replay(REPLAY_SMOKE, [source])]

    assert (f"replay_hset_{source}", REPLAY_SMOKE.events) == (line["name"], line["events"])
    rates = ("per_second", "floor_per_second", "two_per_second", "whole_per_second", "two_whole_per_second")
    assert [name for name in rates if not line[name] > 0] == []
    assert line["two_ratio"] > 0


async def test_a_wrong_replay_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state with another digest than the model's ends the benchmark."""
    monkeypatch.setattr(Model, "digest", lambda _: Digest())

    with pytest.raises(WrongStateError, match="ended with"):
        await anext(run_replay(REPLAY_SMOKE, ["embedded"]))


def test_a_rate_is_that_of_what_all_processes_do() -> None:
    """It begins with the last look at which at most a tenth was applied, and ends when all is."""
    ours = Pass()
    ours.looks = [Look(0.0, 0.0, 0), Look(2.0, 0.5, 10), Look(5.0, 2.0, 60), Look(7.0, 3.0, 110), Look(9.0, 4.0, 110)]

    assert (5.5, 2.75) == ours.applying(110)


async def test_a_snapshot_has_its_pause_and_its_bytes() -> None:
    """Of a state of which little has changed less is uploaded than at first."""
    (line,) = [json.loads(result.line()) async for result in run_snapshot(SNAPSHOT_SMOKE)]

    assert ("snapshot", SNAPSHOT_SMOKE.keys) == (line["name"], line["keys"])
    assert 0 < line["new_bytes"] < line["first_new_bytes"]
    assert [name for name in ("pause_ms", "longest_ms", "usual_longest_ms", "seconds") if not line[name] > 0] == []


async def test_restores_stand_beside_replays() -> None:
    """A line for each number of keys, with its growth; both states had one digest."""
    lines: list[dict[str, Any]] = [
        json.loads(each.line()) async for each in run_restore(replace(RESTORE_SMOKE, runs=2))
    ]

    assert [f"restore_{keys}_keys" for keys in RESTORE_SMOKE.keys] == [line["name"] for line in lines]
    assert 1.0 == lines[0]["growth"]
    for line in lines:
        assert 2 == len(line["runs_s"])
        assert [name for name in ("bytes", "restore_s", "replay_s", "snapshot_s", "ratio") if not line[name] > 0] == []

"""The stages of events are measured one by one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.applying.stages import STAGED, STAGES, Laps, StagesResult, count_instructions, run_stages
from benchmarks.applying.workloads import SMOKE
from engine import native
from tests.engine.native.twins import running


def test_every_workload_has_a_line_with_every_stage() -> None:
    """A run at the smallest size gives the CPU time of each stage of each workload on both builds, and their sum."""
    with running(natively=True):
        lines = [json.loads(result.line()) for result in run_stages(SMOKE, counts=False)]
        assert native.chosen() is not None

    names = [name for each in STAGED for name in (f"stages_{each}_python", f"stages_{each}")]
    assert names == [line["name"] for line in lines]
    assert [False, True] * len(STAGED) == [line["compiled"] for line in lines]
    for line in lines:
        assert [*(f"{stage}_us" for stage in STAGES), "sum_us"] == [fact for fact in line if fact.endswith("_us")]
        assert SMOKE.events == line["events"]


def test_the_end_of_a_batch_is_part_of_its_commit() -> None:
    """What is done behind the write counts as commit. The 10th percentile of batches counts, of the writes the mean."""
    laps = Laps()
    laps.spent = {  # of ten batches, and what is written behind them
        "take": [*[1] * 10, 0],
        "decode": [*[5] * 10, 0],
        "apply": [*range(10), 0],
        "commit": [*[3] * 10, 0],
        "write": [*[2] * 10, 30],
        "end": [*[4] * 10, 0],
    }

    assert {"take": 1, "decode": 5, "apply": 1, "commit": 7, "write": 5} == laps.low()


def test_instructions_are_those_between_two_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the counts that callgrind writes at each mark, each goes to the stage that ended there, for each event."""

    def run(command: list[str], **_: Any) -> None:
        out = Path(next(word.partition("=")[2] for word in command if word.startswith("--callgrind-out-file")))
        for number, count in enumerate([9, 50_000, 10_000, 20_000, 30_000, 40_000, 5_000] * 2, 1):
            out.with_suffix(f".{number}").write_text(f"desc: Trigger: a mark\ntotals: {count}\n")
        out.write_text("totals: 7\n")

    monkeypatch.setattr(subprocess, "run", run)

    counted = count_instructions("hset", compiled=True)

    assert {"take": 5, "decode": 1, "apply": 2, "commit": 4, "write": 4} == counted  # of 20,000 events
    assert 16 == json.loads(StagesResult("hset", True, 2000, {}, counted).line())["sum_instructions"]

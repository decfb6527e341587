"""The benchmark of reads in the past runs, prints what it should, and refuses what the events do not say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.applying.compare import WrongStateError
from benchmarks.past import reading
from benchmarks.past.reading import PAST_SMOKE, run_past, up_to


async def test_a_line_for_each_log(tmp_path: Path) -> None:
    """Times of each kind of read, and their growth; the logs are kept where that is asked for."""
    size = replace(PAST_SMOKE, directory=tmp_path)
    lines = [json.loads(line.line()) async for line in run_past(size)]

    assert [f"past_{events}" for events in size.events] == [line["name"] for line in lines]
    names = ("index_ms", "first_ms", "following_ms", "other_ms", "history_ms", "snapshot_first_ms", "whole_first_ms")
    assert [] == [name for line in lines for name in names if not line[name] >= 0]
    assert [1.0, True] == [lines[0]["history_ms_growth"], lines[1]["history_ms_growth"] > 0]
    assert {f"{what}-{events}" for what in ("data", "snapshots") for events in size.events} == {
        path.name
        for path in tmp_path.iterdir()  # noqa: ASYNC240 - nobody waits
    }


async def test_a_wrong_history_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a history has other events than the log, the benchmark ends."""
    monkeypatch.setattr(reading, "TOUCHES", 99)

    with pytest.raises(WrongStateError, match="history has 100 events"):
        await anext(run_past(PAST_SMOKE))


def test_lengths() -> None:
    """From 100,000 on, each ten times the one before."""
    assert [(100_000,), (100_000, 1_000_000), (100_000, 1_000_000, 10_000_000)] == [
        up_to(events) for events in (100_000, 2_000_000, 10_000_000)
    ]

"""The benchmark of cleaning beside clients runs at its smallest size, and a soak can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cleaning.reclaiming import RECLAIMING_SMOKE, run_reclaiming
from benchmarks.cleaning.soak import soak, verdict


async def test_reclaim_beside_clients() -> None:
    """SETs are measured with and without a reclaim, of which a part falls into the run beside it."""
    (line,) = [json.loads(result.line()) async for result in run_reclaiming(RECLAIMING_SMOKE)]

    assert "reclaim_beside" == line["name"]
    rounding = 0.005  # the line has two digits
    assert line["p99_ratio"] == pytest.approx(line["p99_ms"] / line["p99_without_ms"], rel=0.02, abs=rounding)
    assert 0 < line["reclaimed"] < RECLAIMING_SMOKE.elements == line["elements"]


async def test_soak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys are written and expire; from a few seconds it tells nothing."""
    levels_off = await soak(3, 500, 200, tmp_path)
    *lines, last = map(json.loads, capsys.readouterr().out.splitlines())

    assert not levels_off
    assert 0 < lines[-1]["stored_keys"] <= lines[-1]["written"]
    assert 0 == lines[-1]["refused"]
    assert "too short" in last["reason"]


def line(minute: int, **more: Any) -> dict[str, Any]:
    """A line of a soak in which nothing grows."""
    return {"state_bytes": 100 + minute % 2, "rss_bytes": 100, "stored_seconds": 2.5, "refused": 0, **more}


@pytest.mark.parametrize(
    ("grown", "levels_off"),
    [({}, True), ({"state_bytes": 300}, False), ({"rss_bytes": 300}, False), ({"stored_seconds": 9.0}, False)],
)
def test_growth_is_found(grown: dict[str, Any], levels_off: bool) -> None:
    """Disk, memory and the time for which keys are stored: what is higher in the second half does not level off."""
    lines = [line(minute) for minute in range(10)] + [line(minute, **grown) for minute in range(10)]

    assert levels_off is verdict(lines)["levels_off"]


def test_refusals_are_found() -> None:
    """A soak whose writes were refused shows nothing."""
    assert not verdict([line(minute, refused=1) for minute in range(20)])["levels_off"]

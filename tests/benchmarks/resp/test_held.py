"""The benchmark of commands that hold others up runs, prints what it should, and refuses a command that fails."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.resp import held
from benchmarks.resp.commands import LoadError
from benchmarks.resp.held import run_held
from benchmarks.resp.held_works import HELD_SMOKE, Work, cluster_works, works


@pytest.mark.timeout(300)
async def test_every_row_runs() -> None:
    """A line for each command, with the time of both servers, and what others waited meanwhile."""
    lines = [json.loads(result.line()) async for result in run_held(HELD_SMOKE)]

    named = [work.name for work in (*works(HELD_SMOKE), *cluster_works(HELD_SMOKE))]
    assert ["held_nothing", *(f"held_{name}" for name in named)] == [line["name"] for line in lines]
    times = {f"{side}{what}{kind}ms" for side in ("", "valkey_") for what in ("", "ping_") for kind in ("", "cpu_")}
    for line in lines:
        assert {"name", "runs", "livez_ms", "livez_cpu_ms"} | times == line.keys()
        assert 0 < line["ms"]
        assert 0 < line["ping_ms"]
        assert 0 < line["livez_ms"]


async def test_a_refused_command_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a command that is answered with an error is not quick."""
    monkeypatch.setattr(held, "works", lambda _: [Work("wrong", [["SMEMBERS", "h"]])])
    monkeypatch.setattr(held, "cluster_works", lambda _: [])

    with pytest.raises(LoadError, match="WRONGTYPE"):
        [result async for result in run_held(replace(HELD_SMOKE, keys=20))]

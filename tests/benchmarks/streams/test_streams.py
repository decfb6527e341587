"""The benchmark of streams runs, prints what it should, and refuses a server that does not do what is asked."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.resp.commands import LoadError
from benchmarks.streams.growth import KINDS, run_growth
from benchmarks.streams.rates import STREAMS_SMOKE, fill_stream, run_rates, trim
from tests.wire.servers import valkey


async def test_every_row_runs_beside_the_rival() -> None:
    """A line for each command with the rates of both servers, and one for a trim with what another client waited."""
    lines = [json.loads(result.line()) async for result in run_rates(STREAMS_SMOKE)]

    entries = STREAMS_SMOKE.entries
    rows = ["hset", "xadd", f"xadd_{entries}", "xreadgroup", f"xack_{entries}", f"trim_{entries}"]
    assert [f"streams_{row}" for row in rows] == [line["name"] for line in lines]
    *rates, trimmed = lines
    figures = {"per_second", "p99_ms", "cpu_us", "hset_ratio"}
    for line in rates:
        assert {"name", "ratio"} | figures | {f"valkey_{each}" for each in figures} == line.keys()
    times = {"ms", "cpu_ms", "wait_ms", "wait_cpu_ms", "idle_wait_ms"}
    assert {"name"} | times | {f"valkey_{each}" for each in times} == trimmed.keys()
    assert 1.0 == rates[0]["hset_ratio"] == rates[0]["valkey_hset_ratio"]


def test_the_engine_has_figures_of_its_own() -> None:
    """Each kind in streams of each length, with its growth by the shortest."""
    found = [json.loads(result.line()) for result in run_growth(STREAMS_SMOKE)]

    names = [f"streams_{kind}_{length}_engine" for kind in KINDS for length in STREAMS_SMOKE.growing]
    assert names == [line["name"] for line in found]
    assert [1.0] * len(KINDS) == [line["growth"] for line in found[:: len(STREAMS_SMOKE.growing)]]


def test_a_stream_that_is_not_deleted_is_no_figure(tmp_path: Path) -> None:
    """The canary: a trim that deletes nothing is an error, and no quick trim."""
    with valkey(tmp_path, durable=False) as server:
        fill_stream(server, 10)
        with closing(server.connect()) as connection:
            assert [10, 10] == [connection.call("XLEN", "long"), connection.call("XPENDING", "long", "group")[0]]
            connection.call("DEL", "long")
        with pytest.raises(LoadError, match="did not delete"):
            trim(server)

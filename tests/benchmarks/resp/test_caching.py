"""The benchmark of client-side caching runs, and prints what it should."""

from __future__ import annotations

import json

from benchmarks.resp.caching import CACHING_SMOKE, run_caching


async def test_every_row_runs() -> None:
    """GET and SET, each with and without clients that track, of both servers."""
    lines = {line["name"]: line async for result in run_caching(CACHING_SMOKE) for line in [json.loads(result.line())]}

    figures = {name: {field for field in line if not field.startswith("valkey_")} for name, line in lines.items()}
    expected = {"caching_get": {"name", "us", "tracked_us"}, "caching_set": {"name", "us", "watched_us", "told_us"}}
    assert expected == figures
    assert all(value > 0 for line in lines.values() for field, value in line.items() if field != "name")

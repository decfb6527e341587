"""The benchmark of what one client can cost the others runs, and prints what it should."""

from __future__ import annotations

import json

from benchmarks.resp.one_client import CLIENT_SMOKE, run_clients


async def test_every_row_runs() -> None:
    """Memory and the latency of others, of both servers."""
    lines = [json.loads(result.line()) async for result in run_clients(CLIENT_SMOKE)]

    assert ["client_memory", "client_ping"] == [line["name"] for line in lines]
    assert {"grown_mib", "valkey_grown_mib", "asked_mib"} <= lines[0].keys()
    assert 0 < lines[1]["p99_ms"] <= lines[1]["max_ms"]
    assert 0 < lines[1]["valkey_p99_ms"] <= lines[1]["valkey_max_ms"]

"""The benchmark of metrics runs, and prints what it should."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from benchmarks.applying.workloads import SMOKE
from benchmarks.metrics.cost import run_metrics
from benchmarks.resp.commands import RESP_SMOKE


async def test_every_row_runs() -> None:
    """Scrapes of one partition and of many, and each hot path beside one that counts nothing."""
    results = run_metrics(SMOKE, replace(RESP_SMOKE, requests=4_000), partitions=(1, 4))
    found: dict[str, dict[str, Any]] = {line["name"]: line async for line in _lines(results)}

    paths = {"metrics_hset", "metrics_get_1", "metrics_get_16", "metrics_set_1", "metrics_set_16"}
    assert {"metrics_counting", "metrics_scrape_1", "metrics_scrape_4"} | paths == found.keys()
    assert 0 < found["metrics_counting"]["read_us"] < found["metrics_counting"]["batch_us"]
    assert found["metrics_scrape_4"]["series"] > found["metrics_scrape_1"]["series"] > 100
    assert SMOKE.events == found["metrics_hset"]["events"]
    assert {"ratio", "cpu_ratio"} <= found["metrics_set_16"].keys()


async def _lines(results: Any) -> Any:
    async for result in results:
        yield json.loads(result.line())

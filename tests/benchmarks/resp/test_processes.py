"""The benchmark of several processes runs, and prints what it should."""

from __future__ import annotations

import json

import pytest

from benchmarks.resp.processes import PROCESSES_SMOKE, ProcessesResult, rate_between, run_processes


async def test_two_processes_run_beside_one(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for clients and one for a topic that is caught up with, each with the rates of both services."""
    monkeypatch.setenv("SLOTLOG_TEST_KAFKA", kafka_bootstrap)
    found = [json.loads(result.line()) async for result in run_processes(PROCESSES_SMOKE, ["kafka"])]

    assert ["processes_set_16_kafka", "processes_hset_kafka"] == [line["name"] for line in found]
    fields = {
        "name",
        "per_second",
        "two_per_second",
        "two_ratio",
        "ratios",
        "cores",
        "load",
    }
    appends = {"append_ms", "two_append_ms"}
    assert [fields | appends, fields] == [set(line) for line in found]
    assert all(found[0][name] > 0 for name in appends)
    for line in found:
        assert line["per_second"] > 0
        assert line["two_per_second"] > 0


def test_the_ratio_is_of_pairs() -> None:
    """It is the median over the pairs of the rate of two processes by that of one."""
    line = json.loads(ProcessesResult("x", {1: [100.0, 200.0, 100.0], 2: [150.0, 200.0, 300.0]}, 0.5).line())

    assert (1.5, [1.5, 1.0, 3.0], 100, 200) == (
        line["two_ratio"],
        line["ratios"],
        line["per_second"],
        line["two_per_second"],
    )


def test_the_rate_is_between_two_looks_at_work_under_way() -> None:
    """What was applied before a tenth is no part of the rate, nor is the look at which nothing was left any more."""
    looks = [(0.0, 0.0), (1.0, 80.0), (1.1, 280.0), (1.2, 480.0), (1.5, 900.0), (1.6, 1000.0)]

    assert rate_between(looks, 1000) == pytest.approx(820 / 0.5)


def test_the_rate_of_what_is_done_before_the_next_look_is_that_of_all() -> None:
    """A run that ends between two looks has a rate, too: that of both."""
    assert rate_between([(0.0, 0.0), (0.5, 100.0)], 100) == pytest.approx(200)

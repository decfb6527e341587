"""The tables of docs/scale.md are products of what a run has measured and what a plan assumes."""

from __future__ import annotations

from typing import Any

from benchmarks.results.scale import NO_RUN, Plan, part

RUN: dict[str, dict[str, Any]] = {
    "flights_kafka": {"per_second": 100_000},
    "hset_kafka": {"per_second": 125_000},
    "resp_set_1_embedded": {"cpu_us": 40.0},
    "resp_set_16_embedded": {"cpu_us": 20.0},
    "resp_get_1_embedded": {"cpu_us": 15.0},
    "restore_10000000_keys": {
        "keys": 10_000_000,
        "bytes": 1_280_000_000,
        "replay_s": 200.0,
        "snapshot_s": 100.0,
    },
}


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each row, by its first one."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {first: rest for first, *rest in cells}


def test_cores_disk_and_log_are_products() -> None:
    """A million events of 10 µs, at owner and standby, take 20 cores; ten billion keys of 128 bytes 2.6 TB."""
    rows = rows_of(part(RUN))

    assert ["0.04", "0.16", "20"] == rows["cores, events of services"]
    assert ["0.16", "0.38", "48"] == rows["cores, clients' writes one by one"]
    assert ["5.0 GB", "20 GB, twice while a snapshot is verified", "2.6 TB"] == rows["disk of the state"]
    assert "170 MB/s, 14.7 TB a day, 44 TB on replicas" == rows["log, in"][2]


def test_without_standbys_nothing_is_applied_twice() -> None:
    """A plan without standbys takes half of the cores, disk and log."""
    rows = rows_of(part(RUN, Plan(standbys=0)))

    assert "10" == rows["cores, events of services"][2]
    assert "1.3 TB" == rows["disk of the state"][2]
    assert "170 MB/s" == rows["log, out"][2]


def test_failover_without_a_standby_replays_an_interval() -> None:
    """Events of three hours, 42 million a partition, at 50,000 a second are 14 minutes."""
    took, why = rows_of(part(RUN))["failover without one, a partition"]

    assert "10 s, 40 s, then up to 14 minutes" == took
    assert "42 million" in why


def test_a_run_that_lacks_a_figure_makes_no_table() -> None:
    """Nothing is multiplied that was not measured."""
    assert NO_RUN == part({name: RUN[name] for name in RUN if name != "hset_kafka"})

"""The tables of large values have the lines of a run, and nothing where a run has none."""

from __future__ import annotations

from typing import Any

from benchmarks.results.sizes import sizes

RUN: dict[str, dict[str, Any]] = {
    "data_zrank_1000_engine": {"us": 4.04, "growth": 1.0},
    "data_zrank_100000_engine": {"us": 5.0, "growth": 1.24},
    "data_zrank_1000_floor": {"us": 2.0, "growth": 1.0},
    "data_zrank_100000_floor": {"us": 3.0, "growth": 1.5},
    "data_setbit_67108864_engine": {"us": 5.0},
    "data_zrank_1000_1_embedded": {"us": 130.2, "cpu_us": 97, "valkey_us": 50, "valkey_cpu_us": 20, "ratio": 0.38},
    "data_zrank_1000_16_embedded": {"us": 6.04, "cpu_us": 5, "valkey_us": 2.2, "valkey_cpu_us": 1.3, "ratio": 0.36},
    "data_hget_1000_16_embedded": {"us": 3.0, "ratio": 0.5, "valkey_us": 1.5, "valkey_cpu_us": 1.0}
    | {"cpu_us": 2.04, "growth": 1.0, "cpu_growth": 1.0, "valkey_growth": 1.0, "valkey_cpu_growth": 1.0},
    "data_hget_100000_16_embedded": {"us": 3.3, "ratio": 0.5, "valkey_us": 1.8, "valkey_cpu_us": 1.3}
    | {"cpu_us": 2.5, "growth": 1.1, "cpu_growth": 1.22, "valkey_growth": 1.2, "valkey_cpu_growth": 1.3},
    "data_copy_100000_1_embedded": {
        "us": 115_000,
        "cpu_us": 164_000,
        "valkey_us": 15_900,
        "valkey_cpu_us": 14_800,
        "ratio": 0.14,
    },
}


def test_growth_stands_beside_that_of_the_floor() -> None:
    """A command of several sizes has a row with its times and its growth, and the floor below it."""
    growth = [line for line in sizes(RUN).splitlines() if "1,000 members" in line or line.count("|") == 5]

    assert [
        "| engine alone | 1,000 members | 100,000 members | growth |",
        "| --- | --- | --- | --- |",
        "| ZRANK | 4.0 | 5.0 | 1.24 |",
        "| ZRANK, floor | 2.0 | 3.0 | 1.50 |",
    ] == growth


def test_growth_over_resp_stands_beside_that_of_valkey_server() -> None:
    """A command of several sizes by 16: CPU time by size, its growth and that of the time, and below it the rival's."""
    lines = sizes(RUN).splitlines()
    at = lines.index("| by 16 | 1,000 | 100,000 | growth | of time |")

    assert ["| HGET | 2.0 | 2.5 | 1.22 | 1.10 |", "| HGET, valkey | 1.0 | 1.3 | 1.30 | 1.20 |"] == lines[
        at + 2 : at + 4
    ]


def test_commands_stand_beside_those_of_valkey_server() -> None:
    """A row for a command and a size: by 1 and by 16, or by 1 alone; the rate is that by 16 where it is there."""
    assert [
        "| ZRANK | 1,000 | 130 (97) | 50 (20) | 6.0 (5.0) | 2.2 (1.3) | 0.36 |",
        "| COPY of the hash | 100,000 | 115 ms (164) | 16 ms (15) |  |  | 0.14 |",
    ] == sizes(RUN).splitlines()[-2:]


def test_without_lines_there_is_no_table() -> None:
    """A run of other benchmarks has no such table."""
    assert sizes({"resp_set_16_embedded": {"per_second": 1}}) == ""

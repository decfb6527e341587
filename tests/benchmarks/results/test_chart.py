"""Lines of a run become a chart and tables."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.applying.stages import STAGES, StagesResult
from benchmarks.results.chart import draw, drawn
from benchmarks.results.figures import EVENTS, REPLAYS, REQUESTS, description, panels_of, results_of
from benchmarks.results.page import NO_RUN, part

EVENT = {"floor_per_second": 127_700, "ratio": 0.523, "ratios": [0.4, 0.523, 0.7], "cpu_ratio": 0.55, "load": 0.9}
REQUEST = {
    "always_per_second": 250_000,
    "always_ratio": 0.141,
    "everysec_ratio": 0.1,
    "p50_ms": 3.21,
    "p99_ms": 8.0,
    "always_p99_ms": 3.0,
    "cpu_us": 28.0,
    "always_cpu_us": 3.3,
    "load": 1.2,
}
PROCESSES = {"per_second": 10, "two_per_second": 15, "two_ratio": 1.5, "ratios": [1.5], "load": 1.0}
REPLAY = {
    **EVENT,
    "per_second": 90_000,
    "two_per_second": 160_000,
    "two_ratio": 1.8,
    "whole_per_second": 70_000,
    "two_whole_per_second": 110_000,
}
RESTORE = {
    "keys": 1_000_000,
    "bytes": 126_400_000,
    "restore_s": 0.512,
    "replay_s": 20.1,
    "ratio": 39.3,
    "snapshot_s": 9.12,
    "growth": 1.0,
    "load": 1.1,
}
SNAPSHOT = {
    "keys": 1000,
    "bytes": 2_000_000,
    "new_bytes": 100_000,
    "rounds_new_bytes": [100_000, 2_000_000],
    "pause_ms": 3.1,
    "pause_ms_max": 9.5,
    "longest_ms": 12.0,
    "usual_longest_ms": 8.5,
    "load": 1.0,
}
TWO = {"floor_per_second": 30_000, "ratio": 3.0, "ratios": [2.5, 3.5], "load": 1.0}
LINES = [
    "==> make says something",
    description(),
    json.dumps({"name": "hset_kafka", "per_second": 1, **EVENT}),
    json.dumps({"name": "quix_hset", "per_second": 69_300, **EVENT, "floor_per_second": 27_600, "ratio": 2.5}),
    json.dumps({"name": "quix_hset_two", "per_second": 90_000, **TWO}),
    json.dumps({"name": "resp_set_16_embedded", "per_second": 35_100, **REQUEST}),
    json.dumps({"name": "resp_set_1_embedded", "per_second": 13_900, **REQUEST}),
    json.dumps(json.loads(StagesResult("hset", False, 1000, dict.fromkeys(STAGES, 1.234)).line()) | {"load": 1.0}),
    json.dumps({"name": "processes_set_16_embedded", **PROCESSES, "append_ms": 0.5, "two_append_ms": 0.9}),
    json.dumps({"name": "replay_hset_kafka", **REPLAY}),
    json.dumps({"name": "restore_1000000_keys", **RESTORE}),
    json.dumps({"name": "snapshot", **SNAPSHOT}),
    json.dumps({"name": "hset_kafka", "per_second": 66_800, **EVENT}),  # measured again: this one counts
]


def test_the_chart_has_each_rate_to_scale() -> None:
    """Each group has a bar for each that did the work, as long as its rate is great; the title names all of them."""
    panels = panels_of(results_of(LINES))
    svg = drawn(panels)

    assert [EVENTS, REQUESTS, REPLAYS] == [panel.title for panel in panels]
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", svg)
    assert {"66,800", "127,700 (0.52)", "27,600 (2.50)", "35,100", "250,000 (0.14)", "160,000 (0.56)"} <= set(texts)
    assert "<title>Rates of slotlog, floor, Quix Streams, valkey-server, two processes</title>" in svg
    widths = [int(width) for width in re.findall(r'<rect x="80" y="[0-9]+" width="([0-9]+)"', svg)][1:]  # the legend's
    assert [round(540 * rate / 127_700) for rate in (66_800, 127_700, 27_600)] == widths[:3]
    assert [round(540 * 35_100 / 250_000), 540] == widths[3:5]
    assert [round(540 * rate / 160_000) for rate in (90_000, 127_700, 160_000)] == widths[5:]


def test_the_chart_stands_beside_its_lines(tmp_path: Path) -> None:
    """It has the name of the file of lines; lines that belong to no chart give none."""
    results = tmp_path / "run.jsonl"
    results.write_text("\n".join(LINES))
    draw(results)
    (tmp_path / "other.jsonl").write_text(description())
    draw(tmp_path / "other.jsonl")

    assert ["other.jsonl", "run.jsonl", "run.svg"] == sorted(path.name for path in tmp_path.iterdir())


def test_the_tables_have_each_line() -> None:
    """A row for each benchmark, with what stands beside it; without a run the page says how to make one."""
    text = part(results_of(LINES), "run.svg")

    assert "](run.svg)" in text
    for row in (
        "| `hset_kafka` | 66,800 | 127,700 | 0.52 (0.40 to 0.70) | 0.55 | 0.9 |",
        "| `quix_hset`, beside Quix Streams | 69,300 | 27,600 | 2.50 (0.40 to 0.70) | 0.55 | 0.9 |",
        "| `quix_hset_two`, beside Quix Streams in one process | 90,000 | 30,000 | 3.00 (2.50 to 3.50) |  | 1.0 |",
        "| hset | Python | 1.23 | 1.23 | 1.23 | 1.23 | 1.23 | 6.17 |",
        "| SET, 1 | embedded | 13,900 | 0.14 | 0.10 | 3.2 | 8.0, 3.0 | 28.0, 3.3 | 1.2 |",
        "| `replay_hset_kafka` | 90,000 | 127,700 | 0.52 (0.40 to 0.70) | 160,000 | 1.80 | 70,000 | 110,000 | 0.9 |",
        "| 1,000,000 | 126 | 0.51 | 20.1 | 39 | 1.00 | 9.1 | 1.1 |",
        "| 1,000 | 2 | 0.1 | 0.1, 2.0 | 3.1, 9.5 | 12.0 | 8.5 | 1.0 |",
        "| `processes_set_16_embedded` | 10 | 15 | 1.50 (1.50 to 1.50) | 0.5, 0.9 | 1.0 |",
    ):
        assert row in text.splitlines()
    assert "load 0.9 to 1.2" in text
    assert NO_RUN == part({}, "run.svg")


def test_make_bench_adds_to_the_file(tmp_path: Path) -> None:
    """`--results` keeps what is printed, behind a line about the run, and behind what was there."""
    results = tmp_path / "run.jsonl"
    results.write_text(LINES[2] + "\n")
    options = ["--only", "del", "--size", "smoke", "--sources", "engine", "--results", str(results)]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *options], check=True, capture_output=True, text=True)

    lines = results.read_text().splitlines()
    assert [LINES[2], *done.stdout.splitlines()] == lines
    assert ["hset_kafka", "run"] == [json.loads(line)["name"] for line in lines[:2]]
    assert json.loads(lines[2])["name"].startswith("del_")
    assert (tmp_path / "run.svg").exists()


def test_results_of_several_runs_say_so() -> None:
    """The page has the first and the last date of what is on it."""
    first, last = ({"name": "run", "date": f"2026-11-{day}"} for day in (23, 28))

    assert "2026-11-23 to 2026-11-28" == results_of(map(json.dumps, (last, first)))["run"]["date"]
    assert last == results_of([json.dumps(last)])["run"]

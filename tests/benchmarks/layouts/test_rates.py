"""The benchmark of layouts runs at its smallest size, and refuses a layout that leaves work out."""

from __future__ import annotations

import json

import pytest

from benchmarks.layouts import rates
from benchmarks.layouts.rates import LAYOUTS_SMOKE, Pass, run_layouts
from benchmarks.layouts.streams import STREAMS
from benchmarks.layouts.table import tables
from engine.layouts import LAYOUTS


async def test_each_layout_has_a_line_and_a_row() -> None:
    """For each stream: rates, ratios by the default layout and bytes, which are not 0; and a table for each stream."""
    lines = [result.line() async for result in run_layouts(LAYOUTS_SMOKE)]
    results = [json.loads(line) for line in lines]

    assert [f"layouts_{stream}_{layout}" for stream in STREAMS for layout in LAYOUTS] == [
        result["name"] for result in results
    ]
    assert [] == [result for result in results if not all(result.values())]
    text = list(tables(["no result", *lines]))
    assert [len(LAYOUTS) * len(STREAMS)] == [sum(line.startswith("| `") for line in text)]
    assert [f"`{stream}`" for stream in STREAMS] == [line.partition(":")[0] for line in text if ": " in line]


async def test_a_layout_that_leaves_work_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass of a stream must come to one digest."""
    run_pass = rates.run_pass

    def lazy(layout: str, *args: object) -> Pass:
        found: Pass = run_pass(layout, *args)  # type: ignore[arg-type]
        return found._replace(digest=layout)

    monkeypatch.setattr(rates, "run_pass", lazy)

    with pytest.raises(RuntimeError, match="other digests on the stream flights"):
        _ = [result async for result in run_layouts(LAYOUTS_SMOKE)]

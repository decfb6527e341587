"""The benchmark of imports runs, prints its fields, and refuses a run without the asked work."""

from __future__ import annotations

import json

import pytest

from benchmarks.importing import importing
from benchmarks.importing.importing import IMPORT_SMOKE, run_importing


async def test_an_import_is_measured_beside_its_floor() -> None:
    """One line has the rate of a first pass, that of a second one, and the floor's."""
    (line,) = [json.loads(result.line()) async for result in run_importing(IMPORT_SMOKE)]

    assert ("import_redis", IMPORT_SMOKE.keys) == (line["name"], line["events"])
    assert {"per_second", "again_per_second", "floor_per_second", "ratio", "cpu_ratio"} <= line.keys()


async def test_an_import_that_brings_less_is_no_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: where keys are missing there is an error, and no rate."""
    monkeypatch.setattr(importing, "fill", lambda server, keys: None)

    with pytest.raises(RuntimeError, match="the floor read 0 keys of 2000"):
        [result async for result in run_importing(IMPORT_SMOKE)]

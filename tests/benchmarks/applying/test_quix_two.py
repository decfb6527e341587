"""The benchmark of two processes beside Quix Streams runs, and checks what the latter has done."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.applying import quix, quix_two
from benchmarks.applying.workloads import SEED, SMOKE, hset


def report_of(new_fields: int) -> Any:
    """Stands for Quix Streams, which is not installed where tests run: it reports so many fields, after 10 s."""

    async def run(bootstrap: str, topic: str, records: int, directory: Path) -> dict[str, Any]:
        return {"seconds": [10.0, 9.0], "until_last": [9.0, 8.0], "new_fields": new_fields}

    return run


async def test_two_processes_stand_beside_quix_streams(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has both rates and their ratio; where the fields are other ones there is none."""
    events = list(islice(hset(SMOKE, Random(SEED)), 5 * SMOKE.events))
    fields = len({(event.args[0], event.args[1]) for event in events})
    monkeypatch.setattr(quix, "run", report_of(fields))
    line = json.loads((await quix_two.compare(SMOKE, kafka_bootstrap)).line())

    assert ("quix_hset_two", 150, len(events)) == (line["name"], line["floor_per_second"], line["events"])
    assert line["ratio"] == pytest.approx(line["per_second"] / 150, rel=0.01)
    assert [line["ratio"]] == line["ratios"]

    monkeypatch.setattr(quix, "run", report_of(fields - 1))
    with pytest.raises(RuntimeError, match="new fields"):
        await quix_two.compare(SMOKE, kafka_bootstrap)

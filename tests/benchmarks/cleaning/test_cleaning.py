"""The benchmark of cleaning runs, prints what it should, and refuses to measure what was not removed."""

from __future__ import annotations

import json

import pytest

from benchmarks.cleaning.cleaning import CLEANING_SMOKE, KINDS, run_cleaning
from engine.cleaning.reclaim import POINTS_MAX, Reclaimed, Reclaimer
from engine.cleaning.sweep import Sweeper, Swept


async def test_every_row_runs() -> None:
    """Growth for each number of stored keys, and for each type the time of its DEL and the room that is left."""
    found = {result.name: json.loads(result.line()) async for result in run_cleaning(CLEANING_SMOKE)}

    size = CLEANING_SMOKE
    growth = [f"{name}_{stored}" for name in ("clean_expiry", "clean_orphan") for stored in size.stored]
    large = {**dict.fromkeys(KINDS, size.elements), "string": size.string_bytes}
    deletes = [f"{name}_{kind}_{count}" for kind, count in large.items() for name in ("clean_del", "clean_disk")]
    assert [*growth, *deletes] == list(found)
    assert [1.0, 1.0] == [found[f"{name}_{size.stored[0]}"]["growth"] for name in ("clean_expiry", "clean_orphan")]
    assert size.elements > POINTS_MAX
    assert all(line["bytes"] < 1.1 * line["without_bytes"] for name, line in found.items() if "disk" in name)


async def test_a_round_that_left_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a sweep that removes nothing is an error, and not a fast one."""
    monkeypatch.setattr(Sweeper, "expire", lambda *_: Swept([], [], more=False, due_ms=0, order=[]))

    with pytest.raises(RuntimeError, match="0 keys went, 20 were due"):
        [result async for result in run_cleaning(CLEANING_SMOKE)]


async def test_a_slice_that_left_an_orphan_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: so is a reclaimer that finds nothing."""
    monkeypatch.setattr(Reclaimer, "reclaim", lambda *_: Reclaimed(0, 0, 0, more=False))

    with pytest.raises(RuntimeError, match="of 20 elements"):
        [result async for result in run_cleaning(CLEANING_SMOKE)]

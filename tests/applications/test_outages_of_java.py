"""Redisson through two kills of its server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.applications.outages import Outages, java


def test_redisson(outages: Outages, tmp_path: Path) -> None:
    """Its lock excludes, its map keeps what was put, its rate limiter lets no more through than it may."""
    done = outages.run(java("Redisson.java"), outages.prepare(tmp_path), kill_at=[15, 70])

    kinds = Counter(line.split()[0] for line in done.work)
    unknown = done.report.pop("unknown")
    assert {"overlaps": 0, "free": True, "entries": 60, "after": False} == done.report
    assert {"lock": 40, "map": 60} == {kind: kinds[kind] for kind in ("lock", "map")}
    assert 40 - unknown <= kinds["allowed"] <= 40

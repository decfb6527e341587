"""Libraries of Java through two kills of their server, in one process."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.applications.outages import Done, Outages, java

ENTRIES: Final = 60


@pytest.fixture(scope="module")
def done(outages: Outages, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """What the program has done. A Java machine takes its time, so there is one for both libraries."""
    environment = outages.prepare(tmp_path_factory.mktemp("java"))
    return outages.run(java("Libraries"), environment, kill_at=[15, 70])


def test_redisson(done: Done) -> None:
    """Its lock excludes, its map keeps what was put, its rate limiter lets no more through than it may."""
    kinds = Counter(line.split()[0] for line in done.work)
    expected = {"overlaps": 0, "free": True, "entries": 60, "after": False}
    assert expected == {name: done.report[name] for name in expected}
    assert {"lock": 40, "map": 60} == {kind: kinds[kind] for kind in ("lock", "map")}
    assert 40 - done.report["unknown"] <= kinds["allowed"] <= 40


def test_spring_streams(done: Done) -> None:
    """Spring Data Redis' listeners of a stream: each entry is worked on and acknowledged; without a kill just once."""
    assert {"length": ENTRIES, "pending": 0, "read": ENTRIES, "lag": 0} == done.report["stream"]
    worked = Counter(int(line.split()[1]) for line in done.work if line.startswith("stream "))
    assert [*range(ENTRIES)] == sorted(worked)
    assert done.outages or ENTRIES == worked.total()

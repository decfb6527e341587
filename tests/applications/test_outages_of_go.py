"""Libraries of Go through a kill of their server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.applications.outages import LARGE_TIMEOUT_S, Dose, Outages, again, go

PATIENCE: Final = os.environ.get("OUTAGE_PATIENCE", "5s")
"""How long asynq may take to find the tasks that it has lost: 3m is enough."""

INSPECTOR: Final = {"oracle": "<nil>", "slotlog": "MEMORY USAGE reads what is physically there"}


@pytest.mark.timeout(400)
def test_asynq(outages: Outages, tmp_path: Path) -> None:
    """Each task is worked on, or is held for a worker that was never told of it, until that is over."""
    environment = outages.prepare(tmp_path) | {"PATIENCE": PATIENCE}
    done = outages.run(go("asynq"), environment, kill_at=[20, 40], timeout_s=300)

    states: dict[str, int] = done.report["states"]
    held = states.pop("active", 0)
    assert {"completed": 60 - held} == states
    assert held <= 4 * done.outages * (PATIENCE == "5s")
    assert INSPECTOR[outages.name.removeprefix("killed ")] in done.report["inspector"]
    if not held:
        assert again(60, done) == sorted(map(int, done.work))


def test_redsync(outages: Outages, tmp_path: Path) -> None:
    """Whoever had the lock before the kill has it after it, everybody gets a turn, and the lock is free in the end."""
    done = outages.run(go("redsync"), outages.prepare(tmp_path), kill_at=[15])

    assert {"overlaps": [], "free": True} == done.report
    assert [f"{name} {turn}" for name in "abcd" for turn in range(10)] == sorted(done.work)


def test_redis_rate(outages: Outages, tmp_path: Path) -> None:
    """Nobody gets more than the limit, and no more is lost than nobody knew of."""
    done = outages.run(go("redis_rate"), outages.prepare(tmp_path), kill_at=[30])

    assert 0 == done.report["after"]
    assert 60 - done.report["unknown"] <= len(done.work) <= 60


def test_rueidis(outages: Outages, tmp_path: Path) -> None:
    """A client with a cache reads no older value than one that it has read; the cache goes with the connection."""
    done = outages.run(go("rueidis"), outages.prepare(tmp_path), kill_at=[20])

    assert [*map(str, range(40))] == done.work
    assert 120 == done.report["hits"] + done.report["misses"]
    assert 60 <= done.report["hits"]


@pytest.mark.timeout(LARGE_TIMEOUT_S)
def test_stream_group(outages: Outages, tmp_path: Path) -> None:
    """go-redis' group of consumers: each entry is worked on and acknowledged; without a kill just once."""
    dose = Dose()
    done = outages.run(go("stream_group"), outages.prepare(tmp_path) | dose.environment, dose.kill_at)

    assert {"length": dose.entries, "pending": 0, "read": dose.entries, "lag": 0} == done.report
    assert again(dose.entries, done) == sorted(map(int, done.work))

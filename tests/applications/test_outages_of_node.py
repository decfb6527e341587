"""Libraries of Node through a kill of their server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.applications.outages import LARGE_TIMEOUT_S, Dose, Outages, again, node
from tests.clients.programs import ProgramError


def test_redlock(outages: Outages, tmp_path: Path) -> None:
    """Whoever had the lock before the kill has it after it, everybody gets a turn, and the lock is free in the end."""
    done = outages.run(node("redlock.js"), outages.prepare(tmp_path), kill_at=[15])

    assert {"overlaps": [], "free": True} == done.report
    assert [f"{name} {turn}" for name in "abcd" for turn in range(10)] == sorted(done.work)


def test_bee_queue(outages: Outages, tmp_path: Path) -> None:
    """Each job is worked on, also what is delayed or retried; without a kill just once.

    valkey-server forgets all scripts when it ends. bee-queue loads them once, and ends with an error at the next one.
    """
    if outages.name == "killed oracle":
        with pytest.raises(ProgramError, match="NOSCRIPT No matching script"):
            outages.run(node("bee_queue.js"), outages.prepare(tmp_path), kill_at=[20, 40])
        return

    done = outages.run(node("bee_queue.js"), outages.prepare(tmp_path), kill_at=[20, 40])

    assert {"failed": 0, "succeeded": 60} == done.report
    assert again(60, done) == sorted(map(int, done.work))


def test_rate_limiter(outages: Outages, tmp_path: Path) -> None:
    """rate-limiter-flexible: nobody gets more than the limit, and each client loses one request at most."""
    done = outages.run(node("rate_limiter.js"), outages.prepare(tmp_path), kill_at=[30])

    assert [[0] * 4, 0] == [done.report["remaining"], done.report["after"]]
    assert 60 - 4 * done.outages <= len(done.work) <= 60


def test_bullmq(outages: Outages, tmp_path: Path) -> None:
    """Each job is worked on, also what is delayed, retried or waits for others, and told of in the stream of events."""
    done = outages.run(node("bullmq.js"), outages.prepare(tmp_path), kill_at=[20, 40])

    counts = {"completed": 66, "failed": 0, "active": 0, "waiting": 0, "delayed": 0}
    assert {"counts": counts, "told": 66, "values": [61, 62, 63, 64, 65]} == done.report
    assert again(66, done) == sorted(map(int, done.work))


def test_node_redis(outages: Outages, tmp_path: Path) -> None:
    """A client with a cache reads no older value than one that it has read; the cache goes with the connection."""
    done = outages.run(node("node_redis.js"), outages.prepare(tmp_path), kill_at=[20])

    assert [*map(str, range(40))] == done.work
    assert [] == done.report["stale"]
    assert 60 <= done.report["hits"]


@pytest.mark.timeout(LARGE_TIMEOUT_S)
def test_socket_io(outages: Outages, tmp_path: Path) -> None:
    """Each packet of one server reaches the client of another one, who gets what was sent while it was away, too."""
    dose = Dose()
    done = outages.run(node("socket_io.js"), outages.prepare(tmp_path) | dose.environment, dose.kill_at)

    assert {"recovered": True} == done.report
    assert again(dose.entries + 6, done) == sorted(map(int, done.work))

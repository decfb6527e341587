"""Libraries of Python through a kill of their server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.applications.outages import LARGE_TIMEOUT_S, Dose, Outages, again, python
from tests.wire.servers import valkey


@pytest.mark.parametrize("library", ["redis", "redis_lock"])
def test_locks_exclude(outages: Outages, tmp_path: Path, library: str) -> None:
    """Whoever had the lock before the kill has it after it, everybody gets a turn, and the lock is free in the end."""
    done = outages.run([*python("locks"), library], outages.prepare(tmp_path), kill_at=[15])

    assert {"overlaps": [], "free": True} == done.report
    assert [f"{name} {turn}" for name in "abcd" for turn in range(10)] == sorted(done.work)


@pytest.mark.parametrize("library", ["redis", "redis_lock"])
def test_a_lock_that_is_lost_is_found(tmp_path: Path, library: str) -> None:
    """A server that forgets its locks when it is killed is found out."""
    with valkey(tmp_path, durable=False) as server:
        outages = Outages("forgetful", server, kills=True)
        done = outages.run([*python("locks"), library], outages.prepare(tmp_path), kill_at=[15])

    assert 0 < len(done.report["overlaps"])


def test_rate_limits_hold(outages: Outages, tmp_path: Path) -> None:
    """Limits in a Flask application: nobody gets more than the limit, and each client loses one request at most."""
    done = outages.run(python("rate_limits"), outages.prepare(tmp_path), kill_at=[30])

    allowed = Counter(done.work)
    assert [429, 429, 429] == done.report["refused"]
    for name in ("fixed", "moving", "sliding"):
        assert 40 - 3 * done.outages <= allowed[name] <= 40


def test_dramatiq(outages: Outages, tmp_path: Path) -> None:
    """Each message is worked on, also what is retried or delayed; without a kill just once."""
    done = outages.run(python("dramatiq_actors"), outages.prepare(tmp_path), kill_at=[20, 40])

    assert {"done": True} == done.report
    assert again(60, done) == sorted(map(int, done.work))


def test_saq(outages: Outages, tmp_path: Path) -> None:
    """Each job is worked on at least once, also what is retried or scheduled, and none is left.

    In an outage its sweeper may lose the one that it has in hand: that is enqueued again.
    """
    done = outages.run(python("saq_jobs"), outages.prepare(tmp_path), kill_at=[30])

    assert [0, 0, 0] == done.report["left"]
    assert done.report["again"] <= done.outages
    assert set(range(60)) == set(map(int, done.work))


def test_channels(outages: Outages, tmp_path: Path) -> None:
    """Messages to a channel and to a group reach whom they are for, but for one that a consumer was just given."""
    done = outages.run(python("channel_layers"), outages.prepare(tmp_path), kill_at=[40])

    assert done.report["lost"] <= 3 * done.outages
    assert {f"{name} {number}" for name in ("channel", "first", "second") for number in range(30)} == set(done.work)
    assert done.outages or len(done.work) == 90


def test_cacheops(outages: Outages, tmp_path: Path) -> None:
    """No query of Django answers from a cache that is older than the last change, and most are answered by caches."""
    done = outages.run(python("cached_queries"), outages.prepare(tmp_path), kill_at=[20])

    assert [] == done.report["stale"]
    assert 60 <= done.report["hits"]


def test_celery_and_redbeat(outages: Outages, tmp_path: Path) -> None:
    """At most the task that a worker was just given is lost, and done when sent again; RedBeat's schedule goes on."""
    done = outages.run(python("celery_tasks"), outages.prepare(tmp_path), kill_at=[15])

    works = [line for line in done.work if line != "beat"]
    assert done.report["lost"] <= done.outages
    assert again(40, done._replace(work=works)) == sorted(map(int, works))


def test_huey(outages: Outages, tmp_path: Path) -> None:
    """At most what its threads were just given is lost, and done at the second time.

    Two workers are given one each. The scheduler takes all that are due, of nine, and loses what it cannot enqueue.
    """
    done = outages.run(python("huey_tasks"), outages.prepare(tmp_path), kill_at=[25])

    assert done.report["lost"] <= (2 + 9) * done.outages
    assert again(60, done) == sorted(map(int, done.work))


def test_rq(outages: Outages, tmp_path: Path) -> None:
    """At most the job that the worker was just given is lost, and done at the second time."""
    done = outages.run(python("rq_jobs"), outages.prepare(tmp_path), kill_at=[10])

    assert done.report["lost"] <= done.outages
    assert again(30, done) == sorted(map(int, done.work))


@pytest.mark.timeout(LARGE_TIMEOUT_S)
def test_stream_consumers(outages: Outages, tmp_path: Path) -> None:
    """redis-py's groups of consumers: each entry is worked on and acknowledged; without a kill just once."""
    dose = Dose()
    done = outages.run(python("stream_consumers"), outages.prepare(tmp_path) | dose.environment, dose.kill_at)

    assert {"length": dose.entries, "pending": 0, "read": dose.entries, "lag": 0} == done.report
    assert again(dose.entries, done) == sorted(map(int, done.work))


@pytest.mark.timeout(LARGE_TIMEOUT_S)
def test_taskiq(outages: Outages, tmp_path: Path) -> None:
    """Its stream broker: each task is worked on and acknowledged, without a kill just once, and has its result.

    A result that a worker cannot save in the outage is lost: it works on four tasks at once.
    """
    dose = Dose()
    done = outages.run(python("taskiq_tasks"), outages.prepare(tmp_path) | dose.environment, dose.kill_at)

    results = [number for number in done.report["results"] if number is not None]
    assert 0 == done.report["pending"]
    assert sorted(set(results)) == results
    assert dose.entries - 4 * done.outages <= len(results)
    assert again(dose.entries, done) == sorted(map(int, done.work))


@pytest.mark.timeout(LARGE_TIMEOUT_S)
def test_faststream(outages: Outages, tmp_path: Path) -> None:
    """Its subscribers of a stream: each message is worked on and acknowledged; without a kill just once."""
    dose = Dose()
    done = outages.run(python("faststream_subscribers"), outages.prepare(tmp_path) | dose.environment, dose.kill_at)

    assert {"pending": 0, "lag": 0} == done.report
    assert again(dose.entries, done) == sorted(map(int, done.work))

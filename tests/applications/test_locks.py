"""redis-py's Lock, which many applications use."""

from __future__ import annotations

import redis

from tests.applications.conftest import Server


def test_lock(server: Server) -> None:
    """A lock is held by one, extended, taken anew and released by scripts, and by nobody who does not hold it."""
    with redis.Redis(port=server.port, db=7) as client:
        client.flushdb()
        lock = client.lock("lock", timeout=100)
        first = lock.acquire(blocking=False)
        second = client.lock("lock").acquire(blocking=False)
        extended = lock.extend(100)
        extended_ms = client.pttl("lock")
        renewed = lock.reacquire()
        renewed_ms = client.pttl("lock")
        lock.release()
        third = client.lock("lock").acquire(blocking=False)

    assert [True, False, True, True, True] == [first, second, extended, renewed, third]
    assert 0 < renewed_ms <= 100_000 < extended_ms <= 200_000

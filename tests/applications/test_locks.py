"""redis-py's Lock, which many applications use."""

from __future__ import annotations

import redis

from tests.applications.conftest import Server


def test_lock(server: Server) -> None:
    """A lock is taken by one, and extended and released by scripts."""
    with redis.Redis(port=server.port, db=7) as client:
        client.flushdb()
        lock = client.lock("lock", timeout=100)
        first = lock.acquire(blocking=False)
        second = client.lock("lock").acquire(blocking=False)
        extended = lock.extend(10)
        lock.release()
        third = client.lock("lock").acquire(blocking=False)

    assert [True, False, True, True] == [first, second, extended, third]

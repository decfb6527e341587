"""redis-py's Lock, which many applications use."""

from __future__ import annotations

from typing import Any

import redis

from tests.applications.conftest import Server

REFUSED = "unknown command 'EVALSHA'"
LACKS: dict[str, Any] = {
    "oracle": {"release": None, "extend": True},
    "slotlog": {"release": REFUSED, "extend": REFUSED},
}


def test_lock(server: Server) -> None:
    """A lock is taken by one and expires; releasing or extending it takes a script."""
    with redis.Redis(port=server.port, db=7) as client:
        client.flushdb()
        lock = client.lock("lock", timeout=100)
        first = lock.acquire(blocking=False)
        second = client.lock("lock").acquire(blocking=False)
        seen = {"extend": _attempt(lambda: lock.extend(10)), "release": _attempt(lock.release)}

    assert [True, False] == [first, second]
    assert LACKS[server.name] == seen


def _attempt(step: Any) -> Any:
    try:
        return step()
    except redis.ResponseError as error:
        return str(error).partition(", with args")[0]

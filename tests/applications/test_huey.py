"""Huey's consumer, on lists and on sorted sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.applications.conftest import Server
from tests.applications.programs import Worker, seen_by

SEEN: dict[str, Any] = {
    "result": 5,
    "error": "ZeroDivisionError('division by zero')",
    "retries": 3,
    "delay": 7,
    "retry_delay": "second time",
    "lock": "alone",
    "chain": [3, 6],
    "map": [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38],
    "revoked": [True, True, False],
    "put": [None, "value"],
    "put_if_empty": [True, False],
    "left": [0, 0],
}


@pytest.mark.parametrize(("storage", "db"), [("RedisHuey", 2), ("PriorityRedisExpireHuey", 3)])
def test_consumer(server: Server, tmp_path: Path, storage: str, db: int) -> None:
    """The consumer runs tasks, chains, retries, locks and what is scheduled, from a list and from a sorted set."""
    url = server.url(db)
    command = ["huey_consumer", "tests.applications.huey_tasks.tasks.queue", "--workers", "2"]
    with Worker(command, url, tmp_path, HUEY_CLASS=storage):
        seen = seen_by("huey_tasks", url, HUEY_CLASS=storage)

    assert {"seen": SEEN} == seen

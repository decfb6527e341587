"""Celery's worker: the server is its broker and its result backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.applications.conftest import Server
from tests.applications.programs import Worker, seen_by

SEEN: dict[str, Any] = {
    "result": 5,
    "error": "ZeroDivisionError('division by zero')",
    "retries": 2,
    "countdown": 3,
    "priority": 7,
    "chain": 6,
    "group": [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38],
    "ping": [[{"ok": "pong"}]],
    "forget": [2, None, "PENDING"],
    "chord": 20,
    "abandoned": ["task", "task", True],
    "expiring_queue": "expiring",
}


def test_worker(server: Server, tmp_path: Path) -> None:
    """A worker runs tasks, retries, chains, groups and chords, answers over pub/sub, and gets what another one left."""
    url = server.url(5)
    command = ["celery", "--app", "tests.applications.celery_tasks.tasks", "worker", "--concurrency", "2"]
    with Worker(command, url, tmp_path):
        seen = seen_by("celery_tasks", url)

    assert {"seen": SEEN} == seen

"""RQ's worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.applications.conftest import Server
from tests.applications.programs import Worker, seen_by

WORKS: dict[str, Any] = {
    "result": 5,
    "retries": "third time",
    "depends_on": [3, 30],
    "enqueue_in": 11,
    "unique": 8,
    "rate_limit": [1, 2, 3],
    "enqueue_many": [0, 2, 4],
    "meta": "Grüße",
    "cancel": ["canceled", 0, 1],
    "queues": ["default", "other"],
    "failed": "failed",
    "kept": [1, 2],
}


def test_worker(server: Server, tmp_path: Path) -> None:
    """A worker runs jobs, retries and a schedule; results and failures it keeps in streams."""
    url = server.url(4)
    command = ["rq", "worker", "--url", url, "--with-scheduler"]
    with Worker(command, url, tmp_path) as worker:
        seen = seen_by("rq_jobs", url)
        worker.wait_for_end()

    assert {"works": WORKS} == seen

"""RQ: jobs that are enqueued while the server goes away, and enqueued again if they are lost."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import redis
from rq import Queue

from tests.applications.outage_programs.working import (
    POLL_S,
    URL,
    insist,
    note,
    noted,
    report,
    wait_for_outage,
    wait_until,
    worker,
)

JOBS: Final = 30
QUIET_S: Final = 3
queue: Final = Queue(connection=redis.Redis.from_url(URL))


def work(number: int) -> None:
    """Work."""
    time.sleep(POLL_S)
    note(str(number))


def main() -> None:
    """Enqueue jobs; then those again of which nothing came. A worker that is busy in the outage ends."""
    command = ("rq.cli", "worker", "--url", URL, "--results-ttl", "0", "--quiet")
    with worker(*command, may_end=True):
        for number in range(JOBS):
            insist(partial(_enqueue, number))
            time.sleep(POLL_S)
        wait_for_outage()
    with worker(*command):
        wait_until(_is_quiet)
        lost = sorted(set(range(JOBS)) - set(map(int, noted())))
        for number in lost:
            insist(partial(_enqueue, number))
        wait_until(lambda: len(set(noted())) == JOBS)
    report(lost=len(lost))


def _enqueue(number: int) -> Any:
    return queue.enqueue("tests.applications.outage_programs.rq_jobs.work", number)


def _is_quiet() -> bool:
    """Whether nothing waits, and nothing was done for a while."""
    before = len(noted())
    if insist(lambda: len(queue)):
        return False
    time.sleep(QUIET_S)
    return len(noted()) == before


if __name__ == "__main__":
    main()

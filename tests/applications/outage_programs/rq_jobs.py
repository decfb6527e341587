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
    is_quiet,
    make_up,
    note,
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
    """Enqueue jobs; then those again of which nothing came. A worker that is busy in the outage ends.

    One that is asked to stop loses the job that it has just taken: no other one does before RQ cleans up. So the first
    one is only asked when it is idle.
    """
    command = ("rq.cli", "worker", "--url", URL, "--results-ttl", "0", "--quiet")
    with worker(*command, may_end=True) as first:
        for number in range(JOBS):
            insist(partial(_enqueue, number))
            time.sleep(POLL_S)
        wait_for_outage()
        wait_until(lambda: first.poll() is not None or is_quiet(JOBS, lambda: len(queue), QUIET_S))
    with worker(*command):
        lost = make_up(JOBS, lambda number: insist(partial(_enqueue, number)), lambda: len(queue), QUIET_S)
    report(lost=lost)


def _enqueue(number: int) -> Any:
    return queue.enqueue("tests.applications.outage_programs.rq_jobs.work", number)


if __name__ == "__main__":
    main()

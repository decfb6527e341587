"""Asks a worker for jobs, and waits for what they report."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import redis
from rq import Queue, Retry
from rq import Worker as RqWorker
from rq.command import send_shutdown_command
from rq.rate_limit import RateLimit

from tests.applications.reporting import TIMEOUT_S, URL, report
from tests.applications.rq_jobs.jobs import DONE, add, divide, third_time_lucky, with_meta

connection = redis.Redis.from_url(URL)
queue = Queue(connection=connection)


def main() -> None:
    """Ask for every kind of job, report, and end the worker through its channel."""
    works = _works() | {"failed": _failed(), "kept": _kept()}
    (worker,) = RqWorker.all(connection)
    send_shutdown_command(connection, worker.name)
    report(works=works)


def _works() -> dict[str, Any]:
    seen: dict[str, Any] = {}
    queue.enqueue(add, 2, 3)
    seen["result"] = _done()

    queue.enqueue(third_time_lucky, retry=Retry(max=2))
    seen["retries"] = _done()

    first = queue.enqueue(add, 1, 2)
    queue.enqueue(add, 10, 20, depends_on=first)
    seen["depends_on"] = [_done(), _done()]

    queue.enqueue_in(dt.timedelta(seconds=1), add, 5, 6)
    seen["enqueue_in"] = _done()

    queue.enqueue(add, 4, 4, job_id="unique", unique=True)
    seen["unique"] = _done()

    limit = RateLimit("alone", concurrency=1)
    for number in range(3):
        queue.enqueue(add, number, 1, rate_limit=limit)
    seen["rate_limit"] = sorted(_done() for _ in range(3))

    queue.enqueue_many([Queue.prepare_data(add, (number, number)) for number in range(3)])
    seen["enqueue_many"] = [_done() for _ in range(3)]

    queue.enqueue(with_meta, meta={"note": "Grüße"})
    seen["meta"] = _done()

    other = Queue("other", connection=connection)
    canceled = other.enqueue(add, 0, 0)
    canceled.cancel()
    seen["cancel"] = [canceled.get_status(), len(other), other.canceled_job_registry.count]
    seen["queues"] = sorted(known.name for known in Queue.all(connection))
    return seen


def _failed() -> str:
    """The status of a job that failed, once the worker is busy with the next."""
    job = queue.enqueue(divide, 1, 0)
    queue.enqueue(add, 0, 0)
    _done()
    return str(job.get_status().value)


def _kept() -> list[int]:
    """What jobs have returned, of which the second is waited for."""
    jobs = [queue.enqueue(add, number, 1) for number in range(2)]
    results = [job.latest_result(timeout=TIMEOUT_S) for job in jobs]
    return [result.return_value for result in results]


def _done() -> Any:
    popped: Any = connection.blpop([DONE], TIMEOUT_S)
    return json.loads(popped[1])


if __name__ == "__main__":
    main()

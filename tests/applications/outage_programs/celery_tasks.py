"""Celery with a schedule that RedBeat keeps in the server: tasks that are sent while the server goes away."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

from celery import Celery, Task
from kombu.exceptions import OperationalError

from tests.applications.outage_programs.working import (
    AWAY,
    POLL_S,
    URL,
    insist,
    make_up,
    note,
    noted,
    report,
    wait_for_outage,
    wait_until,
    worker,
)

TASKS: Final = 40
BEAT_S: Final = 0.5
VISIBLE_S: Final = 2

app: Final = Celery("outages", broker=URL, set_as_current=True)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,  # a task is done again if the worker cannot say that it is done
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": VISIBLE_S,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    redbeat_redis_url=URL,
    redbeat_redis_options={"retry_period": 60},
    beat_max_loop_interval=1,
    beat_schedule={"beat": {"task": "outages.beat", "schedule": BEAT_S}},
)


@app.task(name="outages.work", bind=True, max_retries=3)
def work(task: Task, number: int) -> None:
    """Work; every tenth task is retried."""
    time.sleep(POLL_S)
    if number % 10 == 0 and not task.request.retries:
        raise task.retry(countdown=0.1)
    note(str(number))


@app.task(name="outages.beat")
def beat() -> None:
    """Tell that the schedule goes on."""
    note("beat")


def main() -> None:
    """Send tasks; then those again of which nothing came: a worker may lose the task that it is just given.

    The beat ends in an outage, and a worker may end. Both are started anew, and the schedule goes on.
    """
    command = ("celery", "--app", __spec__.name)
    working = (*command, "worker", "--pool", "threads", "--concurrency", "2", "--loglevel", "WARNING")
    beating = (*command, "beat", "--scheduler", "redbeat.RedBeatScheduler", "--loglevel", "WARNING")
    with worker(*working, may_end=True), worker(*beating, may_end=True):
        for number in range(TASKS):
            insist(partial(_send, number), (*AWAY, OperationalError))
            time.sleep(POLL_S / 2)
        wait_for_outage()
    beats = noted().count("beat")
    with worker(*working), worker(*beating):
        wait_until(lambda: noted().count("beat") >= beats + 2)
        lost = make_up(TASKS, _send, lambda: 0, 3 * VISIBLE_S)
    report(lost=lost)


def _send(number: int) -> Any:
    return work.apply_async((number,), countdown=0.5 if number % 7 == 0 else None, retry=False)


if __name__ == "__main__":
    main()

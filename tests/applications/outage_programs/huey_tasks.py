"""Huey: tasks that are enqueued while the server goes away, and enqueued again if they are lost."""

from __future__ import annotations

import time
from functools import partial
from importlib import import_module
from typing import Any, Final

from huey import PriorityRedisExpireHuey

from tests.applications.outage_programs.working import (
    POLL_S,
    URL,
    insist,
    make_up,
    note,
    report,
    wait_for_outage,
    worker,
)

TASKS: Final = 60
QUIET_S: Final = 2
queue: Final = PriorityRedisExpireHuey("tasks", url=URL, results=False)


@queue.task(retries=1, context=True)
def work(number: int, task: Any = None) -> None:
    """Work; every tenth task fails at first."""
    time.sleep(POLL_S)
    if number % 10 == 0 and task is not None and task.retries:
        raise RuntimeError("not yet")
    note(str(number))


def main() -> None:
    """Enqueue tasks, some of them for later; then those again of which nothing came."""
    arguments = ("tests.applications.outage_programs.huey_tasks.queue", "--workers", "2", "--delay", "0.02")
    with worker("huey.bin.huey_consumer", *arguments):
        for number in range(TASKS):
            task = work.s(number, delay=0.5) if number % 7 == 0 else work.s(number)
            insist(partial(queue.enqueue, task))
            time.sleep(POLL_S / 2)
        wait_for_outage()
        lost = make_up(TASKS, lambda number: insist(partial(work, number)), _waiting, QUIET_S)
    report(lost=lost)


def _waiting() -> int:
    return int(queue.pending_count() + queue.scheduled_count())


if __name__ == "__main__":
    import_module(__spec__.name).main()  # a consumer knows a task by the name of its module

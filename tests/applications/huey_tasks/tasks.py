"""A Huey application on the kind of storage that HUEY_CLASS names."""

from __future__ import annotations

import os

import huey

from tests.applications.reporting import URL

queue = getattr(huey, os.environ["HUEY_CLASS"])("tasks", url=URL, notify_result=True)


@queue.task()
def add(left: int, right: int) -> int:
    """A task with a result."""
    return left + right


@queue.task()
def divide(left: int, right: int) -> float:
    """A task that may fail."""
    return left / right


@queue.task(retries=2, context=True)
def third_time_lucky(task: huey.api.Task) -> int:
    """A task that fails twice."""
    if task.retries:
        raise RuntimeError("not yet")
    return 3


@queue.task(retries=1, retry_delay=1, context=True)
def later(task: huey.api.Task) -> str:
    """A task that fails, and waits in the schedule for its second attempt."""
    if task.retries:
        raise RuntimeError("not yet")
    return "second time"


@queue.task()
@queue.lock_task("alone")
def alone() -> str:
    """A task that never runs beside itself."""
    return "alone"

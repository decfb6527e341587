"""A Celery application with one server as its broker and as its result backend, and no setting for it."""

from __future__ import annotations

from celery import Celery, Task

from tests.applications.reporting import URL

app = Celery("tests.applications.celery_tasks.tasks", broker=URL, backend=URL)


@app.task
def add(left: int, right: int) -> int:
    """A task with a result."""
    return left + right


@app.task
def total(numbers: list[int]) -> int:
    """The body of a chord."""
    return sum(numbers)


@app.task
def divide(left: int, right: int) -> float:
    """A task that may fail."""
    return left / right


@app.task(bind=True, max_retries=2, default_retry_delay=0)
def third_time_lucky(self: Task) -> int:
    """A task that fails twice; returns how often it was retried."""
    if self.request.retries < self.max_retries:
        raise self.retry()
    return int(self.request.retries)

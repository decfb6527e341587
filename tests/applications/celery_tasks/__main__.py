"""Asks a worker for tasks, and waits for their results."""

from __future__ import annotations

from typing import Any

from celery import chain, chord, group
from kombu import Connection, Exchange, Queue

from tests.applications.celery_tasks.tasks import add, app, divide, third_time_lucky, total
from tests.applications.reporting import TIMEOUT_S, URL, report


def main() -> None:
    """Ask for every kind of task, report."""
    forgotten = add.delay(1, 1)
    seen = {
        "result": _wait(add.delay(2, 3)),
        "error": repr(divide.delay(1, 0).get(timeout=TIMEOUT_S, propagate=False)),
        "retries": _wait(third_time_lucky.delay()),
        "countdown": _wait(add.apply_async((1, 2), countdown=0.5)),
        "priority": _wait(add.apply_async((3, 4), priority=9)),
        "chain": _wait(chain(add.s(1, 2), add.s(3)).apply_async()),
        "group": _wait(group(add.s(number, number) for number in range(20)).apply_async()),
        "ping": [list(answer.values()) for answer in app.control.ping(timeout=TIMEOUT_S, limit=1)],
        "forget": [_wait(forgotten), forgotten.forget(), forgotten.state],
        "chord": _wait(chord([add.s(number, number) for number in range(5)])(total.s())),
        "abandoned": _abandoned(),
        "expiring_queue": _expiring_queue(),
    }
    report(seen=seen)


def _abandoned() -> list[Any]:
    """A message that one consumer took and did not acknowledge, as another one gets it after the visibility timeout."""
    with Connection(URL, transport_options={"visibility_timeout": 0}) as first, Connection(URL) as second:
        queue = first.SimpleQueue("abandoned")
        queue.put("task")
        taken = queue.get(timeout=TIMEOUT_S)
        queue.channel.qos.restore_visible()
        again = second.SimpleQueue("abandoned").get(timeout=TIMEOUT_S)
        again.ack()
        return [taken.payload, again.payload, again.headers["redelivered"]]


def _expiring_queue() -> str:
    """What a worker declares for its events, and whoever controls it for the answers."""
    with Connection(URL) as connection:
        return str(Queue("expiring", Exchange("events"), expires=60, channel=connection.channel()).declare())


def _wait(result: Any) -> Any:
    return result.get(timeout=TIMEOUT_S)


if __name__ == "__main__":
    main()

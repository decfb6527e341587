"""Asks a worker for tasks, and waits for their results."""

from __future__ import annotations

from typing import Any

from celery import chain, chord, group
from celery.exceptions import TimeoutError as CeleryTimeoutError
from kombu import Connection, Exchange, Queue

from tests.applications.celery_tasks.tasks import add, app, divide, third_time_lucky, total
from tests.applications.reporting import TIMEOUT_S, URL, attempt, report

CHORD_TIMEOUT_S = 5


def main() -> None:
    """Ask for every kind of task, report."""
    lacks = {"chord": _chord(), "visibility": attempt(_visibility), "expiring_queue": attempt(_expiring_queue)}
    report(works=_works(), lacks=lacks)


def _works() -> dict[str, Any]:
    forgotten = add.delay(1, 1)
    return {
        "result": _wait(add.delay(2, 3)),
        "error": repr(divide.delay(1, 0).get(timeout=TIMEOUT_S, propagate=False)),
        "retries": _wait(third_time_lucky.delay()),
        "countdown": _wait(add.apply_async((1, 2), countdown=0.5)),
        "priority": _wait(add.apply_async((3, 4), priority=9)),
        "chain": _wait(chain(add.s(1, 2), add.s(3)).apply_async()),
        "group": _wait(group(add.s(number, number) for number in range(20)).apply_async()),
        "ping": [list(answer.values()) for answer in app.control.ping(timeout=TIMEOUT_S, limit=1)],
        "forget": [_wait(forgotten), forgotten.forget(), forgotten.state],
    }


def _chord() -> Any:
    try:
        return chord([add.s(number, number) for number in range(5)])(total.s()).get(timeout=CHORD_TIMEOUT_S)
    except CeleryTimeoutError as error:
        return str(error)


def _visibility() -> str:
    """What a worker without `ack_emulation=False` does when it starts, and every 100 seconds."""
    with Connection(URL) as connection:
        connection.channel().qos.restore_visible()
    return "looked for abandoned messages"


def _expiring_queue() -> str:
    """What a worker declares for its events, and whoever controls it for the answers, unless told otherwise."""
    with Connection(URL) as connection:
        return str(Queue("expiring", Exchange("events"), expires=60, channel=connection.channel()).declare())


def _wait(result: Any) -> Any:
    return result.get(timeout=TIMEOUT_S)


if __name__ == "__main__":
    main()

"""Asks a consumer for tasks, and waits for their results."""

from __future__ import annotations

import time
from typing import Any

from huey.exceptions import ResultTimeout, TaskException
from huey.storage import RedisStorage

from tests.applications.huey_tasks.tasks import add, alone, divide, later, queue, third_time_lucky
from tests.applications.reporting import TIMEOUT_S, URL, report

POLL_S = 0.05


def main() -> None:
    """Ask for every kind of task, report."""
    revoked = add.s(1, 1)
    queue.revoke(revoked)
    added = queue.put("name", "value")
    seen = {
        "result": _wait(add(2, 3)),
        "error": _error(divide(1, 0)),
        "retries": _at_last(third_time_lucky()),
        "delay": _wait(add.schedule((3, 4), delay=1)),
        "retry_delay": _at_last(later()),
        "lock": _wait(alone()),
        "chain": _wait(queue.enqueue(add.s(1, 2).then(add, 3))),
        "map": _wait(add.map([(number, number) for number in range(20)])),
        "revoked": [queue.is_revoked(revoked), queue.restore(revoked), queue.is_revoked(revoked)],
        "put": [added, queue.get("name", peek=True)],
        "put_if_empty": _put_if_empty(),
        "left": [queue.pending_count(), queue.scheduled_count()],
    }
    report(seen=seen)


def _wait(result: Any) -> Any:
    return result.get(blocking=True, timeout=TIMEOUT_S)


def _at_last(result: Any) -> Any:
    """The result of a task that is retried: until then, there is the error of its last attempt.

    Huey tells of each attempt in a list. An error may be read before its notice is, which then ends the wait for the
    next attempt at once, as if its time were out.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return _wait(result)
        except (TaskException, ResultTimeout):
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
            result.reset()


def _error(result: Any) -> str:
    try:
        return str(_wait(result))
    except TaskException as error:
        return str(error.metadata["error"])


def _put_if_empty() -> list[bool]:
    """Rate limits and locks that expire rest on this, where results are fields of a hash."""
    storage = RedisStorage("apart", url=URL)
    return [storage.put_if_empty("field", b"value", ttl=100) for _ in range(2)]


if __name__ == "__main__":
    main()

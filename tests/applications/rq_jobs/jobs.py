"""Jobs that push what they found to a list of their own; RQ itself keeps results in a stream."""

from __future__ import annotations

import json
from typing import Any

from rq import get_current_job

DONE = "done"


def add(left: int, right: int) -> int:
    """Report a sum."""
    _report(left + right)
    return left + right


def divide(left: int, right: int) -> None:
    """Fail, if right is 0."""
    _report(left / right)


def third_time_lucky() -> None:
    """Fail twice."""
    job = get_current_job()
    if job.retries_left:
        raise RuntimeError("not yet")
    _report("third time")


def with_meta() -> None:
    """Report what was given beside the arguments."""
    _report(get_current_job().get_meta()["note"])


def _report(value: Any) -> None:
    get_current_job().connection.rpush(DONE, json.dumps(value))

"""Shared by the applications' programs: they take a URL and print a report as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import redis

URL = os.environ["APPLICATION_URL"]
TIMEOUT_S = 30
"""How long to wait for a worker."""


def report(**seen: Mapping[str, Any]) -> None:
    """Write what was seen, which is what the test compares."""
    json.dump(seen, sys.stdout)


def attempt(step: Callable[[], Any]) -> Any:
    """What the step gives, or the error that the server answers, without the arguments that it repeats."""
    try:
        return step()
    except redis.ResponseError as error:
        return str(error).partition(", with args")[0]

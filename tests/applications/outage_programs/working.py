"""Shared by these programs: what they have done, and when the server was away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import redis

URL: Final = os.environ["APPLICATION_URL"]
WORK: Final = Path(os.environ["WORK"])
OUTAGES: Final = Path(os.environ["OUTAGES"])
ENTRIES: Final = int(os.environ.get("ENTRIES", "0"))
KILLS: Final = int(os.environ.get("KILLS", "0"))
TIMEOUT_S: Final = 60
POLL_S: Final = 0.02


def note(line: str) -> None:
    """Append a piece of work, in one write, as many processes do it."""
    descriptor = os.open(WORK, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def noted() -> list[str]:
    """All pieces of work so far."""
    return WORK.read_text().splitlines()


def numbers() -> set[int]:
    """The pieces of work so far that have a number."""
    return {int(line) for line in noted() if line.isdigit()}


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until it holds. Raises TimeoutError."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {len(noted())} pieces of work")
        time.sleep(POLL_S)


def wait_for_outage(number: int = 1) -> None:
    """Wait until the server has been away, and is back, for the `number`-th time."""
    wait_until(lambda: len(OUTAGES.read_text().splitlines()) >= number)


AWAY: Final[tuple[type[Exception], ...]] = (redis.ConnectionError, redis.TimeoutError)
"""What redis-py raises while the server is away."""


def insist(step: Callable[[], Any], away: tuple[type[Exception], ...] = AWAY) -> Any:
    """The result of the step, which is repeated while the server is away; `away` is what it raises then."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return step()
        except away:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def is_quiet(count: int, waiting: Callable[[], int], quiet_s: float) -> bool:
    """Whether all of `count` pieces of work are done, or none waits and none is done for so long; see `make_up`."""
    before = len(numbers())
    if before == count:
        return True
    if insist(waiting):
        return False
    time.sleep(quiet_s)
    return len(numbers()) == before


def make_up(count: int, send: Callable[[int], Any], waiting: Callable[[], int], quiet_s: float) -> int:
    """Send those of `count` pieces of work again that are lost, and wait until all are done; returns how many.

    Args:
        count: of numbered pieces of work.
        send: sends one.
        waiting: how many wait for a worker; it may raise that the server is away.
        quiet_s: lost is what is not done when none waits, and none has been done for so long.
    """
    wait_until(lambda: is_quiet(count, waiting, quiet_s))
    lost = sorted(set(range(count)) - numbers())
    for number in lost:
        send(number)
    wait_until(lambda: len(numbers()) == count)
    return len(lost)


@contextmanager
def worker(module: str, *arguments: str, may_end: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own: `python -m MODULE`. In the end it is asked to stop, unless it has ended."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as process:
        try:
            yield process
            process.terminate()
            code = process.wait(TIMEOUT_S)
        finally:
            process.kill()
    if code not in {0, -signal.SIGTERM} and not may_end:  # it may be asked before it listens to that
        raise RuntimeError(f"{' '.join(command)} ended with {code}")


def report(**seen: Any) -> None:
    """Print what was seen."""
    json.dump(seen, sys.stdout)

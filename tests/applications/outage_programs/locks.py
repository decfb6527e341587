"""Threads that each want the same lock again and again: of redis-py, or of python-redis-lock.

Whoever has the lock makes a file that must not be there. One of them has it during the outage.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import redis
import redis_lock
from redis.exceptions import LockNotOwnedError

from tests.applications.outage_programs.working import (
    POLL_S,
    TIMEOUT_S,
    URL,
    WORK,
    insist,
    note,
    noted,
    report,
    wait_for_outage,
)

THREADS: Final = 4
TURNS: Final = 10
OUTAGE_AT: Final = 15
INSIDE: Final = WORK.with_name("inside")
OTHERS_TRY_S: Final = 0.3

LOCKS: Final[dict[str, tuple[Callable[[redis.Redis], Any], type[Exception]]]] = {
    "redis": (lambda client: client.lock("lock", timeout=TIMEOUT_S, sleep=POLL_S), LockNotOwnedError),
    "redis_lock": (lambda client: redis_lock.Lock(client, "lock", expire=TIMEOUT_S), redis_lock.NotAcquired),
}


def main() -> None:
    """Let the threads take turns."""
    make, is_gone = LOCKS[sys.argv[1]]
    overlaps: list[str] = []
    threads = [threading.Thread(target=_take_turns, args=(name, make, is_gone, overlaps)) for name in "abcd"[:THREADS]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with redis.Redis.from_url(URL) as client:
        report(overlaps=overlaps, free=insist(lambda: make(client).acquire(blocking=False)))


def _take_turns(name: str, make: Callable[[redis.Redis], Any], is_gone: type[Exception], overlaps: list[str]) -> None:
    with redis.Redis.from_url(URL) as client:
        for turn in range(TURNS):
            lock = make(client)
            insist(lock.acquire)
            try:
                os.close(os.open(INSIDE, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                overlaps.append(f"{name} {turn}")
            note(f"{name} {turn}")
            if len(noted()) == OUTAGE_AT:
                wait_for_outage()
                time.sleep(OTHERS_TRY_S)
            INSIDE.unlink(missing_ok=True)
            with contextlib.suppress(is_gone):  # the release before the outage was done, and not answered
                insist(lock.release)


if __name__ == "__main__":
    main()

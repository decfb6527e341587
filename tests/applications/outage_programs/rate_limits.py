"""A Flask application with rate limits of the library limits, and clients that want more."""

from __future__ import annotations

import threading
import time
from typing import Final

from flask import Flask, Response
from limits import parse
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

from tests.applications.outage_programs.working import POLL_S, URL, note, report, wait_for_outage

LIMIT: Final = parse("40/day")
CLIENTS: Final = 3
storage: Final = RedisStorage(URL)
LIMITERS: Final = {
    "fixed": FixedWindowRateLimiter(storage),
    "moving": MovingWindowRateLimiter(storage),
    "sliding": SlidingWindowCounterRateLimiter(storage),
}
application: Final = Flask("limits")


@application.get("/<name>")
def page(name: str) -> Response:
    """A page that says whether it could be had."""
    return Response(status=200 if LIMITERS[name].hit(LIMIT, name) else 429)


def main() -> None:
    """Ask until everything is refused, and once more after that."""
    threads = [threading.Thread(target=_ask, args=(name,)) for name in LIMITERS for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    wait_for_outage()
    for thread in threads:
        thread.join()
    with application.test_client() as client:
        report(refused=[client.get(f"/{name}").status_code for name in LIMITERS])


def _ask(name: str) -> None:
    """Ask for a page until it is refused. What a client asks when the server goes away may count and be no page."""
    with application.test_client() as client:
        while (status := client.get(f"/{name}").status_code) != 429:
            if status == 200:
                note(name)
            time.sleep(POLL_S)


if __name__ == "__main__":
    main()

"""Dramatiq: actors whose messages are sent while the server goes away; a worker is a process of its own."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.applications.outage_programs.working import (
    AWAY,
    POLL_S,
    URL,
    insist,
    note,
    numbers,
    report,
    wait_for_outage,
    wait_until,
    worker,
)

MESSAGES: Final = 50
RETRIED: Final = 10
broker: Final = RedisBroker(url=URL, heartbeat_timeout=1000, maintenance_chance=1_000_000)
dramatiq.set_broker(broker)


@dramatiq.actor(min_backoff=10, max_backoff=100)
def work(number: int) -> None:
    """Work; the last messages fail at first, and are retried."""
    time.sleep(POLL_S)
    message = dramatiq.middleware.CurrentMessage.get_current_message()
    if number >= MESSAGES and message is not None and not message.options.get("retries"):
        raise RuntimeError("not yet")
    note(str(number))


broker.add_middleware(dramatiq.middleware.CurrentMessage())


def main() -> None:
    """Send messages, some of them with a delay, and wait until all of them are done.

    A worker that loses its connection drops the delayed messages that it holds in memory. They are its own until its
    heartbeat is old, so it is started anew. It drops a retry that it cannot send, so none is due during an outage.
    """
    command = ["dramatiq", __spec__.name, "--processes", "1", "--threads", "4"]
    with worker(*command):
        for number in range(MESSAGES):
            insist(partial(_send, number), (*AWAY, dramatiq.errors.ConnectionError))
            time.sleep(POLL_S / 2)
        wait_for_outage(2)
    with worker(*command):
        for number in range(MESSAGES, MESSAGES + RETRIED):
            _send(number)
        wait_until(lambda: len(numbers()) == MESSAGES + RETRIED)
        wait_until(lambda: not insist(lambda: broker.client.hlen("dramatiq:default.msgs")))
    report(done=True)


def _send(number: int) -> None:
    message = work.message_with_options(args=(number,))
    broker.enqueue(message, delay=500 if number % 7 == 0 else None)


if __name__ == "__main__":
    main()

"""redis-py: entries that are added while the server goes away, and a group of consumers that acknowledges them."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Final

import redis

from tests.applications.outage_programs.working import (
    AWAY,
    ENTRIES,
    KILLS,
    POLL_S,
    URL,
    insist,
    note,
    noted,
    report,
    wait_for_outage,
    wait_until,
)

STREAM, GROUP = "work", "workers"
_BLOCK_MS: Final = 200

done = threading.Event()


def main() -> None:
    """Add entries, each with an id of its own, so that one which was not answered is added once."""
    client = redis.Redis.from_url(URL)
    insist(partial(_create_group, client))
    consumers = [threading.Thread(target=_consume, args=(name,)) for name in ("ann", "bob", "cy")]
    for consumer in consumers:
        consumer.start()
    for number in range(ENTRIES):
        insist(partial(_add, client, number))
    wait_for_outage(KILLS)
    wait_until(lambda: len(set(noted())) == ENTRIES)
    wait_until(lambda: insist(lambda: client.xpending(STREAM, GROUP))["pending"] == 0)
    done.set()
    for consumer in consumers:
        consumer.join()
    (group,) = client.xinfo_groups(STREAM)
    report(length=client.xlen(STREAM), pending=group["pending"], read=group["entries-read"], lag=group["lag"])


def _create_group(client: Any) -> None:
    try:
        client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    except redis.ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise


def _add(client: Any, number: int) -> None:
    try:
        client.xadd(STREAM, {"number": number}, id=f"{number + 1}-0")
    except redis.ResponseError as error:
        if "equal or smaller" not in str(error):  # it was added, and not answered
            raise


def _consume(name: str) -> None:
    """Work on what is new; at the start and after an outage first on what this consumer was given and has not done."""
    client = redis.Redis.from_url(URL)
    above = "0"
    while not done.is_set():
        try:
            answer: Any = client.xreadgroup(GROUP, name, {STREAM: above}, count=5, block=_BLOCK_MS)
            entries = [entry for _, entries in answer for entry in entries]
            for entry_id, fields in entries:
                note(fields[b"number"].decode())
                client.xack(STREAM, GROUP, entry_id)
            if not entries:
                above = ">"
        except AWAY:
            above = "0"
            done.wait(POLL_S)


if __name__ == "__main__":
    main()

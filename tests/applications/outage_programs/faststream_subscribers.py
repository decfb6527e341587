"""FastStream: messages that are published to a stream while the server goes away, and subscribers of a group."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import redis
from faststream.redis import RedisBroker, StreamSub

from tests.applications.outage_programs.working import (
    AWAY,
    ENTRIES,
    KILLS,
    POLL_S,
    URL,
    insist,
    note,
    numbers,
    report,
    wait_for_outage,
    wait_until,
)

STREAM, GROUP = "messages", "workers"
_POLL_MS: Final = 100
_IDLE_MS: Final = 2000
broker: Final = RedisBroker(URL, logger=None)


@broker.subscriber(stream=StreamSub(STREAM, group=GROUP, consumer="ann", polling_interval=_POLL_MS))
@broker.subscriber(
    stream=StreamSub(STREAM, group=GROUP, consumer="bob", polling_interval=_POLL_MS, min_idle_time=_IDLE_MS)
)
async def work(number: int) -> None:
    """Work: one subscriber gets what is new, the other one what was given to anybody a while ago and is not done."""
    await asyncio.sleep(POLL_S / 4)
    note(str(number))


async def main() -> None:
    """Publish messages, and wait until all of them are worked on and acknowledged."""
    client = redis.Redis.from_url(URL)
    async with broker:
        await broker.start()
        for number in range(ENTRIES):
            await _insist(number)
            await asyncio.sleep(POLL_S / 2)
        await asyncio.to_thread(wait_for_outage, KILLS)
        await asyncio.to_thread(wait_until, lambda: len(numbers()) == ENTRIES and not _group(client)["pending"])
    group = _group(client)
    report(pending=group["pending"], lag=group["lag"])


async def _insist(number: int) -> None:
    """Publish a message, perhaps twice: nobody knows whether one was that was not answered."""
    while True:
        with contextlib.suppress(*AWAY):
            await broker.publish(number, stream=STREAM)
            return
        await asyncio.sleep(POLL_S)


def _group(client: Any) -> Any:
    (group,) = insist(lambda: client.xinfo_groups(STREAM))
    return group


if __name__ == "__main__":
    asyncio.run(main())

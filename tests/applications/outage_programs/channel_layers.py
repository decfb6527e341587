"""channels_redis: messages to a channel and to a group, while the server goes away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from channels_redis.core import RedisChannelLayer

from tests.applications.outage_programs.working import (
    AWAY,
    POLL_S,
    URL,
    note,
    noted,
    report,
    wait_for_outage,
    wait_until,
)

MESSAGES: Final = 30
QUIET_S: Final = 6  # longer than the layer waits for a message


async def main() -> None:
    """Send to a channel and to a group of two; then that again which was lost: a consumer may lose what it is given."""
    layer = RedisChannelLayer(hosts=[URL])
    channels = {"channel": "channel", "first": await layer.new_channel(), "second": await layer.new_channel()}
    for name in ("first", "second"):
        await layer.group_add("group", channels[name])
    consumers = [asyncio.create_task(_receive(layer, channel, name)) for name, channel in channels.items()]
    for number in range(MESSAGES):
        await _insist(partial(layer.send, "channel", _message(number)))
        await _insist(partial(layer.group_send, "group", _message(number)))
        await asyncio.sleep(POLL_S)
    await asyncio.to_thread(wait_for_outage)
    await asyncio.to_thread(wait_until, _is_quiet)
    lost = [(name, number) for name in channels for number in range(MESSAGES) if f"{name} {number}" not in noted()]
    for name, number in lost:
        await layer.send(channels[name], _message(number))
    await asyncio.to_thread(wait_until, lambda: len(set(noted())) == len(channels) * MESSAGES)
    report(lost=len(lost))
    sys.stdout.flush()
    os._exit(len([consumer for consumer in consumers if consumer.done()]))  # they go on waiting for messages


def _message(number: int) -> dict[str, Any]:
    return {"type": "work", "number": number}


def _is_quiet() -> bool:
    """Whether nothing was received for a while, or everything was."""
    before = len(noted())
    if len(set(noted())) < 3 * MESSAGES:
        time.sleep(QUIET_S)
    return len(noted()) == before


async def _receive(layer: RedisChannelLayer, channel: str, name: str) -> None:
    while True:
        message = await _insist(partial(layer.receive, channel))
        note(f"{name} {message['number']}")


async def _insist(step: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        with contextlib.suppress(*AWAY):
            return await step()
        await asyncio.sleep(POLL_S)


if __name__ == "__main__":
    asyncio.run(main())

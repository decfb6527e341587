"""Errors of commands that are not done when a worker starts or stops, or their partition is closed.

Of one that comes too early or too late nothing was done, and it may be tried again. Clients of a cluster wait a moment
after CLUSTERDOWN, ask again who owns what, and send the command once more: redis-py, go-redis and ioredis do so. Of a
standalone server they know LOADING so; in a cluster redis-py raises it. Redis has CLUSTERDOWN there too: a node that
loads does not hold its cluster for sound yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

from engine.errors import CommandError

READ_ONLY: Final = CommandError("READONLY You can't write against a read only replica.")
WAITS_FOR_GROUP: Final = CommandError("LOADING slotlog waits for what its group says")
CLOSED: Final = CommandError("ERR the partition was closed")
MOVED_AWAY: Final = "UNBLOCKED another worker owns the partition now"
GIVEN_AWAY: Final = CommandError("CLUSTERDOWN another worker owns the partition now; nothing was written")
_AT_WORK_SECONDS: Final = 4.0
LOADING: Final = "LOADING "
"""What refusals of a partition begin with that will be served soon."""


def stopping(partitions: int) -> CommandError:
    """The error of a worker of a topic with so many partitions."""
    code = "CLUSTERDOWN" if partitions > 1 else "LOADING"
    return CommandError(f"{code} slotlog is shutting down; nothing was written")


def about_keys(refusal: CommandError, partitions: int) -> CommandError:
    """The error of a command with keys, where a write pipeline refuses it so."""
    if partitions > 1 and refusal.message.startswith(LOADING):
        return CommandError(f"CLUSTERDOWN {refusal.message.removeprefix(LOADING)}")
    return refusal


def in_the_log(reason: str) -> CommandError:
    """The error of a write that is durable and was not applied yet."""
    return CommandError(f"UNKNOWNOUTCOME the write is in the log and not applied yet: {reason}")


async def finish(is_at_work: Callable[[], bool]) -> None:
    """Wait until what clients have written, and reads that are suspended, are answered; for some seconds at most."""
    until = monotonic() + _AT_WORK_SECONDS
    while is_at_work():
        if monotonic() > until:
            return
        await asyncio.sleep(0.005)

"""What a client hears whose command is not done when a worker ends, or its partition is closed.

Of one that comes too late nothing was done, and it may be tried again. Clients of a cluster wait a moment after
CLUSTERDOWN, ask again who owns what, and send the command once more: redis-py, go-redis and ioredis by themselves. Of
a standalone server they know LOADING so.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from engine.errors import CommandError

if TYPE_CHECKING:
    from ingest.resp.server import Server

CLOSED: Final = CommandError("ERR the partition was closed")
_AT_WORK_SECONDS: Final = 4.0


def stopping(partitions: int) -> CommandError:
    """The error of a worker of a topic with so many partitions."""
    code = "CLUSTERDOWN" if partitions > 1 else "LOADING"
    return CommandError(f"{code} slotlog is shutting down; nothing was written")


def in_the_log(reason: str) -> CommandError:
    """The error of a write that is durable and was not applied yet."""
    return CommandError(f"UNKNOWNOUTCOME the write is in the log and not applied yet: {reason}")


async def finish(server: Server) -> None:
    """Wait until what clients have written, and reads that are suspended, are answered; for some seconds at most."""
    lanes, sessions = server.lanes.values(), server.sessions.values()
    until = monotonic() + _AT_WORK_SECONDS
    while any(lane.pending_events for lane in lanes) or any(each.inbox.is_suspended for each in sessions):
        if monotonic() > until:
            return
        await asyncio.sleep(0.005)

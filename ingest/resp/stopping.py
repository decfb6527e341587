"""What a client hears whose command comes to a worker that ends: nothing was done, and it may be tried again.

Clients of a cluster wait a moment after CLUSTERDOWN, ask again who owns what, and send the command once more: redis-py,
go-redis and ioredis by themselves. Of a standalone server they know LOADING so.
"""

from __future__ import annotations

from engine.errors import CommandError


def stopping(partitions: int) -> CommandError:
    """The error of a worker of a topic with so many partitions."""
    code = "CLUSTERDOWN" if partitions > 1 else "LOADING"
    return CommandError(f"{code} slotlog is shutting down; nothing was written")

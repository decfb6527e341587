"""`maxmemory-clients`: limits the memory of all clients, and disconnects those that hold most."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from resp.resources.memory import memory_use

if TYPE_CHECKING:
    from resp.catalog.multi_queue import Queue
    from resp.settings.config import Config
    from resp.statistics.stats import Stats

_LEAST_BYTES: Final = 16 * 1024  # who holds less is no help

logger = structlog.get_logger(__name__)


class Evictable(Protocol):
    """A client and the memory that it holds.

    Attributes:
        no_evict: CLIENT NO-EVICT: it may hold whatever it wants.
        query_bytes: of a command that is not complete yet.
        pending_reply_bytes: of replies that wait for earlier ones.
        transaction: its open MULTI.
    """

    id: int
    no_evict: bool
    query_bytes: int
    pending_reply_bytes: int
    transaction: Queue | None

    @property
    def backlog_bytes(self) -> int:
        """Of commands that have not begun."""
        ...

    @property
    def output_bytes(self) -> int:
        """Of replies on their way to it."""
        ...

    def kill(self) -> None:
        """Close its connection now."""
        ...


def held_bytes(client: Evictable) -> int:
    """What is held for one client: of its input, and of its output."""
    queued = 0 if client.transaction is None else client.transaction.size
    replies = max(client.pending_reply_bytes, 0) + client.output_bytes
    return client.query_bytes + client.backlog_bytes + queued + replies


def evict(clients: Collection[Evictable], config: Config, stats: Stats) -> None:
    """Disconnect the clients that hold most, until the others hold no more than they may; `CLIENT NO-EVICT` ones stay.

    The process' own size is looked at first, which is quicker: clients cannot hold more than that.
    """
    limit = config["maxmemory-clients"]
    if not limit:
        return
    use = memory_use()
    most = limit if limit > 0 else use.system_bytes * -limit // 100
    if use.rss_bytes <= most:
        return
    held = {client: held_bytes(client) for client in clients}
    total = sum(held.values())
    for client in sorted(held, key=held.__getitem__, reverse=True):
        if total <= most or held[client] < _LEAST_BYTES:
            return
        if not client.no_evict:
            total -= held[client]
            stats.evicted_clients += 1
            logger.warning("client_evicted", client=client.id, held_bytes=held[client])
            client.kill()

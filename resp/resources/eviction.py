"""`maxmemory-clients`: limits the memory of all clients, and disconnects those that hold most."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from resp.resources.memory import memory_use

if TYPE_CHECKING:
    from resp.settings.config import Config
    from resp.statistics.stats import Stats

_LEAST_BYTES: Final = 16 * 1024  # who holds less is no help

logger = structlog.get_logger(__name__)


class Evictable(Protocol):
    """A client that holds memory.

    Attributes:
        no_evict: CLIENT NO-EVICT: it may hold whatever it wants.
    """

    id: int
    no_evict: bool

    @property
    def held_bytes(self) -> int:
        """Bytes held for the client: of its input and its output."""
        ...

    def kill(self) -> None:
        """Close its connection now."""
        ...


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
    held = {client: client.held_bytes for client in clients}
    total = sum(held.values())
    for client in sorted(held, key=held.__getitem__, reverse=True):
        if total <= most or held[client] < _LEAST_BYTES:
            return
        if not client.no_evict:
            total -= held[client]
            stats.evicted_clients += 1
            logger.warning("client_evicted", client=client.id, held_bytes=held[client])
            client.kill()

"""`maxmemory-clients`: limits the memory of all clients, and disconnects those that hold most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from resp.resources.memory import memory_use

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.server import Server

_LEAST_BYTES: Final = 16 * 1024  # who holds less is no help

logger = structlog.get_logger(__name__)


def held_bytes(session: Session) -> int:
    """What is held for one client: of its input, and of its output."""
    queued = 0 if session.transaction is None else session.transaction.size
    return (
        session.query_bytes
        + session.inbox.backlog_bytes
        + queued
        + max(session.pending_reply_bytes, 0)
        + session.output_bytes
    )


def evict(server: Server) -> None:
    """Disconnect the clients that hold most, until the others hold no more than they may; `CLIENT NO-EVICT` ones stay.

    The process' own size is looked at first, which is quicker: clients cannot hold more than that.
    """
    limit = server.config["maxmemory-clients"]
    if not limit:
        return
    use = memory_use()
    most = limit if limit > 0 else use.system_bytes * -limit // 100
    if use.rss_bytes <= most:
        return
    held = {session: held_bytes(session) for session in server.sessions.values()}
    total = sum(held.values())
    for session in sorted(held, key=held.__getitem__, reverse=True):
        if total <= most or held[session] < _LEAST_BYTES:
            return
        if not session.no_evict:
            total -= held[session]
            server.stats.evicted_clients += 1
            logger.warning("client_evicted", client=session.id, held_bytes=held[session])
            session.kill()

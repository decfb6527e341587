"""MONITOR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import CommandError
from engine.values.replies import OK, Reply
from resp.catalog.server_registry import server_command
from resp.wire.server_replies import NO_REPLY

if TYPE_CHECKING:
    from resp.clients.session import Session


@server_command(
    "MONITOR",
    group="server",
    since="1.0.0",
    complexity="O(1), and as much for each command of any client",
    flags=("admin", "noscript", "loading", "stale"),
    categories=("admin", "slow", "dangerous"),
)
def monitor(session: Session, args: list[bytes]) -> Reply:
    """Show this client every command that any client sends, until RESET or the end of the connection.

    Who may not read every key sees the names of the commands alone.
    """
    if session.in_exec:
        raise CommandError("ERR MONITOR isn't allowed for DENY BLOCKING client")
    if session.monitoring:
        return NO_REPLY
    session.server.monitors.add(session)
    session.server.refresh()
    return OK

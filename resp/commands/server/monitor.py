"""MONITOR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.errors import CommandError
from engine.values.replies import OK, Reply
from resp.commands.handlers import Client, server_command
from resp.messages.monitor import Monitor
from resp.wire.server_replies import NO_REPLY

if TYPE_CHECKING:
    from resp.messages.monitor import Monitors


class Monitored(Protocol):
    """The part of a server that MONITOR changes."""

    monitors: Monitors


class MonitoringClient(Monitor, Client[Monitored], Protocol):
    """A client that may send MONITOR.

    Attributes:
        in_exec: how many commands the EXEC has that runs, 0 for none.
    """

    in_exec: int


@server_command(
    "MONITOR",
    group="server",
    since="1.0.0",
    complexity="O(1), and as much for each command of any client",
    flags=("admin", "noscript", "loading", "stale"),
    categories=("admin", "slow", "dangerous"),
)
def monitor(client: MonitoringClient, args: list[bytes]) -> Reply:
    """Show this client every command that any client sends, until RESET or the end of the connection.

    Who may not read every key sees the names of the commands alone.
    """
    if client.in_exec:
        raise CommandError("ERR MONITOR isn't allowed for DENY BLOCKING client")
    if client.monitoring:
        return NO_REPLY
    client.server.monitors.add(client)
    return OK

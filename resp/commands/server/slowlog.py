"""SLOWLOG: the commands that took longer than `slowlog-log-slower-than` µs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Reply
from resp.commands.handlers import Client, server_command
from resp.commands.server.latency import SlowMoments
from resp.messages.monitor import sees_values, without_values

if TYPE_CHECKING:
    from resp.acl import User

_FLAGS: Final = ("admin", "loading", "stale")
_CATEGORIES: Final = ("admin", "slow", "dangerous")
_COUNT: Final = 10


class LookingClient(Client[SlowMoments], Protocol):
    """A client that may look at slow commands.

    Attributes:
        user: who is logged in.
    """

    user: User


@server_command(
    "SLOWLOG GET [count]",
    group="server",
    since="2.2.12",
    complexity="O(entries returned)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    container=True,
)
def slowlog_get(client: LookingClient, args: list[bytes]) -> Reply:
    """Return the newest slow commands: 10, or `count`, or all for -1.

    Each is number, Unix time, µs, name and arguments, client's address and name. Who may not read every key sees no
    arguments.
    """
    if len(args) > 1:
        raise CommandError("ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.")
    count = parse_int(args[0]) if args else _COUNT
    if count is None or count < -1:
        raise CommandError("ERR count should be greater than or equal to -1")
    log = client.server.slowlog
    shown = (lambda command: command) if sees_values(client.user) else without_values
    return [
        [entry.number, entry.time_s, entry.microseconds, shown(entry.command), entry.address, entry.client_name]
        for entry in log.newest(len(log) if count < 0 else count)
    ]


@server_command("SLOWLOG LEN", group="server", since="2.2.12", flags=_FLAGS, categories=_CATEGORIES, container=True)
def slowlog_len(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Return the number of slow commands in the log."""
    return len(client.server.slowlog)


@server_command("SLOWLOG RESET", group="server", since="2.2.12", flags=_FLAGS, categories=_CATEGORIES, container=True)
def slowlog_reset(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Clear the log of slow commands."""
    client.server.slowlog.clear()
    return OK

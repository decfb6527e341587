"""Commands of Redis about what slotlog lacks: a debugger, modules, replicas.

A question after them has an answer, there are none; an attempt to make one is refused.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.errors import CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Reply
from resp.commands.cluster.cluster import Cluster
from resp.commands.handlers import Client, server_command

_ADMIN: Final = ("admin", "slow", "dangerous")

_replication = partial(
    server_command,
    group="server",
    flags=("admin", "noscript", "stale", "no_async_loading"),
    categories=_ADMIN,
    immediate=True,
)

_PORT_MAX: Final = 65535


@server_command(
    "SCRIPT DEBUG YES|SYNC|NO [engine-name]",
    group="scripting",
    since="2.6.0",
    flags=("noscript",),
    categories=("slow", "scripting"),
    immediate=True,
    container=True,
)
def script_debug(client: object, args: list[bytes]) -> Reply:
    """`NO` is what every client has already; there is no debugger."""
    mode = args[0].upper()
    if mode not in {b"YES", b"SYNC", b"NO"}:
        raise CommandError("ERR Use SCRIPT DEBUG YES/SYNC/NO")
    if mode != b"NO":
        raise CommandError("ERR slotlog has no debugger for scripts")
    return OK


@server_command(
    "MODULE LIST",
    group="server",
    since="4.0.0",
    flags=("admin", "noscript"),
    categories=_ADMIN,
    immediate=True,
    container=True,
)
def module_list(client: object, args: list[bytes]) -> Reply:
    """Return the loaded modules: there are none."""
    return []


# ---------------------------------------------------------------------- replicas


@_replication("REPLICAOF host port", since="5.0.0")
def replicaof(client: Client[Cluster], args: list[bytes]) -> Reply:
    """`NO ONE` is what every worker is already; anything else is refused: nothing is copied from server to server."""
    return _replicate(client.server, args)


def _replicate(server: Cluster, args: list[bytes]) -> Reply:
    if server.clustered:
        raise CommandError("ERR REPLICAOF not allowed in cluster mode.")
    if [arg.upper() for arg in args] == [b"NO", b"ONE"]:
        return OK
    port = parse_int(args[1])
    if port is None or not 0 <= port <= _PORT_MAX:
        raise CommandError("ERR Invalid master port")
    raise CommandError("ERR slotlog copies nothing from another server: start a second process on the same log")


@_replication("SLAVEOF host port", since="1.0.0")
def slaveof(client: Client[Cluster], args: list[bytes]) -> Reply:
    """See REPLICAOF."""
    return _replicate(client.server, args)

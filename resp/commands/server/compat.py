"""Commands of Redis that slotlog lacks but clients ask for: scripts, functions, modules, replicas.

A question after them has an answer, there are none; an attempt to make one is refused.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.errors import CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Map, Reply
from resp.commands.cluster.cluster import Cluster
from resp.commands.handlers import Client, server_command

_SCRIPTING: Final = ("slow", "scripting")
_SCRIPTING_WRITE: Final = ("write", "slow", "scripting")
_ADMIN: Final = ("admin", "slow", "dangerous")

_function = partial(server_command, group="scripting", since="7.0.0", immediate=True, container=True)
_script = partial(
    server_command, group="scripting", since="2.6.0", categories=_SCRIPTING, immediate=True, container=True
)
_replication = partial(
    server_command,
    group="server",
    flags=("admin", "noscript", "stale", "no_async_loading"),
    categories=_ADMIN,
    immediate=True,
)

_NOT_BUSY: Final = "NOTBUSY No scripts in execution right now."
_PORT_MAX: Final = 65535


def _check_mode(args: list[bytes], refusal: str) -> None:
    """Refuse anything but one word, ASYNC or SYNC."""
    if len(args) > 1 or (args and args[0].upper() not in {b"ASYNC", b"SYNC"}):
        raise CommandError(refusal)


# ---------------------------------------------------------------------- functions


@_function("FUNCTION STATS", flags=("noscript", "allow_busy"), categories=_SCRIPTING)
def function_stats(client: object, args: list[bytes]) -> Reply:
    """What runs, and the engines: nothing, and none."""
    return Map([(b"running_script", None), (b"engines", Map())])


@_function("FUNCTION KILL", flags=("noscript", "allow_busy"), categories=_SCRIPTING)
def function_kill(client: object, args: list[bytes]) -> Reply:
    """End the function that runs: none does."""
    raise CommandError(_NOT_BUSY)


# ---------------------------------------------------------------------- scripts


@_script("SCRIPT KILL", flags=("noscript", "allow_busy"))
def script_kill(client: object, args: list[bytes]) -> Reply:
    """End the script that runs: none does."""
    raise CommandError(_NOT_BUSY)


@_script("SCRIPT DEBUG YES|SYNC|NO [engine-name]", flags=("noscript",))
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

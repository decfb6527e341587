"""SENTINEL, for clients that ask a Sentinel where the master is. Source: Redis' sentinel.c and its command files.

A worker answers as one at an address of its own, so that a Sentinel's events are apart from messages of applications.
The commands that would change what a Sentinel watches, or let it fail over, do not exist: the group does both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, Reply, Status
from resp.cluster.nodes import NodeHealth, node_name
from resp.commands.handlers import server_command
from resp.reports.sentinel import master_fields, quorum, replica_fields, sentinel_fields

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.cluster.nodes import Node

_UNKNOWN: Final = CommandError("ERR No such master with that name")
_ELSEWHERE: Final = CommandError(
    "ERR this address is not a Sentinel's: SLOTLOG_REDIS__SENTINEL of a worker of a group with one partition is"
)

Handler = Callable[["Session", list[bytes]], Reply]

_sentinel_command = partial(
    server_command,
    group="slotlog",
    since="1",
    of="slotlog",
    flags=("admin", "noscript", "loading", "stale"),
    categories=("admin", "slow", "dangerous"),
    immediate=True,
    container=True,
)


def _sentinel(usage: str) -> Callable[[Handler], Handler]:
    """Register a command that only a Sentinel's address answers."""

    def decorate(handler: Handler) -> Handler:
        def answered(session: Session, args: list[bytes]) -> Reply:
            if not session.at_sentinel:
                raise _ELSEWHERE
            return handler(session, args)

        answered.__doc__ = handler.__doc__
        _sentinel_command(usage)(answered)
        return handler

    return decorate


def _master(session: Session, name: bytes) -> Node:
    sentinel = session.server.sentinel
    if sentinel.master is None or name != sentinel.name.encode():
        raise _UNKNOWN
    return sentinel.master


@_sentinel("SENTINEL GET-MASTER-ADDR-BY-NAME master-name")
def get_master_addr_by_name(session: Session, args: list[bytes]) -> Reply:
    """Return where clients reach the master: host and port; nil if there is none of that name."""
    try:
        host, port = _master(session, args[0]).address
    except CommandError:
        return NIL_ARRAY
    return [host.encode(), b"%d" % port]


@_sentinel("SENTINEL MASTERS")
def masters(session: Session, args: list[bytes]) -> Reply:
    """Return the one master that there is, and its state; nothing while it is not known."""
    master = session.server.sentinel.master
    return [] if master is None else [master_fields(session.server, master)]


@_sentinel("SENTINEL MASTER master-name")
def master_(session: Session, args: list[bytes]) -> Reply:
    """Return the state of a master."""
    return master_fields(session.server, _master(session, args[0]))


@_sentinel("SENTINEL REPLICAS master-name")
def replicas(session: Session, args: list[bytes]) -> Reply:
    """Return the standbys of a master, and their state."""
    _master(session, args[0])
    return [replica_fields(session.server, replica) for replica in session.server.sentinel.replicas]


@_sentinel("SENTINEL SLAVES master-name")
def slaves(session: Session, args: list[bytes]) -> Reply:
    """Return what SENTINEL REPLICAS does."""
    return replicas(session, args)


@_sentinel("SENTINEL SENTINELS master-name")
def sentinels(session: Session, args: list[bytes]) -> Reply:
    """Return the other workers that answer as Sentinels."""
    _master(session, args[0])
    others = session.server.sentinel.others
    return [sentinel_fields(session.server, address, worker) for address, worker in others.items()]


@_sentinel("SENTINEL CKQUORUM master-name")
def ckquorum(session: Session, args: list[bytes]) -> Reply:
    """Return OK if most of the workers answer; an error if not."""
    _master(session, args[0])
    server = session.server
    health = [server.sentinel.health(worker) for worker in server.sentinel.others.values()]
    usable = 1 + sum(each is NodeHealth.ONLINE for each in health)
    if usable < quorum(server):
        raise CommandError(f"NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to reach the majority")
    return Status(b"OK %d usable Sentinels. Quorum and failover authorization can be reached" % usable)


@_sentinel("SENTINEL MYID")
def myid(session: Session, args: list[bytes]) -> Reply:
    """Return the id of this Sentinel, the same after a restart at the same address."""
    server = session.server
    return node_name((server.cluster.me.host, server.sentinel_port), "sentinel").encode()

"""The ACL categories (`@read`, `@dangerous`, …) of each command.

The server's own commands say so themselves (`ServerSpec.categories`). For the engine's it follows from the registry:
the type that a command works on, whether it writes, and the tables below, which hold what no registry entry says.
Source: `ACL CAT <category>` of valkey-server 9.1, which a test compares with, command by command.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import engine.commands  # noqa: F401 - fills SPECS
from engine.commands.registry import SPECS, Spec
from resp.catalog.server_registry import CONTAINERS, SERVER_SPECS

CATEGORIES: Final = (
    *("keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo"),
    *("stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting"),
)
"""Every category, in the order in which `ACL CAT` lists them."""

_OF_GROUP: Final = {
    **{group: group for group in ("string", "hash", "list", "set", "bitmap", "hyperloglog", "geo", "stream")},
    "sorted-set": "sortedset",
    "generic": "keyspace",
    "server": "keyspace",  # FLUSHALL, FLUSHDB, DBSIZE, SWAPDB: about whole databases
}
"""The category of an engine command by its group."""

_DANGEROUS: Final = frozenset({b"FLUSHALL", b"FLUSHDB", b"KEYS", b"RESTORE", b"SWAPDB"})

_FAST: Final = frozenset(
    b"""
    APPEND BITFIELD_RO DBSIZE DECR DECRBY DELIFEQ EXISTS EXPIRE EXPIREAT EXPIRETIME GET GETBIT GETDEL GETEX GETSET HDEL
    HEXISTS HEXPIRE HEXPIREAT HEXPIRETIME HGET HGETDEL HGETEX HINCRBY HINCRBYFLOAT HLEN HMGET HMSET HPERSIST HPEXPIRE
    HPEXPIREAT HPEXPIRETIME HPTTL HSET HSETEX HSETNX HSTRLEN HTTL INCR INCRBY INCRBYFLOAT LLEN LPOP LPUSH LPUSHX MGET
    MOVE PERSIST PEXPIRE PEXPIREAT PEXPIRETIME PFADD PTTL RENAMENX RPOP RPUSH RPUSHX SADD SCARD SETNX SISMEMBER
    SMISMEMBER SMOVE SPOP SREM STRLEN SWAPDB TOUCH TTL TYPE UNLINK XACK XADD XAUTOCLAIM XCLAIM XDEL XLEN XSETID ZADD
    ZCARD ZCOUNT ZINCRBY ZLEXCOUNT ZMSCORE ZPOPMAX ZPOPMIN ZRANK ZREM ZREVRANK ZSCORE
    """.split()
)
"""The engine's commands that take constant or logarithmic time; all others are `@slow`."""

_WHOLE: Final = {
    b"MEMORY|USAGE": frozenset({"read", "slow"}),
    b"SORT": frozenset({"write", "set", "sortedset", "list", "slow", "dangerous"}),
    b"SORT_RO": frozenset({"read", "set", "sortedset", "list", "slow", "dangerous"}),
}
"""Commands of which the group says too much."""

_CONTAINER: Final = frozenset({"slow"})


def command_names() -> Iterator[bytes]:
    """Every name that a rule may mention, upper case: commands, containers, and subcommands as `CONFIG|GET`."""
    yield from (name for name, spec in SPECS.items() if _is_for_clients(spec))
    yield from (name for name in SERVER_SPECS if name not in SPECS or not _is_for_clients(SPECS[name]))
    yield from (name for name in CONTAINERS if name not in SERVER_SPECS and name not in SPECS)


def is_command(name: bytes) -> bool:
    """Whether `name` (upper case) is one of `command_names`."""
    return name in SERVER_SPECS or name in CONTAINERS or (name in SPECS and _is_for_clients(SPECS[name]))


@cache
def categories_of(name: bytes) -> frozenset[str]:
    """The categories of a command that there is (upper case)."""
    if name in SERVER_SPECS:
        return frozenset(SERVER_SPECS[name].categories)
    if name in CONTAINERS:
        return _CONTAINER | {"connection"} if name == b"COMMAND" else _CONTAINER
    if name in _WHOLE:
        return _WHOLE[name]
    spec = SPECS[name]
    found = {"write" if spec.write else "read", "fast" if name in _FAST else "slow"}
    if spec.group in _OF_GROUP:
        found.add(_OF_GROUP[spec.group])
    if name in _DANGEROUS:
        found.add("dangerous")
    return frozenset(found)


def _is_for_clients(spec: Spec) -> bool:
    """TICK, RULES and SETCLOCK are events that only slotlog itself appends."""
    return spec.group != "slotlog"

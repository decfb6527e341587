"""The keys, channels and databases of a command, for the ACL.

How a key is touched are two letters: `R` its value is read, `W` it is changed. Neither of them is what commands do that
tell no more than whether a key is there, its type or its size; they need some pattern that matches the key, whatever
that pattern allows. Source: the key specifications of `COMMAND INFO`, valkey-server 9.1; a test compares with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.commands.registry import SPECS
from engine.values.numbers import parse_int
from resp.catalog.server_registry import SERVER_SPECS

READ: Final = "R"
WRITE: Final = "W"
READ_WRITE: Final = "RW"
NEITHER: Final = ""

_NEITHER: Final = frozenset(
    b"""
    EXISTS HEXISTS HLEN HSTRLEN LLEN MEMORY|USAGE OBJECT|ENCODING OBJECT|FREQ OBJECT|IDLETIME OBJECT|REFCOUNT SCARD
    SISMEMBER STRLEN TOUCH TYPE WATCH XLEN ZCARD
    SLOTLOG|ONCE
    """.split()
)
"""The last one has another command in it, which is looked at by itself."""

_ONLY_WRITE: Final = frozenset(
    b"""
    APPEND DEL DELIFEQ EXPIRE EXPIREAT GEOADD HDEL HEXPIRE HEXPIREAT HMSET HPERSIST HPEXPIRE HPEXPIREAT HSET HSETEX
    HSETNX LINSERT LPUSH LPUSHX LREM LSET LTRIM MSET MSETEX MSETNX PERSIST PEXPIRE PEXPIREAT PFADD PSETEX RESTORE RPUSH
    RPUSHX SADD SETEX SETNX SETRANGE SREM UNLINK XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP|CREATE XGROUP|CREATECONSUMER
    XGROUP|DELCONSUMER XGROUP|DESTROY XGROUP|SETID XSETID XTRIM ZADD ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK
    ZREMRANGEBYSCORE
    """.split()
)

_FIRST_AND_OTHERS: Final = {
    **dict.fromkeys(
        b"""
        BITOP GEOSEARCHSTORE SDIFFSTORE SINTERSTORE SUNIONSTORE ZDIFFSTORE ZINTERSTORE ZRANGESTORE ZUNIONSTORE
        """.split(),
        (WRITE, READ),
    ),
    **dict.fromkeys(b"BLMOVE BRPOPLPUSH LMOVE RENAME RENAMENX RPOPLPUSH SMOVE".split(), (READ_WRITE, WRITE)),
    **dict.fromkeys(b"COPY SORT GEORADIUS GEORADIUSBYMEMBER".split(), (READ, WRITE)),
    b"PFMERGE": (READ_WRITE, READ),
    b"XREADGROUP": (READ, READ),
}
"""Commands whose first key is touched in another way than the others."""

_PUBLISHING: Final = frozenset({b"PUBLISH", b"SPUBLISH", b"SLOTLOG|PEER-PUBLISH"})
_SUBSCRIBING: Final = frozenset({b"SUBSCRIBE", b"SSUBSCRIBE"})
_ON_SHARDS: Final = frozenset({b"SPUBLISH", b"SSUBSCRIBE", b"SUNSUBSCRIBE"})
"""Their channels belong to slots, as keys do, and are no keys."""

_ALL_DATABASES: Final = frozenset({b"FLUSHALL"})
_WITHOUT_DATABASE: Final = frozenset({b"SELECT", b"SWAPDB"})


class Channels(NamedTuple):
    """Channels, or patterns of them, that a command names."""

    names: list[bytes]
    are_patterns: bool


def keys_touched(name: bytes, args: list[bytes]) -> list[tuple[bytes, str]]:
    """The keys of a command with what it does to each, in the order of its arguments."""
    server = SERVER_SPECS.get(name)
    find_keys = SPECS[name].keys if server is None else server.keys
    keys = [] if find_keys is None or name in _ON_SHARDS else find_keys(args)
    if not keys:
        return []
    first, others = key_access(name, args)
    return [(keys[0], first), *((key, others) for key in keys[1:])]


def key_access(name: bytes, args: list[bytes]) -> tuple[str, str]:
    """What a command does to its first key and to the others."""
    if name in _BY_ARGUMENTS:
        access = _BY_ARGUMENTS[name](args)
    elif name in _FIRST_AND_OTHERS:
        return _FIRST_AND_OTHERS[name]
    elif name in _NEITHER:
        access = NEITHER
    elif name in _ONLY_WRITE:
        access = WRITE
    else:
        access = READ_WRITE if is_write(name) else READ
    return access, access


def channels_touched(name: bytes, args: list[bytes]) -> Channels | None:
    """The channels that a command publishes to or subscribes to; None for all other commands."""
    if name in _PUBLISHING:
        return Channels(args[:1], are_patterns=False)
    if name in _SUBSCRIBING:
        return Channels(args, are_patterns=False)
    if name == b"PSUBSCRIBE":
        return Channels(args, are_patterns=True)
    return None


def needs_all_databases(name: bytes) -> bool:
    """Whether a command acts on every database at once."""
    return name in _ALL_DATABASES


def uses_current_database(name: bytes) -> bool:
    """Whether a command looks at the database that its client has selected."""
    if name in _WITHOUT_DATABASE or name in _ALL_DATABASES or name in _ON_SHARDS:
        return False
    server = SERVER_SPECS.get(name)
    if server is None:
        return True
    return server.keys is not None or "readonly" in server.flags or "write" in server.flags


def databases_named(name: bytes, args: list[bytes]) -> list[bytes]:
    """The arguments that name a database."""
    if name == b"SELECT":
        return args[:1]
    if name == b"SWAPDB":
        return args[:2]
    if name == b"MOVE":
        return args[1:2]
    if name == b"COPY":
        words = [arg.upper() for arg in args]
        return [args[at + 1] for at in range(2, len(args) - 1) if words[at] == b"DB"]
    return []


def database_number(argument: bytes) -> int | None:
    """The database that an argument names; None when it is no number, which is the command's to refuse."""
    return parse_int(argument)


def is_write(name: bytes) -> bool:
    """Whether a command may change the state."""
    server = SERVER_SPECS.get(name)
    return "write" in server.flags if server is not None else SPECS[name].write


def _set_access(args: list[bytes]) -> str:
    """SET also reads when it answers the old value; what IFEQ tells of it counts for nothing, as in valkey."""
    return READ_WRITE if any(arg.upper() == b"GET" for arg in args[2:]) else WRITE


def _bitfield_access(args: list[bytes]) -> str:
    """BITFIELD writes unless all that it is asked for is GET."""
    words = {arg.upper() for arg in args[1:]}
    return READ_WRITE if b"SET" in words or b"INCRBY" in words else READ


_BY_ARGUMENTS: Final[dict[bytes, Callable[[list[bytes]], str]]] = {b"SET": _set_access, b"BITFIELD": _bitfield_access}

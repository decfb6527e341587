"""The keys, channels and databases of a command, for the ACL.

How a key is touched are two letters: `R` its value is read, `W` it is changed. Neither of them is what commands do that
tell no more than whether a key is there, its type or its size; they need some pattern that matches the key, whatever
that pattern allows. Source: the key specifications of `COMMAND INFO`, valkey-server 9.1; a test compares with them.
"""

from __future__ import annotations

from typing import Final

from engine.commands.key_access import letters
from engine.commands.registry import SPECS, Spec
from engine.values.numbers import parse_int
from resp.catalog.server_registry import SERVER_SPECS, Channels

READ: Final = "R"
WRITE: Final = "W"
READ_WRITE: Final = "RW"


def keys_of_event(name: bytes, args: list[bytes]) -> list[tuple[bytes, str]]:
    """The keys of a command with what it does to each, in the order of its arguments."""
    spec = SERVER_SPECS.get(name) or SPECS[name]
    keys = [] if spec.keys is None or is_on_shards(name) else spec.keys(args)
    if not keys:
        return []
    first, others = key_access(name, args)
    return [(keys[0], first), *((key, others) for key in keys[1:])]


def key_access(name: bytes, args: list[bytes]) -> tuple[str, str]:
    """What a command does to its first key and to the others."""
    spec = SERVER_SPECS.get(name) or SPECS[name]
    if isinstance(spec, Spec) and spec.access_by is not None:
        access = letters(spec.access_by(args))
        return access, access
    return letters(spec.access[0]), letters(spec.access[-1])


def is_on_shards(name: bytes) -> bool:
    """Whether a command names shard channels, which belong to slots as keys do and are no keys."""
    server = SERVER_SPECS.get(name)
    return server is not None and ("not_key",) in server.access


def channels_touched(name: bytes, args: list[bytes]) -> Channels | None:
    """The channels that a command publishes to or subscribes to; None for all other commands."""
    server = SERVER_SPECS.get(name)
    return None if server is None or server.channels is None else server.channels(args)


def needs_all_databases(name: bytes) -> bool:
    """Whether a command acts on every database at once."""
    return name not in SERVER_SPECS and SPECS[name].database == "every"


def uses_current_database(name: bytes) -> bool:
    """Whether a command looks at the database that its client has selected."""
    server = SERVER_SPECS.get(name)
    if server is None:
        return SPECS[name].database == "current"
    return not is_on_shards(name) and (server.keys is not None or "readonly" in server.flags or "write" in server.flags)


def databases_named(name: bytes, args: list[bytes]) -> list[bytes]:
    """The arguments that name a database."""
    spec = SERVER_SPECS.get(name) or SPECS[name]
    return [] if spec.databases is None else spec.databases(args)


def database_number(argument: bytes) -> int | None:
    """The database that an argument names; None when it is no number, which is the command's to refuse."""
    return parse_int(argument)

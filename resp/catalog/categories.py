"""The ACL categories (`@read`, `@dangerous`, …) of each command.

Commands say so themselves (`ServerSpec.categories`, `Spec.categories`), or it follows from the group of an engine's
command: the type that it works on.
Source: `ACL CAT <category>` of valkey-server 9.1, which a test compares with, command by command.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import engine.commands  # noqa: F401 - fills SPECS
from engine.commands.registry import SPECS
from resp.catalog.server_registry import CONTAINERS, SERVER_SPECS

CATEGORIES: Final = (
    *("keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo"),
    *("stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting"),
)
"""Every category, in the order in which `ACL CAT` lists them."""

_OF_GROUP: Final = {
    **{group: (group,) for group in ("string", "hash", "list", "set", "bitmap", "hyperloglog", "geo", "stream")},
    "sorted-set": ("sortedset",),
    "generic": ("keyspace",),
    "server": ("keyspace",),  # FLUSHALL, FLUSHDB, DBSIZE, SWAPDB: about whole databases
}
"""The category of an engine command that names none, by its group."""

_CONTAINER: Final = frozenset({"slow"})


def command_names() -> Iterator[bytes]:
    """Every name that a rule may mention, upper case: commands, containers, and subcommands as `CONFIG|GET`."""
    yield from (name for name, spec in SPECS.items() if not spec.internal)
    yield from (name for name in SERVER_SPECS if name not in SPECS)
    yield from (name for name in CONTAINERS if name not in SERVER_SPECS and name not in SPECS)


def is_command(name: bytes) -> bool:
    """Whether `name` (upper case) is one of `command_names`."""
    return name in SERVER_SPECS or name in CONTAINERS or (name in SPECS and not SPECS[name].internal)


@cache
def categories_of(name: bytes) -> frozenset[str]:
    """The categories of a command that there is (upper case)."""
    if name in SERVER_SPECS:
        return frozenset(SERVER_SPECS[name].categories)
    if name in CONTAINERS:
        return _CONTAINER | {"connection"} if name == b"COMMAND" else _CONTAINER
    spec = SPECS[name]
    if spec.flags is not None:
        return frozenset(spec.categories or ())
    about = spec.categories if spec.categories is not None else _OF_GROUP.get(spec.group, ())
    return frozenset({"write" if spec.write else "read", "fast" if spec.fast else "slow", *about})

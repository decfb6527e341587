"""Routes an event to the partition of its keys, or to all partitions if it has none."""

from __future__ import annotations

from typing import Any, NamedTuple

import engine.commands  # noqa: F401 - fills the registry
from engine.commands.registry import keys_of
from engine.errors import EventError
from engine.values.slots import partition_of, slot
from slotlog.errors import CrossSlotError


class Route(NamedTuple):
    """Where to append an event.

    Attributes:
        partitions: one, or all for an event without keys.
        key: the record's key: the slot, 2 bytes big-endian; None without keys.
    """

    partitions: range
    key: bytes | None


def route(name: bytes, args: list[Any], partitions: int, db: int = 0) -> Route:
    """Where an event with this decoded name and arguments belongs.

    Raises:
        EventError: unknown command, wrong number of arguments, a database in cluster mode.
        CrossSlotError: in cluster mode, keys in several slots.
    """
    if db and partitions > 1:
        raise EventError(f"db {db}: a topic of several partitions has database 0 alone")
    if name == b"EXEC":
        keys = [key for command in args for key in keys_of(command[0], command[1:])]
    else:
        keys = keys_of(name, args)
    if not keys:
        return Route(range(partitions), None)
    first = slot(keys[0])
    if partitions > 1 and any(slot(key) != first for key in keys):
        raise CrossSlotError
    partition = partition_of(first, partitions)
    return Route(range(partition, partition + 1), first.to_bytes(2, "big"))

"""Routes an event to the partition of its keys, or to all partitions if it has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from slotlog.commands import COMMANDS
from slotlog.errors import CrossSlotError
from slotlog.shared.errors import EventError, unknown_command
from slotlog.shared.signature import Signature
from slotlog.shared.slots import partition_of, slot


def find(name: bytes) -> Signature:
    """The signature of the command of that name, in any case.

    Raises:
        EventError: there is no such command.
    """
    signature = COMMANDS.get(name) or COMMANDS.get(name.upper())
    if signature is None:
        raise EventError(unknown_command(name))
    return signature


class Route(NamedTuple):
    """The destination of an event.

    Attributes:
        partitions: one, or all for an event without keys; of a script without keys the first.
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
        keys = [key for command in args for key in _keys_of(command[0], command[1:])]
    else:
        keys = _keys_of(name, args)
    if not keys and _needs_one_partition(name, args):
        return Route(range(1), None)
    if not keys:
        return Route(range(partitions), None)
    first = slot(keys[0])
    if partitions > 1 and any(slot(key) != first for key in keys):
        raise CrossSlotError
    partition = partition_of(first, partitions)
    return Route(range(partition, partition + 1), first.to_bytes(2, "big"))


def _needs_one_partition(name: bytes, args: list[Any]) -> bool:
    """Whether an event without keys goes to one partition all the same: a script does, as cluster clients send it."""
    names = [command[0] for command in args] if name == b"EXEC" else [name]
    return any(find(each).keys_optional for each in names)


def _keys_of(name: bytes, args: Sequence[bytes]) -> list[bytes]:
    signature = find(name)
    signature.check_arity(args)
    return signature.keys(args)

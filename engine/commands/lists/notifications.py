"""Keyspace events of the commands that move elements between lists."""

from __future__ import annotations

from collections.abc import Iterator

from engine.commands.keyspace_events import LIST, Change, KeyspaceEvent


def of_lmove(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """LMOVE: the arguments say from which end to which."""
    return _moved(args, changes, args[2].upper(), args[3].upper())


def of_rpoplpush(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """RPOPLPUSH: what LMOVE tells from right to left."""
    return _moved(args, changes, b"RIGHT", b"LEFT")


def _moved(args: list[bytes], changes: list[Change], where_from: bytes, where_to: bytes) -> Iterator[KeyspaceEvent]:
    """The push comes first, as Redis has it. A list that is moved within itself is one key."""
    by_key = {change.key: change for change in changes}
    source, destination = by_key.get(args[0]), by_key.get(args[1])
    if destination is not None:
        pushed = destination._replace(gone=False)
        yield from pushed.happened(LIST, b"lpush" if where_to == b"LEFT" else b"rpush")
    if source is not None:
        yield from source.happened(LIST, b"lpop" if where_from == b"LEFT" else b"rpop")

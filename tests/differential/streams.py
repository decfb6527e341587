"""Compares streams without moments and without Redis' radix tree.

Each side takes moments from its own clock. A consumer that asks in vain is seen in Redis and not here, so of a
consumer's times it counts only whether it has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from engine.model import NO_ID
from engine.types.stream.streams import show_id
from engine.values.encoding import parse_u64
from engine.values.stream_records import (
    ENTRIES_END,
    ID_BYTES,
    consumers_prefix,
    group_subkey,
    parse_consumer,
    parse_entry,
    parse_group,
    parse_pending,
    pending_prefix,
)
from tests.real.oracle import MapReply

_TIMES: Final = frozenset({b"idle", b"inactive", b"seen-time", b"active-time"})
_OF_REDIS: Final = frozenset({b"radix-tree-keys", b"radix-tree-nodes"})
_PENDING: Final = 4
_PENDING_OF_CONSUMER: Final = 3


def untimed(name: bytes, reply: Any) -> Any:
    """The reply of XINFO or XPENDING without what may differ; any other one as it is."""
    if name == b"XPENDING" and isinstance(reply, list):
        return [
            [*each[:2], "idle" if each[2] >= 0 else "never", each[3]] if _is_pending(each) else each for each in reply
        ]
    return _described(reply) if name.startswith(b"XINFO|") else reply


def with_their_lag(theirs: Any, ours: Any, *, is_told: bool = False) -> Any:
    """What slotlog says, with the oracle's lag of a group where that counts entries that were trimmed, or is unknown.

    slotlog does as Redis 7.4 and Valkey 9.1.4 here; the oracle is Valkey 9.1.2. `is_told`: a command has said how many
    entries a group has read (ENTRIESREAD). That may be more than there ever were: then the oracle's lag is too low.
    """
    if type(theirs) is not type(ours) or type(ours) not in {list, tuple} or len(theirs) != len(ours):
        return ours
    if type(ours) is tuple and ours[0] == theirs[0] == b"lag" and isinstance(ours[1], int):
        is_less = not isinstance(theirs[1], int) or ours[1] < theirs[1]
        return theirs if is_less or is_told else ours
    return type(ours)(with_their_lag(*both, is_told=is_told) for both in zip(theirs, ours, strict=True))


def _is_pending(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == _PENDING


def _described(reply: Any) -> Any:
    """What XINFO says, maps as lists, without times."""
    if isinstance(reply, MapReply):
        reply = [part for pair in reply.pairs for part in pair]
    if not isinstance(reply, list):
        return reply
    if reply and reply[0] in (b"name", b"length"):
        pairs = [(name, value) for name, value in zip(reply[::2], reply[1::2], strict=True) if name not in _OF_REDIS]
        return [(name, value == -1 if name in _TIMES else _described(value)) for name, value in pairs]
    if len(reply) in {_PENDING, _PENDING_OF_CONSUMER} and isinstance(reply[-1], int) and isinstance(reply[-2], int):
        return [*reply[:-2], reply[-1]]
    return list(map(_described, reply))


# ---------------------------------------------------------------------- contents


def content_of_oracle(reply: Any) -> Any:
    """What XINFO STREAM FULL COUNT 0 says, for `content_of_engine`."""
    described = dict(_described(reply))
    return {
        "last": described[b"last-generated-id"],
        "deleted": described[b"max-deleted-entry-id"],
        "added": described[b"entries-added"],
        "first": described[b"recorded-first-entry-id"],
        "entries": described[b"entries"],
        "groups": [_group_of_oracle(dict(group)) for group in described[b"groups"]],
    }


def _group_of_oracle(group: dict[bytes, Any]) -> Any:
    consumers = [dict(consumer) for consumer in group[b"consumers"]]
    return {
        "name": group[b"name"],
        "last": group[b"last-delivered-id"],
        "read": group[b"entries-read"],
        "pending": [(entry_id, consumer, times) for entry_id, consumer, times in group[b"pending"]],
        "consumers": [(each[b"name"], each[b"pel-count"], each[b"active-time"]) for each in consumers],
    }


def content_of_engine(pieces: Sequence[bytes]) -> Any:
    """A stream as `engine.proof.walk.LiveKey` gives it."""
    last_id, max_deleted_id, entries_added, *records = pieces
    stored = dict(zip(records[::2], records[1::2], strict=True))
    entries = sorted((subkey, value) for subkey, value in stored.items() if len(subkey) == ID_BYTES)
    return {
        "last": show_id(last_id),
        "deleted": show_id(max_deleted_id),
        "added": parse_u64(entries_added),
        "first": show_id(entries[0][0] if entries else NO_ID),
        "entries": [[show_id(entry_id), parse_entry(value)] for entry_id, value in entries],
        "groups": [_group_of_engine(name, stored) for name in sorted(_groups(stored))],
    }


def _groups(stored: dict[bytes, bytes]) -> Iterator[bytes]:
    start = group_subkey(b"")[:-8]
    for subkey in stored:
        if subkey.startswith(start) and len(subkey) > ID_BYTES:
            yield subkey[len(start) + 8 :]


def _under(stored: dict[bytes, bytes], prefix: bytes) -> list[tuple[bytes, bytes]]:
    """The records whose subkeys begin with a prefix, without it."""
    return [(key[len(prefix) :], value) for key, value in stored.items() if key.startswith(prefix)]


def _group_of_engine(name: bytes, stored: dict[bytes, bytes]) -> Any:
    group = parse_group(stored[group_subkey(name)])
    of_pending, of_consumers = pending_prefix(name), consumers_prefix(name)
    pending = [(key, parse_pending(value)) for key, value in _under(stored, of_pending)]
    consumers = [(key[8:], parse_consumer(value)) for key, value in _under(stored, of_consumers)]
    assert (group.consumers, group.pending) == (len(consumers), len(pending))
    assert all(subkey.startswith(ENTRIES_END) for subkey in stored if len(subkey) != ID_BYTES)
    return {
        "name": name,
        "last": show_id(group.last_id),
        "read": None if group.entries_read < 0 else group.entries_read,
        "pending": [(show_id(entry_id), record.consumer, record.deliveries) for entry_id, record in sorted(pending)],
        "consumers": [(consumer, record.pending, record.active_ms == -1) for consumer, record in sorted(consumers)],
    }

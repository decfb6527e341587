"""The content of a stream as plain values: entries, and groups with their consumers.

An id is 16 bytes, [ms:8][seq:8], both big-endian: bytes compare as ids do. RDB and Kvrocks write it so too. Example:
1000-1 is 00000000000003e8 0000000000000001.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

ID_BYTES: Final = 16
ZERO_ID: Final = bytes(ID_BYTES)

UNKNOWN: Final = -1
"""`entries_read` of a group of which nobody knows how many entries it has read."""

NEVER: Final = -1
"""`active_ms` of a consumer that has never got an entry."""


class StreamEntry(NamedTuple):
    """One entry: fields and values alternate in `texts`, at least one of each."""

    id: bytes
    texts: list[bytes]


class PendingEntry(NamedTuple):
    """An entry that a consumer has got and not acknowledged; the entry itself may have been deleted."""

    id: bytes
    consumer: bytes
    delivered_ms: int
    deliveries: int


class StreamConsumer(NamedTuple):
    """A consumer of a group: when it last asked, and when it last got something."""

    name: bytes
    seen_ms: int
    active_ms: int


class StreamGroup(NamedTuple):
    """A group. Consumers are ordered by name, pending entries by id; each of these has one of the consumers."""

    name: bytes
    last_id: bytes
    entries_read: int
    consumers: list[StreamConsumer]
    pending: list[PendingEntry]


class StreamState(NamedTuple):
    """All of a stream but its entries.

    `last_id` is the highest that was ever added or set, `max_deleted_id` the highest that was ever deleted, and
    `entries_added` counts those ever added. Groups are ordered by name.
    """

    last_id: bytes
    max_deleted_id: bytes
    entries_added: int
    groups: list[StreamGroup]


class StreamPart(NamedTuple):
    """Some entries of a stream in their order.

    `state` is there in the last part alone, which may have no entry.
    """

    entries: list[StreamEntry]
    state: StreamState | None = None


def joined(parts: Iterable[StreamPart]) -> StreamPart:
    """The stream of which these are all parts, in their order."""
    entries: list[StreamEntry] = []
    state = None
    for part in parts:
        entries += part.entries
        state = part.state
    return StreamPart(entries, state)

"""Type codes, list indexes and the metadata of a key, for the whole engine.

Source: encodings of NeoKV and Kvrocks (seeds 000, 001, 003); the type codes are burned into disk. 6, 7 and those above
8 are types of Kvrocks that Redis does not have.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NONE: Final = 0
STRING: Final = 1
HASH: Final = 2
LIST: Final = 3
SET: Final = 4
ZSET: Final = 5
STREAM: Final = 8

TYPE_NAMES: Final = {
    NONE: "none",
    STRING: "string",
    HASH: "hash",
    LIST: "list",
    SET: "set",
    ZSET: "zset",
    STREAM: "stream",
}
"""What TYPE answers for each code."""

LIST_START: Final = 2**63 - 1
"""`head` and `tail` of an empty list: the middle of the unsigned 64-bit range, so that both ends can grow."""


KEY_TYPES: Final = frozenset(TYPE_NAMES) - {NONE}
"""The codes that a key may have."""

UNCOUNTED: Final = 2**62
"""`size` of a collection whose layout keeps no count; what changes add to it or take away says nothing."""

UNCOUNTED_FROM: Final = 2**61
"""From this size on a collection has no count: none is so large."""


class Times(NamedTuple):
    """The times to live of a hash's fields, in its metadata: their number, the soonest and the latest.

    `own_expire_ms` is when the key itself dies, 0 for never; its record's `expire_ms` is that, or when the last field
    dies if all of them have a time to live and that comes first. `latest_ms`: when the last of them dies, where the
    layout says it; else 0.
    """

    timed: int
    own_expire_ms: int
    soonest_ms: int
    latest_ms: int = 0


NO_ID: Final = bytes(16)
"""The lowest id of a stream entry, which none has: 0-0. An id is `[ms:8][seq:8]`, big-endian."""


class StreamMetadata(NamedTuple):
    """The metadata of a stream beside the number of its entries, which may be 0.

    Attributes:
        last_id: the highest id that was ever given, or that XSETID has set.
        first_id, end_id: those of the first and the last entry that is there; `NO_ID` where there is none.
        max_deleted_id: the highest one that XDEL has deleted.
        entries_added: how many entries were ever added, or as many as XSETID has said.
        groups: how many consumer groups there are.
        tail_count: entries behind the last counted block (engine/types/stream/stream_index.py), where the layout
            keeps counts.
    """

    last_id: bytes = NO_ID
    first_id: bytes = NO_ID
    end_id: bytes = NO_ID
    max_deleted_id: bytes = NO_ID
    entries_added: int = 0
    groups: int = 0
    tail_count: int = 0


class Metadata(NamedTuple):
    """The metadata record of one key.

    `expire_ms` is absolute, 0 means never. `value` is a string's content, unless it has fragments; what is between the
    two is a collection's, or says where the fragments are. A list's elements stand at the indexes `head … tail - 1`.
    `ranked`: a sorted set with rank counts. `times`: of a hash that has, or had, fields with a time to live.
    `stream`: of a stream.
    """

    type: int
    expire_ms: int
    version: int = 0
    size: int = 0
    head: int = LIST_START
    tail: int = LIST_START
    value: bytes = b""
    ranked: bool = False
    times: Times | None = None
    stream: StreamMetadata | None = None

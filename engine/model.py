"""Type codes, list indexes and the metadata of a key, for the whole engine.

Source: encodings of NeoKV and Kvrocks (seeds 000, 001, 003); the type codes are burned into disk.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NONE: Final = 0
STRING: Final = 1
HASH: Final = 2
LIST: Final = 3
SET: Final = 4
ZSET: Final = 5

TYPE_NAMES: Final = {NONE: "none", STRING: "string", HASH: "hash", LIST: "list", SET: "set", ZSET: "zset"}
"""What TYPE answers for each code."""

LIST_START: Final = 2**63 - 1
"""`head` and `tail` of an empty list: the middle of the unsigned 64-bit range, so that both ends can grow."""


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


class Metadata(NamedTuple):
    """The metadata record of one key.

    `expire_ms` is absolute, 0 means never. `value` is a string's content, unless it has fragments; what is between the
    two is a collection's, or says where the fragments are. A list's elements stand at the indexes `head … tail - 1`.
    `ranked`: a sorted set with rank counts. `times`: of a hash that has, or had, fields with a time to live.
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

"""The Layout protocol and what all layouts share: type codes, list indexes, and the metadata of a key as Python values.

Source: encodings of NeoKV and Kvrocks (seeds 000, 001, 003); the type codes are burned into disk.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple, Protocol

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


class Times(NamedTuple):
    """What the record of a hash says of its fields that have a time to live: how many, and the soonest time of one.

    `own_expire_ms` is when the key itself dies, 0 for never; its record's `expire_ms` is that, or when the last field
    dies if all of them have a time to live and that comes first.
    """

    timed: int
    own_expire_ms: int
    soonest_ms: int


class Metadata(NamedTuple):
    """What the metadata record of one key says.

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


class Layout(Protocol):
    """How one partition's keys and metadata are written. An instance is bound to one partition number."""

    name: ClassVar[str]
    metadata_cf: ClassVar[str]
    data_cf: ClassVar[str]
    score_cf: ClassVar[str]
    rank_cf: ClassVar[str]
    time_cf: ClassVar[str]
    column_families: ClassVar[tuple[str, ...]]

    def __init__(self, partition: int) -> None:
        """Bind the layout to `partition`."""

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """The key of the metadata record of `name`."""
        ...

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key; CorruptionError when it is none."""
        ...

    def database_range(self, db: int) -> tuple[bytes, bytes]:
        """First key and exclusive end of all keys of `db`, in every column family of the layout."""
        ...

    def subkey_prefix(self, metadata_key: bytes, version: int) -> bytes:
        """What every subkey of that version starts with, in the column families of data, ranks and times."""
        ...

    def score_prefix(self, metadata_key: bytes, version: int) -> bytes:
        """What every score record of that version starts with, in the score column family."""
        ...

    def owner_bytes(self, record: bytes) -> int:
        """How many bytes at the head of a record of a subkey, in any column family, say whose it is.

        Raises:
            CorruptionError: it is too short to say so.
        """
        ...

    def pack_metadata(self, metadata: Any) -> bytes:
        """The metadata value of anything with the attributes of `Metadata`."""
        ...

    def parse_metadata(self, value: bytes) -> Metadata:
        """What `pack_metadata` wrote; CorruptionError when it is none."""
        ...

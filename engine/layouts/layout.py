"""The Layout protocol: all that is known of how the keys of one partition lie on disk.

A record is of one `Kind`. Each kind is in one column family, which it may share with others; then its records begin
with bytes of their own. A key has one metadata record. What else it has belongs to a *version* of it:

    METADATA   what a key is: its type, when it dies, its size, or a string itself
    DATA       subkey -> value: fields, elements, members, fragments of a string
    SCORES     score and member of a sorted set -> empty
    RANKS      counts of members, of a sorted set that has that form
    TIMES      when fields die, of a hash that has that form
    EARLIER    a string as an earlier version of the layout wrote it: stands for its metadata record
    MEMBERS    member -> score of a sorted set, where DATA has none: in an index
    COUNTS     how many members it has then, in one record with an empty subkey
    NAMES      hash -> long member of a sorted set, where the index is outside of the store and has the hash
    STREAM     what a stream has: entries, groups, consumers, pending entries (engine/values/streams.py)
    STREAM_INDEX  what finds them: pending entries by consumer, counts of entries (engine/types/stream/stream_index.py)

What every layout keeps to, whatever its bytes are:

    all records of a kind begin with the same bytes, and so do those of one database
    all records of one version of a key begin with the same bytes, within their kind, and the subkey is what follows
    subkeys lie in the order of their bytes
    keys lie in one order within METADATA and EARLIER, and in one within all other kinds: the two may differ

An earlier record is read where a key has no metadata record. Whatever changes the key writes or deletes its metadata
record and deletes the earlier one, in one batch. In a layout that writes strings in the earlier form itself
(`Earlier.is_written`) it is the other way round. The counts of keys and the expiry index have such a key as any other
one. Earlier records may lie among those of another kind; `Earlier.owner` tells them apart.

A layout whose sorted sets are in an index has the kinds MEMBERS, COUNTS and NAMES, and says in the metadata of a sorted
set nothing of its size. MEMBERS and SCORES are then in one column family, in which the index is.

Who walks over records uses `engine.layouts.records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

from engine.model import Metadata


class Kind(IntEnum):
    """The kinds of records."""

    METADATA = 0
    DATA = 1
    SCORES = 2
    RANKS = 3
    TIMES = 4
    EARLIER = 5
    MEMBERS = 6
    COUNTS = 7
    NAMES = 8
    STREAM = 9
    STREAM_INDEX = 10


class Form(Enum):
    """The forms of values that we added to the layouts of others. The value is for messages."""

    FRAGMENTS = "strings in fragments"
    RANK_COUNTS = "rank counts"
    FIELD_TIMES = "fields with a time to live"
    STREAMS = "streams"
    STREAM_COUNTS = "counts of stream entries"


class Difference(Enum):
    """Differences from Redis that a layout makes, in replies or contents. The value is for messages."""

    UNCOUNTED = "hashes and sets without a count, which are written blindly"


class Earlier(Protocol):
    """The form of the records of the kind EARLIER.

    Attributes:
        is_written: strings are written in this form, all but those in fragments.
    """

    is_written: ClassVar[bool]

    def key(self, metadata_key: bytes, /) -> bytes:
        """The key of the earlier record of the string with this metadata key."""
        ...

    def owner(self, record: bytes, /) -> bytes | None:
        """The metadata key of the string whose earlier record this is; None when it is a record of another kind."""
        ...

    def beside(self, record: bytes, /) -> bytes:
        """The metadata key to which a record of another kind belongs that lies among the earlier ones."""
        ...

    def place(self, bound: bytes, /) -> bytes:
        """Where a place in the order of metadata keys, any bytes, lies in the order of earlier records.

        At or above it are the records of the metadata keys at or above `bound`; below it are those of all other ones.
        """
        ...

    def pack(self, metadata: Any, /) -> bytes:
        """The value of the earlier record of a string that is not in fragments."""
        ...

    def parse(self, value: bytes, /) -> Metadata:
        """The metadata of the string, with its content; CorruptionError when `value` is of no earlier record."""
        ...


class IsAbsent(Protocol):
    """Tells the metadata records that stand for no key from all others."""

    def __call__(self, value: bytes, /) -> bool:
        """Whether the record with this metadata value stands for no key; False when it cannot be read."""
        ...


class Layout(Protocol):
    """The form of one partition's keys on disk. An instance is bound to one partition.

    Attributes:
        name: by which a state directory knows it.
        forms: what it can hold of our own.
        differences: what it makes differ; empty where nothing does.
        families: the column family of each kind that it has.
        is_in_one_order: keys lie in the order of their metadata keys within the other kinds, too.
        earlier: the form of the records of the kind EARLIER; None where the layout does not have the kind.
        is_absent: tells metadata records that stand for no key; None where there are none. Ours never writes one.
        stamps_fields: in a hash with field times each value says when its field dies, and the metadata when the last
            one does (engine/batch/keys/field_stamps.py).
        packs_as: the name of the layout as which it packs metadata keys and values, where engine/native knows that one.
    """

    name: ClassVar[str]
    forms: ClassVar[frozenset[Form]]
    differences: ClassVar[frozenset[Difference]] = frozenset()
    families: ClassVar[Mapping[Kind, str]]
    is_in_one_order: ClassVar[bool]
    earlier: ClassVar[Earlier | None] = None
    is_absent: ClassVar[IsAbsent | None] = None
    stamps_fields: ClassVar[bool] = False
    packs_as: ClassVar[str | None] = None

    def __init__(self, partition: int, partitions: int = 1, /) -> None:
        """Bind the layout to `partition` of a log that has `partitions`."""

    # ------------------------------------------------------------------ metadata

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """The key of the metadata record of `name`; `slot` is that of the name."""
        ...

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key; CorruptionError when it is none of this partition."""
        ...

    def pack_metadata(self, metadata: Any) -> bytes:
        """The metadata value of anything with the attributes of `Metadata`.

        Attributes that no key of its type has may say anything. A string in one piece has type, `expire_ms`, `value`.
        """
        ...

    def parse_metadata(self, value: bytes) -> Metadata:
        """What `pack_metadata` wrote; CorruptionError when it is none."""
        ...

    # ------------------------------------------------------------------ what belongs to a version: DATA to TIMES

    def prefix(self, kind: Kind, metadata_key: bytes, version: int | None = None) -> bytes:
        """What all records of this kind of a key's version begin with, or of all its versions."""
        ...

    def owner(self, kind: Kind, record: bytes) -> tuple[bytes, int]:
        """The metadata key and the version to which a record of this kind belongs.

        Raises:
            CorruptionError: it is no such record.
        """
        ...

    # ------------------------------------------------------------------ many keys

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """What all records of a kind begin with, of one database or of all; empty: the kind has the family alone."""
        ...

    def slot_prefix(self, db: int, slot: int) -> bytes | None:
        """What the metadata keys of a slot begin with, and no other ones; None where they do not lie by slot."""
        ...

    def cursor_slot(self, metadata_key: bytes) -> int:
        """One of the partition's slots, which never falls along the metadata keys of a database.

        SCAN's cursor names it, so that a scan finds its place and its partition again. In a layout whose keys lie by
        slot it is the key's own.
        """
        ...

    def cursor_start(self, db: int, slot: int) -> bytes:
        """At or below every metadata key of `db` with this `cursor_slot` or a later one, and above all earlier ones."""
        ...


@runtime_checkable
class Indexing(Layout, Protocol):
    """A layout whose sorted sets are in an index, which may be outside of the store (`engine/layouts/indexed.py`)."""

    def index_name(self, metadata_key: bytes, version: int, /) -> bytes:
        """The name under which an index has a version of a sorted set: no other version of any key has it."""
        ...

    def index_owner(self, name: bytes, /) -> tuple[bytes, int] | None:
        """The metadata key and version that have a name; None where no key of the partition has it."""
        ...

    def index_item(self, member: bytes, /) -> bytes:
        """What an index has for a member: the member itself or, where that is long, a hash."""
        ...

    def index_member(self, item: bytes, /) -> bytes | None:
        """The member that an item is; None when it is the hash of a long one, or nothing of the two."""
        ...


@runtime_checkable
class Adopting(Layout, Protocol):
    """A layout that takes over states of another one as they are, with strings in earlier records.

    Attributes:
        adopts: the name of the other layout. Its records are the same ones but for strings.
    """

    adopts: ClassVar[str]

    def with_earlier(self) -> Layout:
        """The same layout for a state that may have earlier records: to look for them costs a read of each new key."""
        ...

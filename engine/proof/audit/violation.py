"""A violation, and the state that all parts of an audit share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from engine.layouts.layout import Kind, Layout
from engine.model import Metadata
from engine.store.store import Store
from engine.tables.system import UNSWAPPED, Home

KINDS: Final = {
    "unreadable": "a record that is none of those in engine/FORMAT.md, or is damaged on the disk",
    "place": "a key in a slot, a database or a partition that is not its own",
    "size": "a key has another number of elements than its metadata says",
    "list": "a list has holes, or elements outside of its ends",
    "fragments": "a string has the wrong form for its length, or a fragment of it the wrong length or place",
    "scores": "the score records of a sorted set are not its members with their scores",
    "ranks": "the rank counts of a sorted set are not those of its score records",
    "times": "the times to live of a hash's fields disagree with each other, its fields or its metadata",
    "stream": "the entries, groups, consumers or pending entries of a stream disagree with each other or its metadata",
    "expiry": "a key with a time to live is not in the expiry index, or the index says what no key does",
    "counts": "the number of keys of a database and type is not the one that is kept",
    "versions": "two have one version, or one has a version above the newest that was taken",
    "graveyard": "a grave names what is alive, is from the future, or is too small for what is stored under it",
    "orphans": "records that belong to no key, no grave and no version that is marked as not named yet",
    "dedup": "an idempotency key in the wrong bucket, or from the future",
    "watches": "a watch that no session can have, or from the future",
}
"""What can be wrong, by the word that the program says for it."""

_SHOWN_BYTES: Final = 64


class Violation(NamedTuple):
    """One thing that is wrong.

    Attributes:
        kind: one of `KINDS`.
        column_family: where it was found.
        record: key of the record there, or what all the records begin with that it is about.
        message: what is wrong, in one line.
    """

    kind: str
    column_family: str
    record: bytes
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


Violations = Iterator[Violation]


class Live(NamedTuple):
    """A key that has a metadata record; `prefixes` are what its records begin with, by their kind."""

    metadata_key: bytes
    metadata: Metadata
    prefixes: Mapping[Kind, bytes]


@dataclass(slots=True)
class State:
    """One state and what it says of itself; None where that cannot be read.

    Attributes:
        counted: the stored counts, by (stored db, type code).
        set_back_ms: the latest time from which the clock was set back; 0: it never was.
        stored_dbs: by logical database, the number under which its records are stored.
        keys: how many metadata records were read so far.
        found: the keys that are there, by (stored db, type code).
        unread: keys whose metadata cannot be read, by stored db.
    """

    store: Store
    home: Home
    layout: Layout
    next_offset: int | None = None
    clock_ms: int | None = None
    last_version: int | None = None
    set_back_ms: int = 0
    counted: dict[tuple[int, int], int] = field(default_factory=dict)
    stored_dbs: tuple[int, ...] = UNSWAPPED
    keys: int = 0
    found: dict[tuple[int, int], int] = field(default_factory=dict)
    unread: dict[int, int] = field(default_factory=dict)

    @property
    def metadata_cf(self) -> str:
        """The column family that has the metadata."""
        return self.layout.families[Kind.METADATA]

    def name_of(self, metadata_key: bytes) -> str:
        """The name and logical database of a key with a good metadata key, for messages."""
        stored, _, name = self.layout.parse_metadata_key(metadata_key)
        db = self.stored_dbs.index(stored) if stored in self.stored_dbs else stored
        return f"{shown(name)} of database {db}"

    def is_future(self, time_ms: int) -> bool:
        """Whether a time is one that the clock has never reached."""
        return self.clock_ms is not None and time_ms > max(self.clock_ms, self.set_back_ms)


class Tally:
    """A multiset of byte strings as a count and a hash: two are equal when they took the same strings."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def add(self, item: bytes) -> None:
        """Count one more byte string."""
        self.count += 1
        self.total += int.from_bytes(blake2b(item, digest_size=8).digest())

    def agrees(self, other: Tally) -> bool:
        """Whether the same ones came to `other`; that this is wrong has a chance of 2**-64."""
        return self.count == other.count and self.total == other.total


def shown(text: bytes) -> str:
    """Bytes for a message, as Python writes them; a long value is cut."""
    return repr(text) if len(text) <= _SHOWN_BYTES else f"{text[:_SHOWN_BYTES]!r}… ({len(text)} bytes)"


def several(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

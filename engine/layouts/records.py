"""Finds the records of keys, in any layout: by column family and by the bytes that they begin with.

This is the one place that says of which kinds a type has records, and the one that walks over all keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from engine.layouts.layout import Kind, Layout
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.store.store import Store
from engine.values.encoding import prefix_end

KINDS: Final[Mapping[int, tuple[Kind, ...]]] = {
    STRING: (Kind.DATA,),
    HASH: (Kind.DATA, Kind.TIMES),
    LIST: (Kind.DATA,),
    SET: (Kind.DATA,),
    ZSET: (Kind.DATA, Kind.SCORES, Kind.RANKS),
}
"""Of which kinds a key may have records beside its metadata, by its type: in one form of it or another."""

SUBKEY_KINDS: Final[tuple[Kind, ...]] = tuple(kind for kind in Kind if kind != Kind.METADATA)
"""The kinds of records that belong to a version of a key."""


class RecordRange(NamedTuple):
    """The records of one kind that begin with `prefix`; all of the column family when that is empty."""

    kind: Kind
    column_family: str
    prefix: bytes

    @property
    def end(self) -> bytes | None:
        """The smallest key above all of them, None where there is none."""
        return prefix_end(self.prefix) if self.prefix else None

    def scan(self, store: Store) -> Iterator[tuple[bytes, bytes]]:
        """The records in their order, whole keys and values."""
        return store.scan(self.column_family, self.prefix, self.end)


def column_families(layout: Layout | type[Layout]) -> tuple[str, ...]:
    """The column families of a layout, each once."""
    return tuple(dict.fromkeys(layout.families.values()))


def all_records(layout: Layout, kind: Kind, db: int | None = None) -> RecordRange:
    """All records of a kind, of one database given by its stored number, or of all."""
    return RecordRange(kind, layout.families[kind], layout.kind_prefix(kind, db))


def slot_records(layout: Layout, db: int, slot: int) -> RecordRange:
    """Metadata records of one database among which are those of a slot: no other ones, where keys lie by slot."""
    prefix = layout.slot_prefix(db, slot)
    metadata = all_records(layout, Kind.METADATA, db)
    return metadata if prefix is None else metadata._replace(prefix=prefix)


def version_records(layout: Layout, kind: Kind, metadata_key: bytes, version: int) -> RecordRange:
    """The records of a kind of one version of a key."""
    return RecordRange(kind, layout.families[kind], layout.prefix(kind, metadata_key, version))


def prefixes_of(layout: Layout, metadata_key: bytes, version: int | None) -> dict[Kind, bytes]:
    """The prefix of the records of one version of a key, or of all versions, by kind."""
    return {kind: layout.prefix(kind, metadata_key, version) for kind in SUBKEY_KINDS if kind in layout.families}


def records_of(layout: Layout, metadata_key: bytes, version: int, type_code: int | None = None) -> list[RecordRange]:
    """Where one version of a key of this type, or of any, may have records beside its metadata."""
    kinds = SUBKEY_KINDS if type_code is None else KINDS[type_code]
    return [version_records(layout, kind, metadata_key, version) for kind in kinds if kind in layout.families]


def metadata_records(store: Store, layout: Layout, db: int | None = None) -> Iterator[tuple[bytes, bytes]]:
    """The metadata key and value of every key of one database, given by its stored number, or of all.

    By database, and in each one in the order of the layout.
    """
    return all_records(layout, Kind.METADATA, db).scan(store)

"""Finds the records of keys, in any layout: by column family and by the bytes that they begin with.

This is the one place that says of which kinds a type has records, and the one that walks over all keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from operator import itemgetter
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.layouts.layout import Earlier, Kind, Layout
from engine.model import HASH, LIST, SET, STREAM, STRING, UNCOUNTED_FROM, ZSET, Metadata
from engine.store.store import Get, Store
from engine.values.encoding import prefix_end

KINDS: Final[Mapping[int, tuple[Kind, ...]]] = {
    STRING: (Kind.DATA,),
    HASH: (Kind.DATA, Kind.TIMES),
    LIST: (Kind.DATA,),
    SET: (Kind.DATA,),
    ZSET: (Kind.DATA, Kind.SCORES, Kind.RANKS, Kind.MEMBERS, Kind.COUNTS, Kind.NAMES),
    STREAM: (Kind.STREAM, Kind.STREAM_INDEX),
}
"""Of which kinds a key may have records beside its metadata, by its type: in one form of it or another."""

SUBKEY_KINDS: Final[tuple[Kind, ...]] = tuple(kind for kind in Kind if kind not in {Kind.METADATA, Kind.EARLIER})
"""The kinds of records that belong to a version of a key."""

Found = Iterator[tuple[bytes, bytes | None]]
"""Metadata keys and the values of earlier records, None where a key has records of another kind."""

_UNREADABLE: Final = b""


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


def order_families(layout: Layout | type[Layout]) -> frozenset[str]:
    """The column families with nothing but the order of sorted sets: records that are written anywhere among others."""
    others = {family for kind, family in layout.families.items() if kind not in {Kind.SCORES, Kind.RANKS}}
    return frozenset({*layout.families.values()} - others)


def counter_families(layout: Layout | type[Layout]) -> frozenset[str]:
    """The column families with nothing but rank counts: values of one size, of which each ZADD replaces some."""
    others = {family for kind, family in layout.families.items() if kind is not Kind.RANKS}
    return frozenset({*layout.families.values()} - others)


def metadata_families(layout: Layout | type[Layout]) -> frozenset[str]:
    """The column family of metadata, which every command looks up first."""
    return frozenset({layout.families[Kind.METADATA]})


def has_index(layout: Layout | type[Layout]) -> bool:
    """Whether sorted sets are in an index: with records of the kind MEMBERS."""
    return Kind.MEMBERS in layout.families


def element_kind(layout: Layout, type_code: int) -> Kind:
    """The kind of the records that have the elements of a type, in the order of their subkeys."""
    if type_code == STREAM:
        return Kind.STREAM
    return Kind.MEMBERS if type_code == ZSET and has_index(layout) else Kind.DATA


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


def is_without_elements(store: Store, layout: Layout, metadata_key: bytes, metadata: Metadata) -> bool:
    """Whether a key has neither a count nor an element, so that no read finds it. Costs a look at the first element.

    A sorted set has both, wherever its count is.
    """
    if metadata.size < UNCOUNTED_FROM or metadata.type in {ZSET, STREAM}:
        return False
    return next(version_records(layout, Kind.DATA, metadata_key, metadata.version).scan(store), None) is None


def prefixes_of(layout: Layout, metadata_key: bytes, version: int | None) -> dict[Kind, bytes]:
    """The prefix of the records of one version of a key, or of all versions, by kind."""
    return {kind: layout.prefix(kind, metadata_key, version) for kind in SUBKEY_KINDS if kind in layout.families}


def records_of(layout: Layout, metadata_key: bytes, version: int, type_code: int | None = None) -> list[RecordRange]:
    """Where one version of a key of this type, or of any, may have records beside its metadata."""
    kinds = [kind for kind in (SUBKEY_KINDS if type_code is None else KINDS[type_code]) if kind in layout.families]
    if type_code == ZSET and has_index(layout):
        kinds.remove(Kind.DATA)
    return [version_records(layout, kind, metadata_key, version) for kind in kinds]


def metadata_records(store: Store, layout: Layout, db: int | None = None) -> Iterator[tuple[bytes, bytes]]:
    """The metadata key and value of every key of one database, given by its stored number, or of all.

    By database, and in each one in the order of the layout.
    """
    records = all_records(layout, Kind.METADATA, db)
    return scan_metadata(store, layout, records.prefix, records.end)


# ---------------------------------------------------------------------- wherever a key has its metadata


def scan_metadata(
    store: Store, layout: Layout, start: bytes, end: bytes | None, *, reverse: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """The metadata key and value of every key with `start <= metadata key < end`, in order, or against it.

    Both lie among those of one database or of all. Of an earlier record the value is what it would be in the metadata.
    Where other records lie among the earlier ones, it costs up to three seeks for each key that has any.
    """
    current = store.scan(layout.families[Kind.METADATA], start, end, reverse=reverse)
    is_absent, earlier = layout.is_absent, layout.earlier
    if is_absent is not None:
        current = (record for record in current if not is_absent(record[1]))
    if earlier is None:
        return current
    first, last = earlier.place(start), None if end is None else earlier.place(end)
    found = (_upwards if not reverse else _downwards)(store, layout, earlier, first, last)
    old = ((owner, value if value is None else _current(layout, earlier, value)) for owner, value in found)
    return _first_of_each(merge(current, old, key=itemgetter(0), reverse=reverse))


def metadata_getter(store: Store, layout: Layout) -> Get:
    """A function from metadata key to metadata value, None where there is no such key."""
    get, get_earlier = current_getter(store, layout), earlier_getter(store, layout)
    if get_earlier is None:
        return get

    def get_either(metadata_key: bytes) -> bytes | None:
        value = get(metadata_key)
        return get_earlier(metadata_key) if value is None else value

    return get_either


def current_getter(store: Store, layout: Layout) -> Get:
    """As `metadata_getter`, but of metadata records alone."""
    get, is_absent = store.getter(layout.families[Kind.METADATA]), layout.is_absent
    if is_absent is None:
        return get

    def get_present(metadata_key: bytes) -> bytes | None:
        value = get(metadata_key)
        return None if value is None or is_absent(value) else value

    return get_present


def earlier_getter(store: Store, layout: Layout) -> Get | None:
    """A function from metadata key to the value of the earlier record, as it would be in the metadata.

    It gives None where there is no such record; itself it is None where the layout does not have the kind.
    """
    earlier = layout.earlier
    if earlier is None:
        return None
    get, key_of = store.getter(layout.families[Kind.EARLIER]), earlier.key

    def get_earlier(metadata_key: bytes) -> bytes | None:
        value = get(key_of(metadata_key))
        return None if value is None else _current(layout, earlier, value)

    return get_earlier


def earlier_keys(store: Store, layout: Layout, start: bytes) -> Iterator[bytes]:
    """The metadata keys of the strings that have an earlier record, from `start` on; empty: all of them."""
    earlier = layout.earlier
    if earlier is not None:
        records = all_records(layout, Kind.EARLIER)
        first = max(earlier.place(start), records.prefix) if start else records.prefix
        yield from (owner for owner, value in _upwards(store, layout, earlier, first, records.end) if value is not None)


def records_of_kind(store: Store, layout: Layout, kind: Kind) -> Iterator[tuple[bytes, bytes]]:
    """All records of a kind, but METADATA, without the earlier ones that may lie among them."""
    records = all_records(layout, kind).scan(store)
    earlier = layout.earlier
    if earlier is None or layout.families[kind] != layout.families[Kind.EARLIER]:
        return records
    return (record for record in records if earlier.owner(record[0]) is None)


def shadowed_records(store: Store, layout: Layout) -> Iterator[tuple[bytes, bytes]]:
    """The key of every earlier record whose string has a metadata record too, and that record's key: damage."""
    earlier = layout.earlier
    if earlier is not None:
        get = store.getter(layout.families[Kind.METADATA])
        records = all_records(layout, Kind.EARLIER)
        for owner, value in _upwards(store, layout, earlier, records.prefix, records.end):
            if value is not None and get(owner) is not None:
                yield earlier.key(owner), owner


def _current(layout: Layout, earlier: Earlier, value: bytes) -> bytes:
    try:
        return layout.pack_metadata(earlier.parse(value))
    except CorruptionError:
        return _UNREADABLE  # whoever parses it meets the damage where it expects damage: at one key


def _upwards(store: Store, layout: Layout, earlier: Earlier, first: bytes, last: bytes | None) -> Found:
    """The earlier records with `first <= key < last`: the metadata key and the value of each, in order.

    Where records of other kinds lie among them, the walk goes from key to key, past all that a key has. With each such
    key it gives None, so that who merges it with others asks it no further than need be.
    """
    family = layout.families[Kind.EARLIER]
    get = store.getter(family)
    while last is None or first < last:
        for record, value in store.scan(family, first, last):
            owner = earlier.owner(record)
            if owner is None:
                break
            yield owner, value
        else:
            return
        beside = earlier.beside(record)
        yield beside, None
        string = earlier.key(beside)
        if record < string:
            yield beside, get(string)
        if not beside.rstrip(b"\xff"):
            return  # damage, above all keys
        first = prefix_end(beside)


def _downwards(store: Store, layout: Layout, earlier: Earlier, first: bytes, last: bytes | None) -> Found:
    """The same against the order."""
    family = layout.families[Kind.EARLIER]
    get = store.getter(family)
    while last is None or first < last:
        for record, value in store.scan(family, first, last, reverse=True):
            owner = earlier.owner(record)
            if owner is None:
                break
            yield owner, value
        else:
            return
        last = beside = earlier.beside(record)
        yield beside, None
        string = earlier.key(beside)
        if first <= string < record:
            yield beside, get(string)


def _first_of_each(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[tuple[bytes, bytes]]:
    """The records that have a value, without those whose key has just been."""
    before = None
    for key, value in records:
        if value is not None and key != before:
            yield key, value
            before = key

"""Reads the stored keys of a state without the bytes of any layout, and damages them."""

from __future__ import annotations

from engine.layouts.layout import Kind
from engine.layouts.records import RecordRange, all_records, metadata_records, records_of_kind
from engine.model import Metadata
from engine.store.store import Changes, Store
from slotlog.shared.slots import slot
from tests.layouts import layout_of


def range_of(kind: Kind) -> RecordRange | None:
    """Where the records of a kind are; None: the layout has no such kind, or they may lie among others."""
    layout = layout_of()
    return all_records(layout, kind) if kind in layout.families and kind != Kind.EARLIER else None


def stored(store: Store, kind: Kind) -> dict[bytes, bytes]:
    """All records of one kind, strings in earlier records as metadata; none of a kind that the layout does not have."""
    layout = layout_of()
    if kind == Kind.METADATA:
        return dict(metadata_records(store, layout))
    return {} if range_of(kind) is None else dict(records_of_kind(store, layout, kind))


def written(changes: Changes, kind: Kind) -> dict[bytes, bytes | None]:
    """What a batch puts and deletes of one kind; a string in an earlier record counts as metadata, and nowhere else."""
    layout, records = layout_of(), range_of(kind)
    if records is None:
        return {}
    values = changes.values.get(records.column_family, {})
    of_kind = {key: value for key, value in values.items() if key.startswith(records.prefix)}
    earlier = layout.earlier
    if earlier is None:
        return of_kind
    if kind != Kind.METADATA:
        return {key: value for key, value in of_kind.items() if earlier.owner(key) is None}
    for record, value in changes.values.get(layout.families[Kind.EARLIER], {}).items():
        owner = earlier.owner(record)
        if owner is not None and (value is not None or owner not in of_kind):
            of_kind[owner] = None if value is None else layout.pack_metadata(earlier.parse(value))
    return of_kind


def is_of(kind: Kind, column_family: str, key: bytes) -> bool:
    """Whether a key of that column family, or one where a scan begins, is of that kind."""
    records = range_of(kind)
    return records is not None and records.column_family == column_family and key.startswith(records.prefix)


def key_of(name: bytes, db: int = 0) -> bytes:
    """The metadata key of a name."""
    return layout_of().metadata_key(db, slot(name), name)


def prefix_of(name: bytes, version: int, kind: Kind = Kind.DATA, db: int = 0) -> bytes:
    """What the records of a version of a key begin with."""
    return layout_of().prefix(kind, key_of(name, db), version)


def described(store: Store) -> dict[bytes, Metadata]:
    """What the metadata of each key says, by its metadata key."""
    layout = layout_of()
    return {key: layout.parse_metadata(value) for key, value in stored(store, Kind.METADATA).items()}


def described_times(store: Store) -> dict[bytes, Metadata]:
    """The metadata of all hashes, which are in their timed form, without what not every layout says or keeps."""
    return {
        key: found._replace(version=0, times=found.times._replace(latest_ms=0))
        for key, found in described(store).items()
        if found.times is not None
    }


def subkeys_of(store: Store, name: bytes, kind: Kind = Kind.DATA, db: int = 0) -> dict[bytes, bytes]:
    """The subkeys of a key that is there, and their values."""
    prefix = prefix_of(name, described(store)[key_of(name, db)].version, kind, db)
    return {key[len(prefix) :]: value for key, value in stored(store, kind).items() if key.startswith(prefix)}


def put(store: Store, of: Kind | str, *records: tuple[bytes, bytes | None]) -> None:
    """Write records of a kind, or of a shared column family, as they are, or delete them."""
    changes, layout = Changes(), layout_of()
    changes.of(of if isinstance(of, str) else layout.families[of]).update(records)
    if of == Kind.METADATA and layout.earlier is not None and layout.earlier.is_written:
        for key, _ in records:  # where the string was, if it was one
            changes.of(layout.families[Kind.EARLIER])[layout.earlier.key(key)] = None
    store.write(changes)

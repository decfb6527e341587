"""Walks over a whole state: its stored records, or the keys that are alive at a time.

Both stream: a hash of a million fields passes through one record at a time; a string is one piece. Do not write to the
store during a walk over keys: a key's content is read after its metadata, and would come from the newer state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from engine.batch.keys import fragments
from engine.batch.keys.field_stamps import bare
from engine.batch.keys.key import BY_FIELD, BY_TIME
from engine.layouts.layout import Kind, Layout
from engine.layouts.records import RecordRange, column_families, element_kind, metadata_records, version_records
from engine.model import HASH, LIST, SET, STREAM, STRING, UNCOUNTED_FROM, ZSET, Metadata
from engine.store.store import LOCAL_CF, SHARED_CFS, Store
from engine.tables.system import UNSWAPPED, read_stored_dbs
from engine.values.encoding import pack_u64, parse_u64

_WITH_SUBKEY: Final = {HASH: True, SET: True, ZSET: True, LIST: False, STREAM: True}
_WITH_VALUE: Final = {HASH: True, SET: False, ZSET: True, LIST: True, STREAM: True}


class LiveKey(NamedTuple):
    """One key. `expire_ms` is absolute, 0 for never; `type` is a type code of `engine.model`.

    `content` can be walked through once, before the next key is asked for or after, and so can `field_times`, the
    fields of a hash that have a time to live, in order of their bytes, and when each of them dies:

        string   the value
        list     the elements, first to last
        set      the members in order of their bytes
        hash     field, value, field, value, … in order of the fields' bytes
        zset     member, score, member, score, … in order of the members' bytes, a score as
        `engine.values.encoding.pack_score`
        stream   the last id, the highest one deleted, `[entries added:8]`, then subkey, value, subkey, value, … of its
        records in the order of the subkeys (engine/values/stream_records.py)
    """

    db: int
    name: bytes
    type: int
    expire_ms: int
    content: Iterator[bytes]
    field_times: Iterable[tuple[bytes, int]] = ()


def raw_records(store: Store, layout: Layout) -> Iterator[tuple[str, bytes, bytes]]:
    """Every stored record but the node-local ones, as (column family, key, value), by column family and key.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    names = dict.fromkeys((*SHARED_CFS, *column_families(layout)))
    for name in sorted(names):
        if name != LOCAL_CF:
            for key, value in store.scan(name, b"", None):
                yield name, key, value


def live_keys(store: Store, layout: Layout, now_ms: int) -> Iterator[LiveKey]:
    """The keys of all logical databases that are alive at `now_ms` and not empty, in the order of the store.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    stored_dbs = read_stored_dbs(store)
    if stored_dbs == UNSWAPPED:
        yield from _live_in(store, layout, now_ms, None, None)
        return
    for db, stored in enumerate(stored_dbs):
        yield from _live_in(store, layout, now_ms, stored, db)


def _live_in(
    store: Store, layout: Layout, now_ms: int, stored_db: int | None, logical_db: int | None
) -> Iterator[LiveKey]:
    """The live keys of one database, None for all; `logical_db` is None where it is the one that they name."""
    for record, value in metadata_records(store, layout, stored_db):
        metadata = layout.parse_metadata(value)
        if 0 < metadata.expire_ms <= now_ms:
            continue
        stored, _, name = layout.parse_metadata_key(record)
        db = stored if logical_db is None else logical_db
        if metadata.times is None:
            content = _content(store, layout, record, metadata)
            if metadata.size >= UNCOUNTED_FROM:
                first = next(content, None)
                if first is None:
                    continue  # empty: as if it were not there
                content = chain((first,), content)
            yield LiveKey(db, name, metadata.type, metadata.expire_ms, content)
            continue
        data, times = (version_records(layout, kind, record, metadata.version) for kind in (Kind.DATA, Kind.TIMES))
        value_of = bare if layout.stamps_fields else bytes
        pairs = ((field, value_of(value)) for field, value, _ in _fields(store, data, times, now_ms))
        content = (piece for pair in pairs for piece in pair)
        field_times = ((field, ms) for field, _, ms in _fields(store, data, times, now_ms) if ms)
        yield LiveKey(db, name, HASH, metadata.times.own_expire_ms, content, field_times)


def _fields(store: Store, data: RecordRange, times: RecordRange, now_ms: int) -> Iterator[tuple[bytes, bytes, int]]:
    """The fields that are alive of a hash in its timed form, what is stored under them, when they die, 0 for never."""
    skip, skip_timed = len(data.prefix), len(times.prefix + BY_FIELD)
    by_field = store.scan(times.column_family, times.prefix + BY_FIELD, times.prefix + BY_TIME)
    timed = next(by_field, None)
    for record, value in data.scan(store):
        expire_ms = 0
        if timed is not None and timed[0][skip_timed:] == record[skip:]:
            expire_ms = parse_u64(timed[1])
            timed = next(by_field, None)
        if not 0 < expire_ms <= now_ms:
            yield record[skip:], value, expire_ms


def _content(store: Store, layout: Layout, metadata_key: bytes, metadata: Metadata) -> Iterator[bytes]:
    if metadata.type == STRING and not metadata.version:
        yield metadata.value
        return
    if metadata.stream is not None:
        yield from (metadata.stream.last_id, metadata.stream.max_deleted_id, pack_u64(metadata.stream.entries_added))
    data = version_records(layout, element_kind(layout, metadata.type), metadata_key, metadata.version)
    prefix, skip = data.prefix, len(data.prefix)
    if metadata.type == STRING:
        records = ((record[skip:], value) for record, value in data.scan(store))
        yield fragments.joined(fragments.of_records(records), 0, metadata.size)
        return
    if metadata.type == LIST:
        found = store.scan(data.column_family, prefix + pack_u64(metadata.head), prefix + pack_u64(metadata.tail))
    else:
        found = data.scan(store)
    with_subkey, with_value = _WITH_SUBKEY[metadata.type], _WITH_VALUE[metadata.type]
    for record, value in found:
        if with_subkey:
            yield record[skip:]
        if with_value:
            yield value

"""Walks over a whole state: its records as they are stored, or its keys as they are alive at a moment of log time.

Both stream: a hash of a million fields passes through one record at a time. Do not write to the store during a walk
over keys: a key's content is read after its metadata, and would come from the newer state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.encoding import pack_u64, prefix_end
from engine.layouts.base import HASH, LIST, SET, STRING, ZSET, Layout, Metadata
from engine.store.base import LOCAL_CF, SHARED_CFS, Store

_WITH_SUBKEY: Final = {HASH: True, SET: True, ZSET: True, LIST: False}
_WITH_VALUE: Final = {HASH: True, SET: False, ZSET: True, LIST: True}


class LiveKey(NamedTuple):
    """One key. `expire_ms` is absolute, 0 for never; `type` is a type code of `engine.layouts.base`.

    `content` can be walked through once, before the next key is asked for or after:

        string   the value
        list     the elements, first to last
        set      the members in order of their bytes
        hash     field, value, field, value, … in order of the fields' bytes
        zset     member, score, member, score, … in order of the members' bytes, a score as `engine.encoding.pack_score`
    """

    db: int
    name: bytes
    type: int
    expire_ms: int
    content: Iterator[bytes]


def raw_records(store: Store, layout: Layout) -> Iterator[tuple[str, bytes, bytes]]:
    """Every stored record but the node-local ones, as (column family, key, value), by column family and key.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    names = dict.fromkeys((*SHARED_CFS, layout.metadata_cf, layout.data_cf, layout.score_cf))
    for name in sorted(names):
        if name != LOCAL_CF:
            for key, value in store.scan(name, b"", None):
                yield name, key, value


def live_keys(store: Store, layout: Layout, now_ms: int) -> Iterator[LiveKey]:
    """The keys of all databases that are alive at `now_ms`, by database, slot, length of the name and name.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    for record, value in store.scan(layout.metadata_cf, b"", None):
        metadata = layout.parse_metadata(value)
        if 0 < metadata.expire_ms <= now_ms:
            continue
        db, _, name = layout.parse_metadata_key(record)
        yield LiveKey(db, name, metadata.type, metadata.expire_ms, _content(store, layout, record, metadata))


def _content(store: Store, layout: Layout, metadata_key: bytes, metadata: Metadata) -> Iterator[bytes]:
    if metadata.type == STRING:
        yield metadata.value
        return
    prefix = layout.subkey_prefix(metadata_key, metadata.version)
    if metadata.type == LIST:
        start, end = prefix + pack_u64(metadata.head), prefix + pack_u64(metadata.tail)
    else:
        start, end = prefix, prefix_end(prefix)
    skip = len(prefix)
    with_subkey, with_value = _WITH_SUBKEY[metadata.type], _WITH_VALUE[metadata.type]
    for record, value in store.scan(layout.data_cf, start, end):
        if with_subkey:
            yield record[skip:]
        if with_value:
            yield value

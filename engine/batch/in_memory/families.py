"""Binding keys to the column families in which their subkeys are."""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.batch.in_memory.memory import PackedMemory, rank_limits
from engine.batch.keys.field_stamps import StampedFields
from engine.batch.keys.key import FieldTimes, Key
from engine.batch.keys.stream_parts import StreamParts, StreamRecords
from engine.batch.overlaid import DICT_SUBKEYS_MAX, Scan, Subkeys
from engine.batch.ranks import rank_counts
from engine.batch.ranks.rank_records import RankCounts, RankHolders
from engine.layouts.layout import Form, Kind, Layout
from engine.layouts.records import SUBKEY_KINDS
from engine.model import HASH, SET, STREAM, ZSET, StreamMetadata, Times
from engine.store.store import Get, Store

_DATA, _SCORES, _RANKS, _TIMES = Kind.DATA, Kind.SCORES, Kind.RANKS, Kind.TIMES
_NEW_STREAM = StreamMetadata()

KEPT_TYPES: Final = frozenset({HASH, SET, ZSET})
"""Types whose elements stay in memory: in the others none is read by itself."""


class Families:
    """One partition's column families of subkeys, as functions bound once: the hot path makes one call.

    Attributes:
        stamps_fields: as in `Layout`.
    """

    __slots__ = (
        "_data", "_packed", "_parse_metadata", "_prefix", "_ranks", "_scores", "_stream", "_stream_index",
        "_times", "rank_holders", "stamps_fields",
    )  # fmt: skip

    def __init__(self, store: Store, layout: Layout, memory_bytes: int = 0, packed: PackedMemory | None = None) -> None:
        self._packed = packed
        self._parse_metadata = layout.parse_metadata
        self._prefix = layout.prefix
        self.stamps_fields = layout.stamps_fields
        kinds = {kind: bound(store, layout.families[kind]) for kind in SUBKEY_KINDS if kind in layout.families}
        self._data, self._scores = kinds[_DATA], kinds[_SCORES]
        if Form.RANK_COUNTS in layout.forms:
            self._ranks = kinds[_RANKS]
        limits = rank_limits(memory_bytes, rank_counts.HELD_MAX, rank_counts.SCORED_MAX)
        self.rank_holders = RankHolders(partial(store.keys, layout.families[_SCORES]), *limits)
        if Form.FIELD_TIMES in layout.forms:
            self._times = kinds[_TIMES]
        if Form.STREAMS in layout.forms:
            self._stream, self._stream_index = kinds[Kind.STREAM], kinds[Kind.STREAM_INDEX]

    def load(self, key: Key, stored: bytes) -> None:
        """Give `key` what its metadata record says, and bind its subkeys."""
        found = self._parse_metadata(stored)
        key.type, key.expire_ms, key.version, key.size, key.head, key.tail, key.value, ranked, times, stream = found
        key.indexed_expire_ms = key.expire_ms
        if key.version:
            self.bind(key, False)
            if ranked:
                self.bind_ranks(key, fresh=False)
            elif times is not None:
                self.bind_times(key, times, fresh=False)
                key.indexed_expire_ms = key.place
            elif stream is not None:
                self.bind_stream(key, stream, fresh=False)
            if times is None and key.size > DICT_SUBKEYS_MAX and self._packed is not None and key.type in KEPT_TYPES:
                key.data.packed = self._packed.table()

    def bind(self, key: Key, fresh: bool) -> None:
        """Bind the subkeys that every key of a type with subkeys has; `fresh`: nothing is stored under its version."""
        prefix_of = self._prefix  # called as an attribute it is not specialized; nor is a call with `*` or a keyword
        prefix = prefix_of(_DATA, key.metadata_key, key.version)
        column_family, get, scan = self._data
        key.data = Subkeys(column_family, get, scan, prefix, fresh)
        if key.type == ZSET:
            prefix = self._prefix(_SCORES, key.metadata_key, key.version)
            key.scores = Subkeys(*self._scores, prefix, fresh)
        elif key.type == STREAM and fresh:
            self.bind_stream(key, _NEW_STREAM, fresh=True)

    def bind_ranks(self, key: Key, *, fresh: bool) -> RankCounts:
        """Bind the rank counts of a sorted set."""
        prefix = self._prefix(_RANKS, key.metadata_key, key.version)
        key.ranks = ranks = RankCounts(*self._ranks, prefix, self.rank_holders, fresh=fresh)
        return ranks

    def bind_times(self, key: Key, times: Times, *, fresh: bool) -> None:
        """Bind the times to live of a hash's fields, after the fields, of which none has changed."""
        prefix = self._prefix(_TIMES, key.metadata_key, key.version)
        key.times = FieldTimes(Subkeys(*self._times, prefix, fresh=fresh), *times)
        if self.stamps_fields:
            key.data = StampedFields(*self._data, key.data.prefix, key.times, fresh=key.data.fresh)

    def bind_stream(self, key: Key, state: StreamMetadata, *, fresh: bool) -> None:
        """Bind the records of a stream, and give it its state."""
        prefix = self._prefix(Kind.STREAM, key.metadata_key, key.version)
        records = StreamRecords(*self._stream, prefix, fresh=fresh)
        prefix = self._prefix(Kind.STREAM_INDEX, key.metadata_key, key.version)
        key.stream = StreamParts(records, StreamRecords(*self._stream_index, prefix, fresh=fresh), state)

    def bind_as(self, key: Key, source: Key) -> None:
        """Bind on a copy what its source has beside those: rank counts, times to live, the state of a stream."""
        if source.ranks is not None:
            self.bind_ranks(key, fresh=True)
        if source.times is not None:
            times = source.times
            self.bind_times(key, Times(times.timed, times.own_expire_ms, times.soonest_ms), fresh=True)
        if source.stream is not None:
            self.bind_stream(key, source.stream.state(), fresh=True)


def bound(store: Store, column_family: str) -> tuple[str, Get, Scan]:
    """A column family, its point reads and its scans, as `Subkeys` takes them."""
    return column_family, store.getter(column_family), partial(store.scan, column_family)

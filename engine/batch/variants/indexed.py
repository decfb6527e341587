"""Batches over a layout whose sorted sets are in an index.

Members, score keys and counts have a column family of their own there. The metadata of a sorted set does not say how
many members it has. A record beside it does (the kind COUNTS), which is written in the same batch as the members. So
nothing is walked to find that out, wherever the index is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from engine.batch.in_memory.families import Families, bound
from engine.batch.in_memory.memory import PackedMemory
from engine.batch.in_memory.writing import broken
from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.batch.transaction import Transaction
from engine.batch.variants.uncounted import UncountedFamilies, UncountedKeyspace, UncountedOverlay, UncountedTransaction
from engine.errors import CorruptionError
from engine.layouts.layout import Difference, Kind, Layout
from engine.layouts.records import has_index
from engine.model import ZSET
from engine.store.store import Changes, Store
from engine.values.encoding import U64, pack_u64, parse_u64


def make_transaction(store: Store, layout: Layout, partition: int, **position: Any) -> Transaction:
    """The transaction of a partition whose keys have this layout; `position` as `Transaction` takes it."""
    return _kind_of(layout)(store, layout, partition, **position)


def make_families(store: Store, layout: Layout) -> Families:
    """What binds the keys of a partition to its column families, for who reads them without a transaction."""
    return _kind_of(layout).overlay_of.families_of(store, layout)


class IndexedFamilies(UncountedFamilies):
    """Binds the members of sorted sets where they are, and reads how many there are."""

    __slots__ = ("_counts_prefix", "_get_count", "_members", "_members_prefix")

    def __init__(self, store: Store, layout: Layout, memory_bytes: int = 0, packed: PackedMemory | None = None) -> None:
        super().__init__(store, layout, memory_bytes, packed)
        self._members = bound(store, layout.families[Kind.MEMBERS])
        self._members_prefix = partial(layout.prefix, Kind.MEMBERS)
        self._counts_prefix = partial(layout.prefix, Kind.COUNTS)
        self._get_count = store.getter(layout.families[Kind.COUNTS])

    def load(self, key: Key, stored: bytes) -> None:
        """As `Families.load`, and the size of a sorted set from its record.

        Raises:
            CorruptionError: there is none.
        """
        super().load(key, stored)
        if key.type == ZSET:
            count = self._get_count(self._counts_prefix(key.metadata_key, key.version)) or b""
            if len(count) != U64.size:
                raise CorruptionError(f"the index does not say how many members {key.name[:64]!r} has")
            key.size = parse_u64(count)

    def bind(self, key: Key, fresh: bool) -> None:
        """Bind as `UncountedFamilies` does, and members where they are."""
        super().bind(key, fresh)
        if key.type == ZSET:
            prefix = self._members_prefix(key.metadata_key, key.version)
            key.data = Subkeys(*self._members, prefix, fresh=fresh)


class IndexedKeyspace(UncountedKeyspace):
    """A database in which the size of a sorted set has a record of its own."""

    def record_bytes(self, key: Key) -> int:
        """As `Keyspace.record_bytes`, with that record."""
        size = super().record_bytes(key)
        if key.type == ZSET:
            size += len(self._layout.prefix(Kind.COUNTS, key.metadata_key, key.version)) + U64.size
        return size


class IndexedOverlay(UncountedOverlay):
    """The keys in memory, of which sorted sets write into an index."""

    __slots__ = ()

    families_of = IndexedFamilies
    keyspace_of = IndexedKeyspace

    def add_to(self, changes: Changes, last_version: int) -> None:
        """Add to a batch what has changed: members where they belong, and how many there are."""
        super().add_to(changes, last_version)
        layout = self._layout
        data, index = changes.of(layout.families[Kind.DATA]), changes.of(layout.families[Kind.MEMBERS])
        for key in self.touched:
            if key.type != ZSET or not key.version:
                continue
            prefix = key.data.prefix
            for member, score in key.data.changed.items():
                del data[prefix + member]  # where the pass over all keys has put it
                index[prefix + member] = score
            if key.changed:
                if key.size < 0:
                    raise broken(key, last_version)
                index[layout.prefix(Kind.COUNTS, key.metadata_key, key.version)] = pack_u64(key.size)


class IndexedTransaction(UncountedTransaction):
    """A transaction over sorted sets in an index."""

    __slots__ = ()

    overlay_of = IndexedOverlay

    def _bury(self, key: Key) -> None:
        is_sorted, version, size = key.type == ZSET, key.version, key.size
        super()._bury(key)
        if is_sorted and version:  # as if it had been written before: a reclaimer finds one with each grave
            record = self._layout.prefix(Kind.COUNTS, key.metadata_key, version)
            self.batch.of(self._layout.families[Kind.COUNTS])[record] = pack_u64(size) if size else None


def _kind_of(layout: Layout) -> type[Transaction]:
    if has_index(layout):
        return IndexedTransaction
    return UncountedTransaction if Difference.UNCOUNTED in layout.differences else Transaction

"""The keys of one partition in memory: those of the batch at hand, and as many earlier ones as fit.

A transaction is the store's only writer, so a key that is in memory is as the store has it, or newer. Measured on HSET
to 10,000 hashes: a key that is still there costs 0.6 us, one that must be read and parsed 4 to 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

from engine import native
from engine.batch.in_memory.families import Families
from engine.batch.in_memory.listings import Listings
from engine.batch.in_memory.memory import MemoryHeld, Weighed, packed_least
from engine.batch.in_memory.writing import (
    delete_databases,
    delete_earlier,
    image,
    mark_natively,
    mark_written,
    write_earlier,
    write_keys,
    write_natively,
)
from engine.batch.keys.key import Key
from engine.batch.keyspace import Keyspace
from engine.layouts.layout import Kind, Layout
from engine.layouts.records import current_getter, earlier_getter
from engine.store.store import Changes, Get, Store
from slotlog.shared.slots import slot

CACHED_BYTES_MAX: Final = 1024
"""A key with a longer name and value leaves memory with its batch."""


class Loading(NamedTuple):
    """The parts with which the hot path in C loads keys, as `Overlay.load` does.

    Attributes:
        get_metadata: reads a metadata record; None: keys may have earlier records, so Python loads all of them.
        load_stored: gives a key what its metadata record says.
        prefix_of: what the metadata keys of a stored database begin with.
        flushed: the stored databases that the batch has emptied: Python loads their keys.
        large: the keys that go with the batch.
        listings, make_listing: of `Listings`.
        held_max, scored_max: `records_max` and `scored_max` of `RankHolders`.
    """

    get_metadata: Get | None
    load_stored: Callable[[Key, bytes], None]
    prefix_of: Callable[[int], bytes]
    flushed: set[int]
    large: list[Key]
    listings: dict[bytes, bytes]
    make_listing: Callable[[Key], bytes]
    held_max: int
    scored_max: int


class Overlay:
    """The keys in memory, by the number under which their database is stored.

    Attributes:
        databases: stored database -> name -> key.
        touched: the keys that this batch has looked at, each once: what it may change. One list for ever.
        large: keys that go with the batch.
        families: binds the subkeys of a key.
        memory: what they take, and may take.
        listings: the small collections that were read whole.
    """

    __slots__ = (
        "_earlier", "_flushed", "_get_earlier", "_get_metadata", "_hot", "_layout", "_store",
        "_writes_earlier", "databases", "families", "large", "listings", "memory", "touched",
    )  # fmt: skip

    families_of: ClassVar[type[Families]] = Families

    def __init__(self, store: Store, layout: Layout, key_cache_bytes: int) -> None:
        self.databases: dict[int, dict[bytes, Key]] = {}
        self.touched: list[Key] = []
        self.large: list[Key] = []
        self._store = store
        self._layout = layout
        self._hot = native.chosen() if layout.packs_as == native.PACKS_AS else None
        packed = None if self._hot is None else self._hot.PackedMemory(packed_least(key_cache_bytes))
        self.memory = Weighed(key_cache_bytes, packed)
        self.families = self.families_of(store, layout, key_cache_bytes, packed)
        pack = None if self._hot is None else self._hot.pack_listing
        self.listings = Listings(partial(store.records, layout.families[Kind.DATA]), pack, key_cache_bytes)
        self._get_metadata = current_getter(store, layout)
        self._get_earlier = earlier_getter(store, layout)
        self._writes_earlier = layout.earlier is not None and layout.earlier.is_written
        self._earlier: list[Key] = []  # the keys of this batch that were read from earlier records
        self._flushed: set[int] = set()

    @property
    def loading(self) -> Loading | None:
        """How keys are loaded, for the hot path in C; None where it does not know how the layout packs them."""
        if self._hot is None:
            return None
        get = self._get_metadata if self._get_earlier is None else None
        prefix_of = partial(self._layout.kind_prefix, Kind.METADATA)
        listings = self.listings
        ranks = self.families.rank_holders
        return Loading(
            get, self.families.load, prefix_of, self._flushed, self.large, listings.held, listings.make,
            ranks.records_max, ranks.scored_max,
        )  # fmt: skip

    def load(self, db: int, name: bytes) -> Key:
        """The key `name` of a stored database, from the store. It is not in `databases` yet."""
        metadata_key = self._layout.metadata_key(db, slot(name), name)
        key, size = Key(db, name, metadata_key), len(name)
        get = self._get_metadata  # called as an attribute it is not specialized
        stored = None if db in self._flushed else get(metadata_key)
        if stored is not None:
            self.families.load(key, stored)
            size += len(key.value)
        elif self._get_earlier is not None and db not in self._flushed:
            self._load_earlier(key, self._get_earlier(metadata_key))
        if size > CACHED_BYTES_MAX:
            self.large.append(key)
        return key

    def is_earlier(self, key: Key) -> bool:
        """Whether this batch has just read `key` from an earlier record."""
        return bool(self._earlier) and self._earlier[-1] is key

    def keyspace(self, db: int) -> Keyspace:
        """All keys of a stored database, due ones included."""
        return Keyspace(self._store, self._layout, db, self.touched, flushed=db in self._flushed)

    def flush(self, databases: Sequence[int], changes: Changes, *, others: bool) -> None:
        """Remove every key of these stored databases, from memory and by a batch; `others`: other ones have keys."""
        new = [db for db in databases if db not in self._flushed]
        self.listings.forget_all()
        for db in databases:
            self._flushed.add(db)
            keys = self.databases.setdefault(db, {})
            for key in keys.values():
                self.memory.lose(key)
            keys.clear()
        self.touched[:] = [key for key in self.touched if key.db not in databases]
        delete_databases(databases, new if others else None, self._layout, self._store, changes)
        if not others:
            for key in self.touched:  # deleted in this batch: their entries go with the rest
                key.indexed_expire_ms = 0

    def add_to(self, changes: Changes, last_version: int) -> None:
        """Add to a batch what has changed."""
        packed = self.memory.packed
        if self._hot is None or packed is None:
            subkeys, weight = write_keys(self.touched, self._layout, changes, last_version)
        else:
            subkeys, weight = write_natively(self._hot, self.touched, self._layout, changes, last_version, packed)
        self.memory.subkeys += subkeys
        self.memory.weight += weight
        if self._earlier:
            delete_earlier(self._earlier, self._layout, changes)
        if self._writes_earlier:
            self.large += write_earlier(self.touched, self._layout, changes)

    def image(self) -> list[object]:
        """What `add_to` would add, to be compared with another image. Slow: for tests."""
        return image(self.touched, self._layout)

    def keep(self) -> None:
        """The batch is written: make its keys ready for the next one, and forget what is too much."""
        if self._hot is None:
            mark_written(self.touched, self.listings)
        else:
            mark_natively(self._hot, self.touched, self.listings)
        for key in self.large:
            if (known := self.databases[key.db].pop(key.name, None)) is not None:
                self.memory.lose(known)
        self.families.rank_holders.cut_members()
        self.memory.cut(self.databases, self.families.rank_holders.bytes)
        self._end()

    def let_go(self, key: Key) -> None:
        """Keep no subkeys of `key`: they go, or are bound anew."""
        self.listings.forget(key.data.prefix)
        self.memory.subkeys += key.data.let_go()

    def weigh_read(self) -> None:
        """Weigh the keys that reads alone have loaded: `add_to` does so with those of a batch."""
        self.memory.weigh(self.touched)

    def held(self) -> MemoryHeld:
        """What is in memory now."""
        keys = sum(map(len, self.databases.values()))
        return self.memory.held(keys, self.families.rank_holders.bytes, self.listings.bytes)

    def forget(self) -> None:
        """The batch is thrown away, and every key with it."""
        self.databases.clear()
        self.listings.forget_all()
        self.memory.clear()
        self._end()

    def _load_earlier(self, key: Key, stored: bytes | None) -> None:
        """Give `key` what its earlier record says. It goes with the batch, so that the next one looks where it is."""
        if stored is not None:
            self.families.load(key, stored)
            self._earlier.append(key)
            self.large.append(key)

    def _end(self) -> None:
        self.large.clear()
        self._earlier.clear()
        self.touched.clear()
        self._flushed.clear()

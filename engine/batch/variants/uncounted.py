"""Batches over a layout without counts: HSET, HDEL, SADD and SREM write without a read.

So nobody knows when the last element goes. The metadata record stays, with its time to live, and a key without an
element is *empty*. Every command that reads finds nothing there, as if it were due. One that writes blindly goes on
with it.
DBSIZE counts it until it is deleted, replaced or due. An element more or less is no change of the metadata record,
which is written when the key is made and when its time to live changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from engine.batch.in_memory.families import Families
from engine.batch.in_memory.overlay import Overlay
from engine.batch.keys.key import Key
from engine.batch.keyspace import Keyspace, StoredKey
from engine.batch.overlaid import Subkeys
from engine.batch.transaction import Transaction
from engine.errors import WRONG_TYPE, CommandError
from engine.layouts.layout import Layout
from engine.layouts.records import is_without_elements
from engine.model import HASH, SET, UNCOUNTED, UNCOUNTED_FROM
from engine.store.store import Changes, Store

TYPES: Final = frozenset({HASH, SET})
"""The types of keys that have no count."""


class BlindSubkeys(Subkeys):
    """The subkeys of a key without a count.

    Attributes:
        named: the metadata record in the store has this version.
    """

    __slots__ = ("named",)

    named: bool

    def before_put(self, subkey: bytes) -> bytes | None:
        """None: whatever is put counts as new."""
        return None

    def before_remove(self, subkey: bytes) -> bytes | None:
        """Something: whatever is removed counts as there."""
        return b""


class UncountedFamilies(Families):
    """Binds keys without a count to `BlindSubkeys`."""

    __slots__ = ()

    def bind(self, key: Key, fresh: bool) -> None:
        """Bind as `Families` does, and blindly what has no count."""
        super().bind(key, fresh)
        if key.type in TYPES:
            data = BlindSubkeys(*self._data, key.data.prefix, fresh=fresh)
            data.named = not fresh
            key.data = data


class UncountedKeyspace(Keyspace):
    """A database in which an empty key is not alive."""

    def __init__(
        self, store: Store, layout: Layout, db: int, touched: Sequence[Key], *, flushed: bool, keys: dict[bytes, Key]
    ) -> None:
        super().__init__(store, layout, db, touched, flushed=flushed)
        self._store = store
        self._keys = keys

    def scan(self, start: bytes = b"", end: bytes | None = None) -> Iterator[StoredKey]:
        """The keys, and whether each is empty: a look at the first of its elements."""
        return (entry._replace(is_empty=self._is_empty(entry)) for entry in super().scan(start, end))

    def _is_empty(self, entry: StoredKey) -> bool:
        key = self._keys.get(entry.name)
        if key is not None and key.version == entry.metadata.version:
            return is_empty(key)
        return is_without_elements(self._store, self._layout, self._prefix + entry.position, entry.metadata)


class UncountedOverlay(Overlay):
    """The keys in memory, of which an element more or less is no change of the metadata."""

    __slots__ = ()

    families_of = UncountedFamilies
    keyspace_of: ClassVar[type[UncountedKeyspace]] = UncountedKeyspace

    def keyspace(self, db: int) -> Keyspace:
        """All keys of a stored database, due and empty ones included."""
        keys, flushed = self.databases.get(db, {}), db in self._flushed
        return self.keyspace_of(self._store, self._layout, db, self.touched, flushed=flushed, keys=keys)

    def add_to(self, changes: Changes, last_version: int) -> None:
        """Add to a batch what has changed: no metadata record that the store has already."""
        for key in self.touched:
            if key.type in TYPES and _is_named(key) and key.expire_ms == key.indexed_expire_ms:
                key.changed = False
        super().add_to(changes, last_version)

    def keep(self) -> None:
        """The batch is written, and so are the metadata records of its keys."""
        for key in self.touched:
            if key.type in TYPES and isinstance(key.data, BlindSubkeys):
                key.data.named = True
        super().keep()


class UncountedTransaction(Transaction):
    """A transaction in which nobody but who writes blindly finds an empty key."""

    __slots__ = ()

    overlay_of = UncountedOverlay

    def find(self, name: bytes) -> Key | None:
        """The key `name` when it is alive and not empty."""
        key = super().find(name)
        return None if key is None or is_empty(key) else key

    def find_typed(self, name: bytes, type_code: int) -> Key | None:
        """As `find`; WRONGTYPE when it has another type."""
        key = self.find(name)
        if key is not None and key.type != type_code:
            raise CommandError(WRONG_TYPE)
        return key

    def find_to_write(self, name: bytes, type_code: int) -> Key | None:
        """As `find_typed`, but an empty key of this type as well: nobody looks."""
        key = super().find(name)
        if key is not None and key.type != type_code:
            return self.find_typed(name, type_code)
        return key

    def create(self, name: bytes, type_code: int) -> Key:
        """A new collection, with no count where its type has none."""
        key = super().create(name, type_code)
        if type_code in TYPES:
            key.size = UNCOUNTED
        return key

    def _bury(self, key: Key) -> None:
        if key.type in TYPES:
            key.size = UNCOUNTED
        super()._bury(key)


def is_empty(key: Key) -> bool:
    """Whether nothing is left of the elements of a key that has no count."""
    return key.type in TYPES and key.size >= UNCOUNTED_FROM and not key.has_more_than(0)


def _is_named(key: Key) -> bool:
    # A key that has no version has no subkeys either: `write_keys` refuses it.
    return bool(key.version) and isinstance(key.data, BlindSubkeys) and key.data.named

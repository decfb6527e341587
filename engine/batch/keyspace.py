"""The keys of one database in the order in which the layout stores them.

What a batch has changed and not written yet is part of it. A *position* is where a key stands in that order: its
metadata key less what all keys of the database begin with. Positions compare as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.layouts.layout import Kind, Layout
from engine.layouts.records import all_records, metadata_getter, scan_metadata
from engine.model import NONE, Metadata
from engine.store.store import Store


class StoredKey(NamedTuple):
    """One key with a metadata record, which may be due, or empty where the layout keeps no count."""

    position: bytes
    name: bytes
    metadata: Metadata
    is_empty: bool = False

    def is_alive(self, now_ms: int) -> bool:
        """Whether the key is neither due nor empty."""
        return not (self.is_empty or 0 < self.metadata.expire_ms <= now_ms)


class Keyspace:
    """The keys stored under database number `db` in `store`, and over them the keys that a batch has `touched`.

    With `flushed` nothing of what is stored counts.
    """

    def __init__(self, store: Store, layout: Layout, db: int, touched: Iterable[Key], *, flushed: bool) -> None:
        self._layout = layout
        self._db = db
        _, name, self._prefix = all_records(layout, Kind.METADATA, db)

        def scan(start: bytes, end: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
            return scan_metadata(store, layout, start, end, reverse=reverse)

        self.records = Subkeys(name, metadata_getter(store, layout), scan, self._prefix, fresh=flushed)
        """Position -> metadata value."""
        skip = len(self._prefix)
        for key in touched:
            if key.changed and key.db == db:
                value = None if key.type == NONE else layout.pack_metadata(key)
                self.records.changed[key.metadata_key[skip:]] = value

    def start_of(self, slot: int) -> bytes:
        """The lowest position that a key can have of which SCAN's cursor names this slot."""
        return self._layout.cursor_start(self._db, slot)[len(self._prefix) :]

    def end_of(self, slot: int) -> bytes | None:
        """A position above all keys of this slot and at or below those of the next; None: nothing comes behind it."""
        end = self._layout.cursor_start(self._db, slot + 1)
        return end[len(self._prefix) :] if end.startswith(self._prefix) else None

    def slot_of(self, entry: StoredKey) -> int:
        """The slot that SCAN's cursor names for a key; it never falls along the positions."""
        return self._layout.cursor_slot(self._prefix + entry.position)

    def scan(self, start: bytes = b"", end: bytes | None = None) -> Iterator[StoredKey]:
        """The keys with `start <= position < end` (None: to the last)."""
        prefix, parse_key, parse = self._prefix, self._layout.parse_metadata_key, self._layout.parse_metadata
        for position, value in self.records.scan(start, end):
            yield StoredKey(position, parse_key(prefix + position)[2], parse(value))

    def record_bytes(self, key: Key) -> int:
        """The size of what is stored of `key` beside its subkeys: its metadata record, both key and value."""
        return len(key.metadata_key) + len(self._layout.pack_metadata(key))

    def entry(self, position: bytes) -> StoredKey:
        """The key that stands at `position`."""
        return next(self.scan(position, position + b"\0"))

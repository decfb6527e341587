"""A store that records commands' reads of data records and their last batch."""

from __future__ import annotations

from collections.abc import Iterator

from engine.layouts.layout import Kind
from engine.store.memory import MemoryStore
from engine.store.store import SHARED_CFS, SYSTEM_CF, Changes, Get
from tests.engine.harness import FAMILIES
from tests.engine.stored import is_of, written


class WatchedStore(MemoryStore):
    """A store in memory.

    Attributes:
        written: the last batch, as kind or shared column family -> key -> value (None for a delete), less that of
            `system`.
        ranges: the last batch's range deletes.
        gets, scans: how many single data records were asked for, and ranges of them; the caller sets them back to 0.
        scanned: how many data records the scans gave.
    """

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.written: dict[Kind | str, dict[bytes, bytes | None]] = {}
        self.ranges: list[tuple[str, bytes, bytes]] = []
        self.gets = self.scans = self.scanned = 0

    def getter(self, column_family: str) -> Get:
        """A function from key to value, counted for data records."""
        get = super().getter(column_family)

        def counted(key: bytes) -> bytes | None:
            self.gets += is_of(Kind.DATA, column_family, key)
            return get(key)

        return counted

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records of the range; of data records, each is counted when it is taken."""
        records = super().scan(column_family, start, end, reverse=reverse)
        if not is_of(Kind.DATA, column_family, start):
            return records
        self.scans += 1
        return self._counted(records)

    def write(self, changes: Changes) -> None:
        """Apply and remember the batch."""
        super().write(changes)
        of_keys: dict[Kind | str, dict[bytes, bytes | None]] = {kind: written(changes, kind) for kind in Kind}
        shared = {name: dict(changes.values.get(name, {})) for name in SHARED_CFS if name != SYSTEM_CF}
        self.written = {of: values for of, values in (of_keys | shared).items() if values}
        self.ranges = list(changes.ranges)

    def _counted(self, records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            self.scanned += 1
            yield record

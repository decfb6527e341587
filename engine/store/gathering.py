"""Gathers batches in memory, and writes many of them to RocksDB as one in the order of their keys.

A put looks for its place in the skip list of a memtable, and each step of its way misses the processor's caches.
Neighbours take most of that way together. And what several batches have put, such as the metadata of a collection, is
written once. Measured, HSETs to 10,000 hashes: RocksDB's `write` takes 2.5 us an event in batches of 1,000, 1.3
gathered.

Batches are gathered while many follow each other, as those of one fetch from the log; any other is written at once. A
process that is killed loses what is gathered together with the position behind it, and applies it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from engine.errors import StoreBusyError, StoreFullError
from engine.store.gathered import Gathered, Records, gather, merged
from engine.store.options import SharedMemory
from engine.store.rocks import RocksStore
from engine.store.store import Changes, Get

MERGED_MAX: Final = 64
"""With more gathered records than these in its range a scan writes what is gathered, instead of merging them.

Each scan would copy them, though it may want the first alone.
"""

BYTES_MAX: Final = 4 * 1024 * 1024
"""So many bytes of a process are gathered at most, beside those of the last batch."""


class GatheringStore(RocksStore):
    """A `RocksStore` whose batches go to RocksDB later, many at once, while `is_gathering`. Reads see them at once.

    Args:
        path: the directory; it is made where there is none.
        column_families: as `RocksStore`, and so all that follows.
        memory: shared by all partitions of the process, each of which gathers an equal part of what may be gathered.
        records_max: so many records of the process are gathered at most, beside those of the last batch.
        scattered: see there.
        counters: see there.
        looked_up: see there.
        bulk: see there.

    Raises:
        As `RocksStore`.
    """

    def __init__(
        self,
        path: Path,
        column_families: Iterable[str],
        memory: SharedMemory,
        records_max: int,
        *,
        scattered: Collection[str] = (),
        counters: Collection[str] = (),
        looked_up: Collection[str] = (),
        bulk: bool = False,
    ) -> None:
        super().__init__(
            path, column_families, memory, scattered=scattered, counters=counters, looked_up=looked_up, bulk=bulk
        )
        self._gathered = {name: Gathered() for name in self._families}
        self._values = {name: gathered.values for name, gathered in self._gathered.items()}
        self._bytes = self._batches = 0
        self._is_refused = self._is_lost = False
        self._records_max = max(1, records_max // memory.stores)
        self._bytes_max = BYTES_MAX // memory.stores

    def getter(self, column_family: str) -> Get:
        """A function from key to value."""
        return self._gathered[column_family].getter(super().getter(column_family))

    def scan(self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False) -> Records:
        """The records with `start <= key < end`, as they were at this call."""
        gathered = self._between(column_family, start, end)
        if reverse:
            gathered.reverse()
        stored = super().scan(column_family, start, end, reverse=reverse)
        return merged(stored, gathered, reverse=reverse) if gathered else stored

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The first `most` keys of `scan`."""
        gathered = self._between(column_family, start, end)
        keys = super().keys(column_family, start, end, most + len(gathered))
        if not gathered:
            return keys
        replaced = dict(gathered)
        there = [key for key in keys if key not in replaced]
        there += [key for key, value in gathered if value is not None]
        there.sort()
        return there[:most]

    def records(self, column_family: str, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """The first `most` records of `scan`."""
        gathered = self._between(column_family, start, end)
        records = super().records(column_family, start, end, most + len(gathered))
        return list(islice(merged(iter(records), gathered), most)) if gathered else records

    def write(self, changes: Changes) -> None:
        """Gather `changes`, or write what is gathered and then them: where that is much, and range deletes are.

        Raises:
            StoreBusyError: as `Store.write`: nothing of `changes` was gathered.
            OSError: memory has run out before: the store has to be opened again.
            Exception: what is gathered could not be written, now or by the last `write_gathered`; or memory runs out.
        """
        if self._is_lost:
            raise OSError(f"{self.path} has lost batches that it had gathered: open it again")
        gathers = self.is_gathering and not changes.ranges
        if not gathers or self._is_refused or self._is_full():
            self.write_gathered()
        if gathers:
            self._gather(changes)
        else:
            super().write(changes)

    def _gather(self, changes: Changes) -> None:
        """Gather all of `changes`. Where that fails, some of them may be gathered: the log gives all of it again."""
        try:
            self._bytes += gather(self._values, changes.values)
        except BaseException:
            self._is_lost = True
            self._clear()
            raise
        self._batches += 1

    def _clear(self) -> None:
        for gathered in self._gathered.values():
            gathered.clear()
        self._bytes = 0

    def write_gathered(self) -> None:
        """Write what is gathered as one batch.

        It stays gathered where that fails. To be written twice is as once: the records say what is, not what changes.
        """
        if not any(self._values.values()):
            return
        changes = Changes()
        changes.values = {name: dict(records) for name, records in self._values.items() if records}
        self._is_refused, batches = True, self._batches
        super().write(changes)
        self._is_refused = False
        if batches == self._batches:  # else another one came while this one was suspended: all are written again
            self._clear()

    def close(self) -> None:
        """Write what is gathered, and close every handle.

        What RocksDB does not take now, such as of a full disk, the log of events gives again.

        Raises:
            OSError: it could not be written for another reason, or a handle not be closed; all the others are closed.
        """
        failure: Exception | None = None
        if not self._closed:
            try:
                self.write_gathered()
            except (StoreBusyError, StoreFullError):
                pass
            except Exception as error:  # noqa: BLE001 - whatever RocksDB says; the handles are to be closed first
                failure = error
        super().close()
        if failure is not None:
            raise OSError(f"{self.path} was not closed well: {failure}") from failure

    def _between(self, column_family: str, start: bytes, end: bytes | None) -> list[tuple[bytes, bytes | None]]:
        """The gathered records of a range, in order; none, if they are written now."""
        of = self._gathered[column_family]
        found = of.between(start, end, MERGED_MAX)
        if found is None:
            try:
                self.write_gathered()
            except Exception:  # noqa: BLE001 - whatever RocksDB says: the next batch meets it again, and is refused
                found = of.between(start, end, len(of.values))
        return found or []

    def _is_full(self) -> bool:
        return self._bytes > self._bytes_max or sum(map(len, self._values.values())) > self._records_max

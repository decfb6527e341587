"""A store in memory, for tests and the simulation, with the same contract as RocksDB."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from engine.store.store import SHARED_CFS, Changes, Get


class MemoryStore:
    """One dict and one sorted list of keys per column family.

    Attributes:
        is_gathering: makes no difference: nothing waits to be written.
    """

    def __init__(self, column_families: Iterable[str]) -> None:
        self._values: dict[str, dict[bytes, bytes]] = {}
        self._order: dict[str, list[bytes]] = {}
        self.is_gathering = False
        for name in (*SHARED_CFS, *column_families):
            self._values[name] = {}
            self._order[name] = []

    def getter(self, column_family: str) -> Get:
        """A function from key to value."""
        return self._values[column_family].get

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records with `start <= key < end`, as they were when the scan began."""
        values, order = self._values[column_family], self._order[column_family]
        last = len(order) if end is None else bisect_left(order, end)
        keys = order[bisect_left(order, start) : last]
        if reverse:
            keys.reverse()
        return iter([(key, values[key]) for key in keys])

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The first `most` keys of `scan`."""
        return [key for key, _ in islice(self.scan(column_family, start, end), most)]

    def records(self, column_family: str, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """The first `most` records of `scan`."""
        return list(islice(self.scan(column_family, start, end), most))

    def write(self, changes: Changes) -> None:
        """Apply the range deletes, then the puts and deletes."""
        for name, start, end in changes.ranges:
            order = self._order[name]
            first, last = bisect_left(order, start), bisect_left(order, end)
            for key in order[first:last]:
                del self._values[name][key]
            del order[first:last]
        for name, records in changes.values.items():
            self._write_column_family(name, records)

    def close(self) -> None:
        """Nothing to release: the content stays for the next user of the partition."""

    def sameness(self) -> Callable[[], bool]:
        """It is always the same."""
        return lambda: True

    def write_gathered(self) -> None:
        """Nothing waits."""

    def flush_all(self) -> None:
        """Nothing to do: there are no files."""

    def settle(self) -> bool:
        """Nothing to do: there are no files."""
        return True

    def checkpoint(self, path: str) -> None:
        """Impossible."""
        raise OSError("a store in memory has no files")

    def compact(
        self, column_family: str, start: bytes, end: bytes, go_on: Callable[[int], bool] = lambda _: True
    ) -> bool:
        """Nothing to do: what is deleted takes no room."""
        return True

    def created_s(self) -> None:
        """Nobody has noted it."""

    def stored_bytes(self) -> int:
        """No disk."""
        return 0

    def wal_bytes(self) -> int:
        """No log."""
        return 0

    def properties(self) -> dict[str, dict[str, int]]:
        """Nothing is counted."""
        return {}

    def number_of(self, name: str) -> int:
        """Nothing is counted."""
        return 0

    def _write_column_family(self, name: str, records: dict[bytes, bytes | None]) -> None:
        values, order = self._values[name], self._order[name]
        for key, value in records.items():
            if value is None:
                if values.pop(key, None) is not None:
                    del order[bisect_left(order, key)]
            elif key in values:
                values[key] = value
            else:
                values[key] = value
                insort(order, key)

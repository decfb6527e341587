"""Records the engine's gets, scans and puts, so that the floor can repeat them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.apply.machine import Machine, Record
from engine.store.store import Changes, Get, Store
from engine.tables.system import Home
from ops.config import KEY_CACHE_BYTES


class Scan(NamedTuple):
    """One scan.

    Attributes:
        begin: its first key; of a scan against the order of keys its exclusive end (None: it began at the last key).
        records: how many it gave.
        reverse: it went against the order of keys.
    """

    begin: bytes | None
    records: int
    reverse: bool


@dataclass(slots=True)
class Batch:
    """One batch: how many records went into it, and by column family what was asked of the store.

    Attributes:
        records: how many events.
        gets: the keys read.
        scans: the scans.
        puts: the pairs put.
        deletes: the keys deleted.
    """

    records: int = 0
    gets: dict[str, list[bytes]] = field(default_factory=dict)
    scans: dict[str, list[Scan]] = field(default_factory=dict)
    puts: dict[str, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    deletes: dict[str, list[bytes]] = field(default_factory=dict)


@dataclass(slots=True)
class Trace:
    """The batches of one pass over a workload."""

    batches: list[Batch]

    @property
    def records(self) -> int:
        """How many records there are."""
        return sum(batch.records for batch in self.batches)

    @property
    def gets(self) -> int:
        """How many point reads there are."""
        return sum(len(keys) for batch in self.batches for keys in batch.gets.values())

    @property
    def puts(self) -> int:
        """How many puts and deletes there are."""
        batches = self.batches
        return sum(len(pairs) for batch in batches for pairs in batch.puts.values()) + sum(
            len(keys) for batch in batches for keys in batch.deletes.values()
        )


class RecordingStore:
    """A store that writes down what goes through it.

    Attributes:
        batch: what was read since the last write, and then written.
        scanned: records that scans have given, by column family.
    """

    def __init__(self, store: Store) -> None:
        self.batch = Batch()
        self.scanned = Counter[str]()
        self._store = store

    def getter(self, column_family: str) -> Get:
        """The store's getter, with each key noted."""
        get = self._store.getter(column_family)

        def noting(key: bytes) -> bytes | None:
            self.batch.gets.setdefault(column_family, []).append(key)
            return get(key)

        return noting

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The store's scan, with what it gives counted, and noted when it has ended."""
        given = 0
        try:
            for record in self._store.scan(column_family, start, end, reverse=reverse):
                given += 1
                yield record
        finally:
            self.scanned[column_family] += given
            noted = Scan(end if reverse else start, given, reverse)
            self.batch.scans.setdefault(column_family, []).append(noted)

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The store's keys, counted and noted as a scan."""
        keys = self._store.keys(column_family, start, end, most)
        self.scanned[column_family] += len(keys)
        self.batch.scans.setdefault(column_family, []).append(Scan(start, len(keys), False))
        return keys

    def records(self, column_family: str, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """The store's records, counted and noted as a scan."""
        records = self._store.records(column_family, start, end, most)
        self.scanned[column_family] += len(records)
        self.batch.scans.setdefault(column_family, []).append(Scan(start, len(records), False))
        return records

    def write(self, changes: Changes) -> None:
        """Write, with every put and delete noted.

        Raises:
            ValueError: a range delete: no workload has one.
        """
        if changes.ranges:
            raise ValueError("the floor knows no range deletes")
        for name, records in changes.values.items():
            self.batch.puts[name] = [(key, value) for key, value in records.items() if value is not None]
            self.batch.deletes[name] = [key for key, value in records.items() if value is None]
        self._store.write(changes)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def record(store: Store, home: Home, records: Sequence[Record], batch_records: int) -> Trace:
    """Apply `records` in batches of `batch_records`, and write down what that asks of the store."""
    recording = RecordingStore(store)
    machine = Machine(recording, home, key_cache_bytes=KEY_CACHE_BYTES)
    recording.batch = Batch()  # what opening has read is no part of it
    batches = []
    at = 0
    while at < len(records):
        applied = machine.apply(records[at : at + batch_records], machine.next_offset)
        machine.commit(b"fingerprint")
        at += applied.records
        batch, recording.batch = recording.batch, Batch()
        batch.records = applied.records
        batches.append(batch)
    return Trace(batches)

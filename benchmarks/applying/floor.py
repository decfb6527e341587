"""The floor: consumes and unpacks the records and calls RocksDB, without the engine.

Gets, scans and puts are those of a `Trace`: the same keys in the same batches, in the same column families with the
same options and write-ahead log. They are prepared before the clock starts. So the floor is what a worker would cost if
the engine were free.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from msgpack import unpackb
from rocksdict import Options, Rdict, WriteBatch, WriteOptions  # noqa: TID251 - the floor has nothing of ours below it

from benchmarks.applying.trace import Batch, Scan, Trace
from benchmarks.measure import Seconds, Stopwatch
from engine.layouts.neokv import NeoKV
from engine.layouts.records import counter_families, metadata_families, order_families
from engine.store.options import SharedMemory, database_options, options_of_families
from engine.store.store import SHARED_CFS

_FETCH_RECORDS_MAX: Final = 20_000
_FETCH_WAIT_MS: Final = 200


class Floor:
    """RocksDB, opened as the engine opens it (`bulk`: for a replay), and a trace to be done on it."""

    def __init__(self, path: Path, column_families: Sequence[str], trace: Trace, *, bulk: bool = False) -> None:
        names = (*SHARED_CFS, *column_families)
        memory = SharedMemory()
        families = options_of_families(
            memory, names, order_families(NeoKV), counter_families(NeoKV), metadata_families(NeoKV), bulk=bulk
        )
        options: Options = database_options(memory)
        self._db = Rdict(str(path), options, column_families=families)
        self._families = {name: self._db.get_column_family(name) for name in names}
        self._handles = {name: self._db.get_column_family_handle(name) for name in names}
        self._write_options = WriteOptions()
        if bulk:
            self._write_options.disable_wal = True  # type: ignore[method-assign, assignment] # a property; its stub errs
        self._batches = trace.batches
        self._next = 0
        self._values: list[bytes] = []

    def take(self, values: list[bytes]) -> None:
        """The next records' values: unpack them and do their gets and puts, batch by batch, as far as batches are full.

        The unpacked events live until their batch is written, as they must where the puts are made of them.
        """
        values = self._values + values
        at = 0
        while self._next < len(self._batches) and at + self._batches[self._next].records <= len(values):
            batch = self._batches[self._next]
            events = [unpackb(value, raw=True) for value in values[at : at + batch.records]]
            self._do(batch)
            at += len(events)
            self._next += 1
        self._values = values[at:]

    def take_all(self) -> None:
        """Do all gets and puts, without any records."""
        self.do(self._batches)
        self._next = len(self._batches)

    def do(self, batches: Sequence[Batch]) -> None:
        """Do the gets and puts of these."""
        for batch in batches:
            self._do(batch)

    def close(self) -> None:
        """Close it.

        Raises:
            RuntimeError: it has not done all of its trace.
        """
        self._handles.clear()
        for family in self._families.values():
            family.close()
        self._families.clear()
        self._db.close()
        if self._next < len(self._batches):
            raise RuntimeError(f"the floor did {self._next} of {len(self._batches)} batches")

    def _do(self, batch: Batch) -> None:
        for name, keys in batch.gets.items():
            get = self._families[name].get
            for key in keys:
                get(key)
        for name, scans in batch.scans.items():
            for scan in scans:
                self._scan(name, scan)
        changes = WriteBatch(raw_mode=True)
        for name, pairs in batch.puts.items():
            changes.set_default_column_family(self._handles[name])
            for key, value in pairs:
                changes[key] = value
        for name, keys in batch.deletes.items():
            changes.set_default_column_family(self._handles[name])
            for key in keys:
                del changes[key]
        if batch.puts or batch.deletes:
            self._db.write(changes, self._write_options)

    def _scan(self, name: str, scan: Scan) -> None:
        iterator = self._families[name].iter()
        if scan.begin is None:
            iterator.seek_to_last()
        elif scan.reverse:
            iterator.seek_for_prev(scan.begin)
        else:
            iterator.seek(scan.begin)
        step = iterator.prev if scan.reverse else iterator.next
        for _ in range(scan.records):
            iterator.key()
            iterator.value()
            step()


def from_memory(floor: Floor) -> Seconds:
    """Gets and puts alone."""
    watch = Stopwatch()
    floor.take_all()
    return watch.read()


def from_sqlite(floor: Floor, path: Path, start: int, end: int) -> Seconds:
    """The records `start … end - 1` of the embedded log at `path`, read in pages."""
    watch = Stopwatch()
    at = start
    with closing(sqlite3.connect(path)) as connection:
        while at < end:
            page = connection.execute(
                "SELECT position, time_ms, key, value FROM records WHERE position >= ? ORDER BY position LIMIT ?",
                (at, _FETCH_RECORDS_MAX),
            ).fetchall()
            at += len(page)
            floor.take([value for _, _, _, value in page])
    return watch.read()


async def from_kafka(floor: Floor, bootstrap: str, topic: str, start: int, end: int) -> Seconds:
    """The records `start … end - 1` of partition 0 of `topic`, with the settings of our reader.

    Connecting counts, here as for the engine, whose reader connects at its first fetch.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="none",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    watch = Stopwatch()
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, start)
        at = start
        while at < end:
            fetched = await consumer.getmany(timeout_ms=_FETCH_WAIT_MS, max_records=_FETCH_RECORDS_MAX)
            for found in fetched.values():
                at += len(found)
                floor.take([record.value for record in found])
        return watch.read()
    finally:
        await consumer.stop()

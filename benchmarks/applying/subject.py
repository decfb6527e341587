"""Times the engine as it runs in the service: log -> reader -> worker (decode, apply, commit) -> RocksDB.

It has the options and the memory for keys that `slotlog serve` gives to a single partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.measure import Seconds, Stopwatch
from engine.apply.machine import Applied, Machine, Record
from engine.layouts.neokv import NeoKV
from engine.layouts.records import column_families, counter_families, metadata_families, order_families
from engine.proof.digest import Digest, digest
from engine.store.gathering import GatheringStore
from engine.store.options import SharedMemory
from engine.store.store import Store
from engine.tables.system import Home
from ingest.applying.batches.batch_size import BATCH_RECORDS_MAX
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver, Observer
from ops.config import GATHERED_RECORDS_MAX, KEY_CACHE_BYTES
from slotlog.log import Log

HOME: Final = Home("bench", 0, 1, NeoKV.name)
COLUMN_FAMILIES: Final = column_families(NeoKV)


class Batches(NullObserver):
    """Counts the batches."""

    def __init__(self) -> None:
        self.count = 0
        self.records = 0

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Count one batch.

        Raises:
            RuntimeError: a record was not simply applied.
        """
        if applied.rejected or applied.dead_letters:
            raise RuntimeError(f"not applied: {applied.rejections} {applied.dead_letters[:3]}")
        self.count += 1
        self.records += applied.records


def open_store(path: Path) -> GatheringStore:
    """The store of a partition, as the service opens it."""
    return GatheringStore(
        path,
        COLUMN_FAMILIES,
        SharedMemory(),
        GATHERED_RECORDS_MAX,
        scattered=order_families(NeoKV),
        counters=counter_families(NeoKV),
        looked_up=metadata_families(NeoKV),
    )


def open_machine(store: Store) -> Machine:
    """A machine over the store, as the service makes it."""
    return Machine(store, HOME, key_cache_bytes=KEY_CACHE_BYTES)


def state_digest(path: Path) -> Digest:
    """The digest of the state in `path`, which nobody has open."""
    with closing(open_store(path)) as store:
        return digest(store, NeoKV(0), Machine(store, HOME, key_cache_bytes=KEY_CACHE_BYTES).clock_ms)


def from_memory(path: Path, records: Sequence[Record], batches: Observer) -> Seconds:
    """The engine proper: decoded records in memory to RocksDB, in the worker's largest batches."""
    with closing(open_store(path)) as store:
        machine = open_machine(store)
        watch = Stopwatch()
        at = 0
        while at < len(records):
            applied = machine.apply(records[at : at + BATCH_RECORDS_MAX], machine.next_offset)
            machine.commit(b"fingerprint")
            batches.applied(0, applied, 0, 0.0)
            at += applied.records
        return watch.read()


async def from_log(path: Path, log: Log, end: int, batches: Observer) -> Seconds:
    """The whole worker: the log's records from where the state stands up to offset `end`."""
    worker = Worker(HOME, log, lambda partition: open_store(path), None, batches, key_cache_bytes=KEY_CACHE_BYTES)
    consumer = Consumer(log, {0: worker}, batches)
    try:
        await consumer.open()
        watch = Stopwatch()
        await consumer.run_to({0: end})
        return watch.read()
    finally:
        consumer.close()

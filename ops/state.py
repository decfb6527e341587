"""State directories: `DATA/<partition>/` is one RocksDB. Opening them for a service, beside one, and for a replay."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.digest import Digest, running_digest
from engine.layouts import LAYOUTS
from engine.machine import CACHED_KEYS_MAX, Machine
from engine.store.base import Store
from engine.store.rocks import RocksStore, SharedMemory
from engine.system import Home, Position, skip_changes
from ingest.worker import OpenStore
from ops.config import ConfigError, Settings
from ops.progress import progress

_PROGRESS_KEYS = 1000

REPLAYING = "REPLAYING"
"""A file with this name in a data directory says that a replay into it has not finished: it is no state yet."""


def home_of(settings: Settings, partition: int) -> Home:
    """What the settings say that the state of `partition` is."""
    return Home(settings.topic, partition, settings.partitions, settings.layout)


def partition_path(data: Path, partition: int) -> Path:
    """The RocksDB directory of `partition`."""
    return data / str(partition)


def store_opener(settings: Settings, data: Path, *, wal: bool = True) -> OpenStore:
    """A function that opens the store of a partition; all of them share one cache and memtable budget."""
    families = column_families(settings.layout)
    memory = SharedMemory(settings.cache_bytes, settings.memtable_bytes)

    def open_store(partition: int) -> Store:
        return RocksStore(partition_path(data, partition), families, memory, wal=wal)

    return open_store


def column_families(layout: str) -> tuple[str, str, str]:
    """The column families of a layout, beside the shared ones."""
    kind = LAYOUTS[layout]
    return kind.metadata_cf, kind.data_cf, kind.score_cf


def cached_keys_max(settings: Settings) -> int:
    """Keys' metadata that each partition may keep in memory, so that all of a process stay near 100 MB."""
    return max(1024, 8 * CACHED_KEYS_MAX // len(settings.owned))


def prepare_data(settings: Settings) -> None:
    """Make the data directory, readable by its owner alone.

    Raises:
        ConfigError: a replay into it never finished.
    """
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_unfinished(settings.data)


def refuse_unfinished(data: Path) -> None:
    """Raise ConfigError when a replay into `data` never finished."""
    if (data / REPLAYING).exists():
        raise ConfigError(f"{data} holds an unfinished replay; remove it and run `slotlog replay` again")


@contextmanager
def reading(settings: Settings, partition: int) -> Iterator[tuple[Store, Machine]]:
    """The state of one partition as of now, read-only, also while a service runs on it.

    Raises:
        ConfigError: there is no state of that partition.
        StateMismatchError: the state is of something else.
    """
    refuse_unfinished(settings.data)
    path = partition_path(settings.data, partition)
    if not path.is_dir():
        raise ConfigError(
            f"{settings.data} has no state of partition {partition}; run `slotlog serve` or `slotlog replay`"
        )
    memory = SharedMemory(settings.cache_bytes, settings.memtable_bytes)
    store = RocksStore(path, column_families(settings.layout), memory, read_only=True)
    try:
        yield store, Machine(store, home_of(settings, partition))
    finally:
        store.close()


def digest_partition(settings: Settings, partition: int) -> tuple[Digest, Position]:
    """The digest of one partition's state and the position that it stands for, with progress."""
    with reading(settings, partition) as (store, machine):
        position = machine.position
        result = Digest()
        layout = LAYOUTS[settings.layout](partition)
        with progress("digest", sum(position.counts.values()), "keys") as advance:
            for result in running_digest(store, layout, position.clock_ms):
                if result.keys % _PROGRESS_KEYS == 0:
                    advance(result.keys)
        return result, position


def record_skip(settings: Settings, partition: int, offset: int) -> None:
    """Keep an operator's decision to go past the record at `offset`.

    Raises:
        ConfigError: `offset` is not the next one that the partition would apply.
        OSError: a service is applying the partition: it did not stop there.
    """
    refuse_unfinished(settings.data)
    if not partition_path(settings.data, partition).is_dir():
        raise ConfigError(f"{settings.data} has no state of partition {partition}")
    store = store_opener(settings, settings.data)(partition)
    try:
        next_offset = Machine(store, home_of(settings, partition)).next_offset
        if offset != next_offset:
            raise ConfigError(
                f"partition {partition} stands before offset {next_offset}, so {offset} cannot be skipped"
            )
        store.write(skip_changes(offset))
    finally:
        store.close()


def free_space_guard(data: Path, free_bytes_min: int) -> str:
    """Why nothing may be written now; empty when the disk has room."""
    free = shutil.disk_usage(data).free
    if free < free_bytes_min:
        return f"the disk of {data} has {free} bytes left, less than the reserve of {free_bytes_min}; make room"
    return ""

"""Opens state directories, one RocksDB a partition: for a service, beside one, for a replay."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from engine.apply.machine import Machine
from engine.errors import CorruptionError, StateMismatchError
from engine.layouts import LAYOUTS
from engine.layouts.records import column_families, counter_families, metadata_families, order_families
from engine.proof.digest import Digest, running_digest
from engine.store.gathering import GatheringStore
from engine.store.options import SharedMemory
from engine.store.rocks import RocksStore
from engine.store.store import Store
from engine.tables.system import Home, Position, is_replaying, skip_changes
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state.opening.foreign import refuse_foreign
from ops.state.opening.indexed_state import StateStore, with_index
from slotlog.disk import make_directory
from slotlog.wording import sized

BUILDING = "BUILDING"
"""The file that marks a directory as long as a replay or a conversion writes into it: `building_mark.py`."""

SWAPPING = "SWAPPING"
"""The file that marks a directory as long as a rebuilt state is put in its place: `swap.py`."""

_KEY_CACHE_BYTES_MIN = 256 * 1024

_PROGRESS_KEYS = 1000
_FULL_BYTES = 1 << 20


def home_of(settings: Settings, partition: int) -> Home:
    """What the settings say that the state of `partition` is."""
    return Home(settings.topic, partition, settings.partitions, settings.layout)


def partition_path(data: Path, partition: int) -> Path:
    """The RocksDB directory of `partition`."""
    return data / str(partition)


def has_state(settings: Settings) -> bool:
    """Whether there is a state of any owned partition."""
    return any(partition_path(settings.data, partition).is_dir() for partition in settings.owned)


def state_directories(data: Path) -> list[int]:
    """The numbers of the partitions that have something in `data`, ascending: an empty directory is no state.

    Whatever else has the name of one stands for it all the same: that it cannot be read is to be said.
    """
    if not data.is_dir():
        return []
    paths = [path for path in data.iterdir() if path.name.isdecimal()]
    return sorted(int(path.name) for path in paths if not path.is_dir() or any(path.iterdir()))


def shared_memory(settings: Settings) -> SharedMemory:
    """One cache and memtable budget, for all stores of a process."""
    return SharedMemory(settings.cache_bytes, settings.memtable_bytes, len(settings.owned))


def store_opener(
    settings: Settings, data: Path, memory: SharedMemory | None = None, *, replaying: bool = False
) -> Callable[[int], StateStore]:
    """A function that opens the store of a partition; all of them share one cache and memtable budget.

    Args:
        settings: layout and memory.
        data: where the partitions' directories are.
        memory: what they share; None: as the settings say, for them alone.
        replaying: open in bulk, see `RocksStore`, also what is marked as an unfinished replay; else the function raises
            ConfigError for that. It raises StateMismatchError for a state of something else.
    """
    layout = LAYOUTS[settings.layout]
    memory = memory or shared_memory(settings)

    def open_store(partition: int) -> StateStore:
        path = partition_path(data, partition)
        _refuse_swapping(data)
        refuse_foreign(path, home_of(settings, partition))
        open_as: Callable[..., RocksStore] = RocksStore
        # An index outside of the state is written with each batch, and must not be more than one batch ahead of it.
        if settings.gathered_records_max and not settings.index.get_secret_value():
            open_as = partial(GatheringStore, records_max=settings.gathered_records_max)
        store = open_as(
            path,
            column_families(layout),
            memory,
            scattered=order_families(layout),
            counters=counter_families(layout),
            looked_up=metadata_families(layout),
            bulk=replaying,
        )
        if not replaying:
            _refuse_unfinished(store)
        return with_index(store, settings, partition)

    return open_store


def key_cache_bytes(settings: Settings) -> int:
    """What each partition may hold in memory of keys: an equal part of what the process may."""
    return max(_KEY_CACHE_BYTES_MIN, settings.key_cache_bytes // max(1, len(settings.owned)))


def prepare_data(settings: Settings) -> None:
    """Make the data directory, readable by its owner alone."""
    make_directory(settings.data)


def _refuse_unfinished(store: RocksStore) -> None:
    """Close `store` and raise ConfigError when a replay into it never finished."""
    if is_replaying(store) or (store.path.parent / BUILDING).exists():
        store.close()
        raise ConfigError(
            f"{store.path} holds an unfinished replay or conversion: run the same command again, which begins anew"
        )


def _refuse_swapping(data: Path) -> None:
    """Raise ConfigError while a rebuilt state is half in its place."""
    if (data / SWAPPING).exists():
        raise ConfigError(
            f"{data} is between two states, as a `slotlog replay --swap` was broken off: run it again, or `slotlog"
            " serve`, both of which put the rest in place first"
        )


@contextmanager
def reading(settings: Settings, partition: int) -> Iterator[tuple[Store, Machine]]:
    """The state of one partition as of now, read-only, also while a service runs on it.

    Raises:
        ConfigError: there is no state of that partition, or a replay into it never finished.
        StateMismatchError: the state is of something else.
    """
    with reading_store(settings, partition) as store:
        yield store, Machine(store, home_of(settings, partition))


@contextmanager
def reading_store(settings: Settings, partition: int) -> Iterator[StateStore]:
    """The store of one partition as of now, read-only, also while a service runs on it.

    Raises:
        ConfigError: there is no state of that partition, it is being made, or a replay into it never finished.
        StateMismatchError: it is a state of another layout.
    """
    path = partition_path(settings.data, partition)
    _refuse_swapping(settings.data)
    if not path.exists():
        others = ", ".join(map(str, state_directories(settings.data)))
        raise ConfigError(
            f"{settings.data} has no state of partition {partition}"
            + (f", but of {others}: its owner has another --data" if others else "; run `slotlog serve`")
            + " (`slotlog replay --swap` builds it from the log)"
        )
    if refuse_foreign(path, home_of(settings, partition)):
        raise ConfigError(f"{path} is being made, or its making was broken off: try again, or run `slotlog serve`")
    within = RocksStore(path, column_families(LAYOUTS[settings.layout]), shared_memory(settings), read_only=True)
    _refuse_unfinished(within)
    store = with_index(within, settings, partition, read_only=True)
    try:
        yield store
    finally:
        store.close()


def applied_to(settings: Settings, partition: int) -> int | None:
    """The offset before which the state that is here has applied everything; None: there is none that can be read."""
    if not partition_path(settings.data, partition).is_dir():
        return None
    try:
        with reading(settings, partition) as (_, machine):
            return machine.next_offset
    except (ConfigError, CorruptionError, StateMismatchError, OSError):
        return None


def digest_partition(settings: Settings, partition: int) -> tuple[Digest, Position]:
    """The digest of one partition's state and the position that it stands for, with progress."""
    with reading(settings, partition) as (store, machine):
        return digest_of(store, machine), machine.position


def digest_of(store: Store, machine: Machine) -> Digest:
    """The digest of a state that is open, with progress."""
    position = machine.position
    result = Digest()
    with progress("digest", sum(position.counts.values()), "keys") as advance:
        for result in running_digest(store, machine.layout, position.clock_ms):
            if result.keys % _PROGRESS_KEYS == 0:
                advance(result.keys)
    return result


def record_skip(settings: Settings, partition: int, offset: int, end: int) -> None:
    """Keep an operator's decision to go past the records from `offset` to before `end`.

    Raises:
        ConfigError: `offset` is not the next one that the partition would apply; or a service is applying the
            partition: it did not stop there.
        OSError: the state cannot be opened.
    """
    if not partition_path(settings.data, partition).is_dir():
        raise ConfigError(f"{settings.data} has no state of partition {partition}")
    try:
        store = store_opener(settings, settings.data)(partition)
    except BlockingIOError as error:
        raise ConfigError(
            f"{partition_path(settings.data, partition)} is open in another process: a service lets go of a partition"
            " that has stopped, and /readyz names the offset that it stopped at. To skip a record that it has not met"
            " yet, stop the service first"
        ) from error
    try:
        next_offset = Machine(store, home_of(settings, partition)).next_offset
        if offset != next_offset:
            raise ConfigError(
                f"partition {partition} stands before offset {next_offset}, so {offset} cannot be skipped"
            )
        store.write(skip_changes(offset, end))
        store.flush_all()  # an operator's decision survives a power loss
    finally:
        store.close()


def has_room_to_clean(data: Path, free_bytes_min: int, size: int) -> bool:
    """Whether a disk that is too full to apply anything has room for `size` bytes: half of the reserve is for that."""
    try:
        return shutil.disk_usage(data).free - size >= free_bytes_min // 2
    except OSError:  # the disk is gone
        return False


def is_disk_full(directory: Path) -> bool:
    """Whether a directory's disk has no room for the few files that are written where something is opened."""
    try:
        return shutil.disk_usage(directory).free < _FULL_BYTES
    except OSError:
        return False


def free_space_guard(data: Path, free_bytes_min: int) -> str:
    """Why nothing may be written now; empty when the disk has room."""
    free = shutil.disk_usage(data).free
    if free < free_bytes_min:
        return f"the disk of {data} has {sized(free)} left, less than the reserve of {sized(free_bytes_min)}; make room"
    return ""

"""Cleans the state of a stopped service in one go."""

from __future__ import annotations

from dataclasses import dataclass
from time import sleep
from typing import Final

from engine.apply.machine import Machine
from engine.cleaning.all import Gone, clean_all
from engine.cleaning.reclaim import Reclaimer
from engine.errors import StoreBusyError
from engine.store.store import Store
from engine.tables.system import Position
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state.opening.directories import home_of, partition_path, store_opener
from ops.state.opening.indexed_state import StateStore

_BUSY_SECONDS: Final = 0.1
_LAST_KEY: Final = b"\xff" * 64
"""Behind every key of every column family: none begins with so many of these bytes."""

_NOTHING: Final = Gone(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class CleanedState:
    """The result for one partition; `freed_bytes` counts RocksDB's files, negative if they grew."""

    partition: int
    position: Position
    gone: Gone
    freed_bytes: int


def clean_partition(settings: Settings, partition: int) -> CleanedState:
    """Clean one partition up to its own clock, and compact all of it; with progress.

    Raises:
        ConfigError: a service runs on it, there is no state of that partition, or a replay into it never finished.
        StateMismatchError, CorruptionError, OSError: it cannot be opened.
    """
    if not partition_path(settings.data, partition).is_dir():
        raise ConfigError(f"{settings.data} has no state of partition {partition}")
    try:
        store = store_opener(settings, settings.data)(partition)
    except BlockingIOError as error:
        raise ConfigError(
            f"{partition_path(settings.data, partition)} is open in another process: a running service cleans by "
            "itself; stop it first to have all of it cleaned at once"
        ) from error
    try:
        machine = Machine(store, home_of(settings, partition))
        store.flush_all()
        before_bytes = _bytes_of(store)
        gone = _clean(machine, store)
        _compact(machine, store)
        return CleanedState(partition, machine.position, gone, before_bytes - _bytes_of(store))
    finally:
        store.close()


def _clean(machine: Machine, store: Store) -> Gone:
    """`clean_all`, which waits when RocksDB is behind with its compactions."""
    done = so_far = _NOTHING
    # How many there will be is not known: a collection that is due becomes elements to remove only when it dies, and
    # the index lists a hash once, however many of its fields are due.
    with progress("clean", None, "keys, fields and elements") as advance:

        def tell(gone: Gone) -> None:
            nonlocal so_far
            so_far = _sum(done, gone)
            advance(so_far.keys + so_far.fields + so_far.records)

        while True:
            try:
                return _sum(done, clean_all(machine, store, tell))
            except StoreBusyError:
                done = so_far
                sleep(_BUSY_SECONDS)


def _sum(one: Gone, other: Gone) -> Gone:
    return Gone._make(map(sum, zip(one, other, strict=True)))


def _compact(machine: Machine, store: StateStore) -> None:
    """Give back the room of all that was deleted, now or before; what was noted for that is done with it."""
    store.flush_all()
    done = 0
    with progress("compact", _bytes_of(store), "bytes") as advance:

        def go_on(piece_bytes: int) -> bool:
            nonlocal done
            done += piece_bytes
            advance(done)
            return True

        for name in store.disk_bytes():
            store.compact(name, b"", _LAST_KEY, go_on)
    reclaimer = Reclaimer(machine, store)
    while ranges := reclaimer.ranges():
        for deleted in ranges:
            reclaimer.compacted(deleted)


def _bytes_of(store: StateStore) -> int:
    return sum(store.disk_bytes().values())

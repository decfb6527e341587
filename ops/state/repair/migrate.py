"""Moves what an earlier layout has left in the state of a stopped service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import Final, TypeVar

from engine.apply.machine import Machine
from engine.cleaning.migration import Migration
from engine.errors import StoreBusyError
from engine.layouts import LAYOUTS, takes_over
from engine.layouts.records import earlier_keys
from engine.model import STRING
from engine.tables.system import Position
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state.opening.directories import home_of, partition_path, reading, store_opener
from ops.state.opening.indexed_state import StateStore

T = TypeVar("T")

_STRINGS_MAX: Final = 1000
_BUSY_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class MigratedState:
    """The result for one partition: how many strings were moved, or are to be, to `layout`."""

    partition: int
    position: Position
    layout: str
    strings: int


def migrate_partition(settings: Settings, partition: int) -> MigratedState:
    """Move all strings of one partition that are still in an earlier form, with progress.

    Raises:
        ConfigError: a service runs on it, there is no state of that partition, or its layout has no earlier form.
        StateMismatchError, CorruptionError, OSError: it cannot be opened, or is damaged. What was moved by then stays.
    """
    settings = _of_target(settings)
    path = partition_path(settings.data, partition)
    if not path.is_dir():
        raise ConfigError(f"{settings.data} has no state of partition {partition}")
    try:
        store = store_opener(settings, settings.data)(partition)
    except BlockingIOError as error:
        raise ConfigError(f"{path} is open in another process: stop the service that applies it first") from error
    try:
        machine = Machine(store, home_of(settings, partition))
        strings = 0 if machine.layout.earlier is None else _migrate(machine, store)
        return MigratedState(partition, machine.position, settings.layout, strings)
    finally:
        store.close()


def count_partition(settings: Settings, partition: int) -> MigratedState:
    """Count what `migrate_partition` would move, also beside a running service.

    Raises:
        ConfigError: there is no state of that partition, or its layout has no earlier form.
        StateMismatchError, CorruptionError, OSError: it cannot be opened, or is damaged.
    """
    settings = _of_target(settings)
    with reading(settings, partition) as (store, machine):
        strings = sum(1 for _ in earlier_keys(store, machine.layout, b""))
        return MigratedState(partition, machine.position, settings.layout, strings)


def _of_target(settings: Settings) -> Settings:
    """The settings with the layout that the state is to have."""
    recorded = settings.layout
    target = next((name for name in LAYOUTS if takes_over(name, recorded)), recorded)
    if target == recorded and not any(takes_over(target, name) for name in LAYOUTS):
        raise ConfigError(
            f"a state of the layout {recorded} has no earlier form, so there is nothing to move;"
            " `slotlog convert` writes a state anew in another layout"
        )
    return settings.model_copy(update={"layout": target})


def _migrate(machine: Machine, store: StateStore) -> int:
    """Move everything and take the mark away. Waits when RocksDB is behind with its compactions."""
    migration, moved = Migration(machine, store), 0
    at_most = sum(count for (_, type_code), count in machine.position.counts.items() if type_code == STRING)
    with progress("migrate", at_most, "strings") as advance:
        while count := _patiently(migration.step, _STRINGS_MAX):
            moved += count
            advance(moved)
    _patiently(migration.finish)
    store.flush_all()
    return moved


def _patiently(do: Callable[..., T], *args: object) -> T:
    """What `do` gives once RocksDB takes its batch."""
    while True:
        try:
            return do(*args)
        except StoreBusyError:
            sleep(_BUSY_SECONDS)

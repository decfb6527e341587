"""Puts a restored state in the place of one that cannot be used, and keeps that one aside.

DATA/aside/PARTITION-MS    the state that was there until that wall time; only the newest of each partition is kept
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from engine.errors import CorruptionError, StateMismatchError
from engine.store.store import Changes
from engine.tables.system import retime_changes, skip_changes
from ops.config import ConfigError, Settings
from ops.snapshots.steps import Step, reached
from ops.state.opening.directories import partition_path, reading, store_opener
from slotlog.clock import now_ms
from slotlog.disk import sync

_DIRECTORY: Final = "aside"


def trouble_of(settings: Settings, partition: int, begin_offset: int) -> str:
    """Why the state of a partition cannot go on with its log, which begins at `begin_offset`; empty where it can.

    What only an operator can decide, such as a state of another topic, is no such trouble.
    """
    path = partition_path(settings.data, partition)
    if path.is_file():
        return ""
    if not path.is_dir() or not any(path.iterdir()):
        return f"{settings.data} has no state of partition {partition}"
    try:
        with reading(settings, partition) as (_, machine):
            next_offset = machine.next_offset
    except CorruptionError as error:
        return str(error)
    except (ConfigError, StateMismatchError, OSError):
        return ""
    if next_offset < begin_offset:
        return f"the state stands before offset {next_offset}, and the log begins at offset {begin_offset}"
    return ""


def take_decisions(settings: Settings, partition: int, restored: Path) -> int:
    """Write into a restored state what operators have decided for the state that was there; returns how many.

    The state may be aside already, where a process was killed that replaced it. One that cannot be read is passed over.

    Args:
        settings: of the state.
        partition: its number.
        restored: the directory that holds the restored state as a data directory does.
    """
    decisions = _decisions(settings, partition)
    if not decisions:
        return 0
    store = store_opener(settings, restored)(partition)
    try:
        for changes in decisions:
            store.write(changes)
        store.flush_all()
    finally:
        store.close()
    return len(decisions)


def replace(settings: Settings, partition: int, restored: Path) -> None:
    """Put a restored state in its place; what is there goes aside. Nobody may have either open."""
    target = partition_path(settings.data, partition)
    if target.exists():
        aside = settings.data / _DIRECTORY
        aside.mkdir(mode=0o700, exist_ok=True)
        target.rename(aside / f"{partition}-{now_ms()}")
        sync(aside)
        reached(Step.PUT_ASIDE)
    restored.rename(target)
    sync(settings.data)
    reached(Step.IN_PLACE)


def remove_older(settings: Settings, partition: int) -> None:
    """Remove what was put aside of a partition, but for the newest."""
    for path in _asides(settings, partition)[:-1]:
        shutil.rmtree(path, ignore_errors=True)


def _asides(settings: Settings, partition: int) -> list[Path]:
    """What was put aside of a partition, the oldest first."""
    there = (settings.data / _DIRECTORY).glob(f"{partition}-*")
    return sorted(there, key=lambda path: int(path.name.partition("-")[2]))


def _decisions(settings: Settings, partition: int) -> list[Changes]:
    path = partition_path(settings.data, partition)
    if path.is_dir():
        return _read_decisions(settings, partition)
    for aside in _asides(settings, partition)[-1:]:
        linked = settings.data / _DIRECTORY / f"read-{aside.name}"
        linked.mkdir(mode=0o700, exist_ok=True)
        (linked / str(partition)).symlink_to(aside)
        try:
            return _read_decisions(settings.model_copy(update={"data": linked}), partition)
        finally:
            shutil.rmtree(linked)
    return []


def _read_decisions(settings: Settings, partition: int) -> list[Changes]:
    try:
        with reading(settings, partition) as (_, machine):
            position = machine.position
    except (ConfigError, CorruptionError, StateMismatchError, OSError):
        return []
    skips = [skip_changes(begin, end) for begin, end in position.skips]
    return [*skips, *(retime_changes(*each) for each in position.retimes)]

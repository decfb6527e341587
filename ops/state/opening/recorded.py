"""Records in a data directory how it was made, so that no later command must be told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.errors import CorruptionError
from engine.layouts import LAYOUTS, takes_over
from engine.store.rocks import RocksStore
from engine.tables.system import Home, read_home
from ops.config import Settings, load_settings
from ops.state.opening.directories import partition_path, state_directories
from ops.state.opening.manifest import refuse_cut_manifest

_RECORDED: Final = ("topic", "partitions", "layout")


class Presence(NamedTuple):
    """The partitions that a verb reads, and those of the topic that are on another machine, both ascending."""

    here: list[int]
    missing: list[int]


def load_state_settings(**options: Any) -> Settings:
    """The settings; topic, partitions and layout, where nobody set them, are those of the state in `data`.

    Raises:
        ConfigError: as `load_settings`.
    """
    # What the two may be depends on the number of partitions.
    settings = load_settings(**{**options, "own": "", "own_of": ""})
    unset = [name for name in _RECORDED if name not in settings.model_fields_set]
    home = recorded_home(settings.data) if unset else None
    recorded = {} if home is None else {name: getattr(home, name) for name in unset}
    return load_settings(**{**options, **recorded, "own_of": ""})  # which is about applying, not about reading


def recorded_home(data: Path) -> Home | None:
    """What the first partition in `data` says it is; one that is empty or damaged says nothing.

    Where another one has gone on in a layout that takes the first one's over, that other one: it can be read in that
    layout alone, and the first in both.

    Raises:
        StateMismatchError: a newer slotlog wrote it.
    """
    homes = _homes(data)
    first = next(homes, None)
    if first is None or not any(takes_over(name, first.layout) for name in LAYOUTS):
        return first
    return next((home for home in homes if takes_over(home.layout, first.layout)), first)


def _homes(data: Path) -> Iterator[Home]:
    """What each partition in `data` says it is."""
    for partition in state_directories(data):
        path = partition_path(data, partition)
        try:
            refuse_cut_manifest(path)
            with closing(RocksStore(path, (), read_only=True)) as store:
                home = read_home(store)
        except (CorruptionError, OSError):
            continue
        if home is not None:
            yield home


def presence(settings: Settings) -> Presence:
    """The partitions named by `own`, all of which must be here; without it, those that are.

    Where none is, all of them: reading the first then says that nothing is there.
    """
    if settings.own:
        return Presence(settings.owned, [])
    there = set(state_directories(settings.data))
    here = [partition for partition in range(settings.partitions) if partition in there]
    if not here:
        return Presence(settings.owned, [])
    return Presence(here, [partition for partition in range(settings.partitions) if partition not in there])

"""Builds a state in a fresh directory: what a replay from the log and a conversion have in common.

The write-ahead log is off meanwhile (a crash would start again anyway), and compactions are put off. So the directory
counts as a state only when every column family was flushed, what a service would compact at once is compacted, and the
mark in it is gone (`engine.tables.system.replaying_changes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import SecretStr

from engine.layouts import LAYOUTS
from engine.store.store import Changes, MaintainedStore
from engine.tables.system import replaying_changes
from ops.config import ConfigError, Settings


def settings_of_new(settings: Settings, to: Path, layout: str | None, index: str | None = None) -> Settings:
    """The settings of the state that is built in `to`: those of its source, in another layout if one is named.

    Its sorted sets are in the index `index`, or in itself where none is named: the source keeps its own.

    Raises:
        ConfigError: there is no such layout.
    """
    if layout is not None and layout not in LAYOUTS:
        raise ConfigError(f"--layout: there is no such layout; there are {', '.join(LAYOUTS)}")
    changed = {"data": to, "layout": layout or settings.layout, "index": SecretStr(index or "")}
    return settings.model_copy(update=changed)


def refuse_used(to: Path) -> None:
    """Refuse a directory that has anything in it.

    Raises:
        ConfigError: it has.
    """
    if to.exists() and any(to.iterdir()):
        raise ConfigError(f"{to} is not empty; what is built needs a directory of its own")


def begin_building(store: MaintainedStore, prepared: Iterable[Changes] = ()) -> None:
    """Mark an empty store as unfinished, with what it is to have from the start."""
    store.write(replaying_changes(begins=True))
    for changes in prepared:
        store.write(changes)
    store.flush_all()


def finish_building(store: MaintainedStore) -> None:
    """Take the mark away once everything else is on disk: without a write-ahead log, nothing is before a flush.

    In any thread; it compacts, which takes as long as the state is large.

    Raises:
        RuntimeError: the store was closed meanwhile.
    """
    store.flush_all()
    if not store.settle():
        raise RuntimeError("what was built was closed before it was finished")
    store.write(replaying_changes(begins=False))
    store.flush_all()

"""Refuses directories that hold something else than the settings say, before RocksDB adds column families to them."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from engine.errors import StateMismatchError
from engine.layouts import LAYOUTS
from engine.layouts.records import column_families
from engine.store.rocks import RocksStore, stored_families
from engine.store.store import SHARED_CFS, SYSTEM_CF
from engine.tables.system import Home, open_position
from ops.state.opening.manifest import refuse_cut_manifest

_PHASE1: Final = "data"
"""The one column family that Phase 1 of NeoKV wrote."""


def refuse_foreign(path: Path, home: Home) -> bool:
    """Do nothing when `path` has the column families of the state `home`, or no database yet.

    An open for writing would make those that are missing, and then the layout that the state has would not know them.
    A state that is being made, or whose making was broken off, has some of them and no record: the next open goes on.
    Returns whether it is such a one.

    Raises:
        CorruptionError: its list of tables is damaged.
        StateMismatchError: it is a state of something else, or no state of slotlog at all.
    """
    refuse_cut_manifest(path)
    there, wanted = stored_families(path), _families_of(home)
    if there in (frozenset(), wanted):
        return False
    if there < wanted and _holds_nothing(path):
        return True
    if SYSTEM_CF in there:
        with suppress(OSError), closing(RocksStore(path, (), read_only=True)) as store:
            open_position(store, home)
    elif others := sorted(there - {"default"}):
        text = f"{path} is a RocksDB database, and no state of slotlog: it has the column families {', '.join(others)};"
        is_phase1 = others == [_PHASE1]
        hint = f" (Phase 1 of NeoKV: `slotlog import --layout neokv1 {path}` brings its strings into the log)"
        raise StateMismatchError(f"{text} choose another --data{hint if is_phase1 else ''}")
    return False


def _families_of(home: Home) -> frozenset[str]:
    return frozenset({"default", *SHARED_CFS, *column_families(LAYOUTS[home.layout])})


def _holds_nothing(path: Path) -> bool:
    """Whether no record was ever written into a database. It is not opened: rocksdict would leave a file there."""
    return not any(path.glob("*.sst")) and not any(log.stat().st_size for log in path.glob("*.log"))

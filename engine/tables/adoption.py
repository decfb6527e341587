"""The layout of a state as it is stored: whether strings of an earlier layout may be in it.

    CF local   earlier  ->  empty     there may be earlier records: to look for them costs a read of each new key

A state of the layout that `engine.layouts.layout.Adopting` names becomes one of the layout that adopts it with its
first batch there, which writes the new name and this mark. Counts, expiry index and all other records are the same in
both, so nothing else has to be done. The mark goes when no earlier record is left (engine/cleaning/migration.py).
"""

from __future__ import annotations

from typing import Final

from engine.layouts import make_layout, takes_over
from engine.layouts.layout import Adopting, Layout
from engine.store.store import LOCAL_CF, Changes, Store
from engine.tables.system import Home, read_home, write_home

EARLIER: Final = b"earlier"
"""The mark."""


def open_layout(store: Store, home: Home) -> Layout:
    """The layout of a state that belongs to `home`, with earlier records where it may have some.

    Raises:
        StateMismatchError, CorruptionError: as `read_home`.
    """
    layout = make_layout(home.layout, home.partition, home.partitions)
    if layout.earlier is not None or not isinstance(layout, Adopting):
        return layout
    stored = read_home(store)
    may_have = stored is not None and takes_over(home.layout, stored.layout)
    return layout.with_earlier() if may_have or has_mark(store) else layout


def has_mark(store: Store) -> bool:
    """Whether the mark is there."""
    return store.getter(LOCAL_CF)(EARLIER) is not None


def settle(changes: Changes, home: Home, stored: Home | None) -> None:
    """Add to a batch that the state belongs to `home`, where `stored` says what it was: None for a new one."""
    write_home(changes, home)
    if stored is not None:
        changes.of(LOCAL_CF)[EARLIER] = b""


def unmark(changes: Changes) -> None:
    """Add to a batch that no earlier record is left."""
    changes.of(LOCAL_CF)[EARLIER] = None

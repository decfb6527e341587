"""Audits every state that a test leaves behind.

States are found by what opens them: the last stores in memory, every RocksDB that this process has opened, and those
below the test's own directory, which a process of the test may have made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from engine.errors import CorruptionError, StateMismatchError
from engine.layouts import LAYOUTS
from engine.layouts.index import BATCH
from engine.proof.audit import Audit
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import LOCAL_CF, Store
from engine.tables.system import is_replaying, read_home
from tests.layouts import column_families

_STORES_MAX: Final = 16
"""Of those in memory, the last ones: Hypothesis makes one for each of its examples."""

_stores: deque[MemoryStore] = deque(maxlen=_STORES_MAX)
_paths: dict[Path, None] = {}


def watch() -> None:
    """Note from now on every store that is opened in this process."""
    init_memory, init_rocks = MemoryStore.__init__, RocksStore.__init__

    def memory(store: MemoryStore, column_families: Iterable[str]) -> None:
        init_memory(store, families := tuple(column_families))
        if families:  # without any it shows the records of another store, which is noted by itself
            _stores.append(store)

    def rocks(store: RocksStore, path: Path, *args: Any, **options: Any) -> None:
        init_rocks(store, path, *args, **options)
        _paths[path] = None

    MemoryStore.__init__ = memory  # type: ignore[assignment, method-assign]
    RocksStore.__init__ = rocks  # type: ignore[assignment, method-assign]


def forget() -> None:
    """Begin anew: what was noted belongs to an earlier test."""
    _stores.clear()
    _paths.clear()


def violations(directory: Path | None) -> list[str]:
    """What is wrong with the states that were noted, and with those below `directory`."""
    found = [text for store in _stores for text in _of(store)]
    made = [current.parent for current in directory.rglob("CURRENT")] if directory is not None else []
    for path in [*_paths, *(path for path in made if path not in _paths)]:
        if (path / "CURRENT").exists():
            found += [f"{path}: {text}" for text in _of_path(path)]
    forget()
    return found


def _of_path(path: Path) -> list[str]:
    """The violations of a directory. What has not the column families of a state is none."""
    try:
        store = RocksStore(path, column_families(), read_only=True)
    except CorruptionError as error:
        return [str(error)]
    except OSError as error:
        assert "olumn famil" in str(error), error  # noqa: PT017 - no expected error of a test
        return []
    with closing(store):
        return list(_of(store))


def _of(store: Store) -> Iterator[str]:
    """The violations of one state. A store to which no machine has written is none, nor is an unfinished replay.

    One whose sorted sets are in an index outside of it cannot be audited without: the test does that itself.
    """
    if store.getter(LOCAL_CF)(BATCH) is not None:
        return
    try:
        home = read_home(store)
    except (CorruptionError, StateMismatchError) as error:
        yield str(error)
        return
    if home is not None and home.layout in LAYOUTS and not is_replaying(store):
        yield from map(str, Audit(store, home).violations())

"""A store for a rebuild: compactions that are put off until `settle`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest

from engine.store import rocks
from engine.store.options import FILES_MAX, SharedMemory, database_options
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from tests.engine.harness import family
from tests.engine.store.families import FAMILIES

WAIT_SECONDS = 60.0
RECORDS = 4000


def fill(path: Path) -> RocksStore:
    """A store for a rebuild with as many files of one column family as a service would compact at once."""
    store = RocksStore(path, FAMILIES, bulk=True)
    draws = Random(1)
    for _ in range(FILES_MAX):
        changes = Changes()
        changes.of("data").update({b"%06d" % n: draws.randbytes(1000) for n in range(RECORDS)})
        store.write(changes)
        store.flush_all()
    return store


def files(store: RocksStore) -> int:
    """Files that wait for a compaction."""
    return store.properties()["data"]["num-files-at-level0"]


def wait_for(condition: Callable[[], object]) -> bool:
    """Whether it holds in the end."""
    until = monotonic() + WAIT_SECONDS
    while not condition() and monotonic() < until:
        sleep(0.001)
    return bool(condition())


def test_compactions_are_put_off_until_settle(path: Path) -> None:
    """Files stay as they were flushed; `settle` leaves none that a service would compact, and every record."""
    store = fill(path)
    assert (FILES_MAX, 0) == (files(store), store.number_of("compaction-pending"))
    assert store.settle()

    assert 0 == files(store)
    assert RECORDS == len(family(store, "data"))
    store.close()
    assert not store.settle()


def test_closing_breaks_settle_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it was not done, at once, and nothing is lost."""
    fill(path).close()
    options = database_options(SharedMemory())
    options.set_ratelimiter(1 << 19, 100_000, 10)
    monkeypatch.setattr(rocks, "database_options", lambda _: options)
    store = RocksStore(path, FAMILIES, bulk=True)
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(store.settle()))
    thread.start()
    assert wait_for(lambda: store.number_of("num-running-compactions"))
    store.close()
    thread.join(WAIT_SECONDS)
    monkeypatch.undo()

    assert [False] == done
    store = RocksStore(path, FAMILIES)
    assert RECORDS == len(family(store, "data"))
    store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of a test lies."""
    return tmp_path / "0"

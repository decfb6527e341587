"""A checkpoint of an open store is a database of its own, as of that moment."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from engine.store.directory import identity
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from tests.engine.store.families import FAMILIES

FAMILY = FAMILIES[0]


def put(store: RocksStore, key: bytes) -> None:
    """Write one record."""
    changes = Changes()
    changes.of(FAMILY)[key] = b"1"
    store.write(changes)


def keys(path: Path) -> list[bytes]:
    """The keys of a closed database."""
    with closing(RocksStore(path, FAMILIES)) as store:
        return [key for key, _ in store.scan(FAMILY, b"", None)]


def test_a_checkpoint_has_what_was_written_before(tmp_path: Path) -> None:
    """All of it, flushed or not, and nothing of what is written later; the store goes on and can be closed."""
    store = RocksStore(tmp_path / "0", FAMILIES)
    put(store, b"flushed")
    store.flush_all()
    put(store, b"not flushed")
    store.checkpoint(str(tmp_path / "copy"))
    put(store, b"later")
    store.close()

    assert [b"flushed", b"not flushed"] == keys(tmp_path / "copy")
    assert [b"flushed", b"later", b"not flushed"] == keys(tmp_path / "0")


def test_a_checkpoint_is_made_in_a_new_directory(tmp_path: Path) -> None:
    """Where something is already, nothing is overwritten, and the store can be closed and opened all the same."""
    with closing(RocksStore(tmp_path / "0", FAMILIES)) as store:
        put(store, b"key")
        store.checkpoint(str(tmp_path / "copy"))
        with pytest.raises(OSError, match=r"no checkpoint can be made in .*copy: .*exists"):
            store.checkpoint(str(tmp_path / "copy"))

    assert [b"key"] == keys(tmp_path / "copy") == keys(tmp_path / "0")


def test_a_restored_database_is_another_one(tmp_path: Path) -> None:
    """RocksDB gives a copy the identity of the original, and yet it counts as another one in its place."""
    with closing(RocksStore(tmp_path / "0", FAMILIES)) as store:
        put(store, b"key")
        store.checkpoint(str(tmp_path / "copy"))
        same = store.sameness()
    assert [b"key"] == keys(tmp_path / "0")
    before, old = same(), identity(tmp_path / "0")
    shutil.rmtree(tmp_path / "0")
    (tmp_path / "copy").rename(tmp_path / "0")
    assert [b"key"] == keys(tmp_path / "0")

    assert old == identity(tmp_path / "0")
    assert (True, False) == (before, same())


def test_a_store_in_memory_has_no_checkpoint(tmp_path: Path) -> None:
    """It says so."""
    with pytest.raises(OSError, match="a store in memory has no files"):
        MemoryStore(FAMILIES).checkpoint(str(tmp_path / "copy"))

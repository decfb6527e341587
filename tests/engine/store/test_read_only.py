"""Opening a RocksDB read-only beside its writer: what the writer replaced meanwhile is neither damage nor a hole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import Rdict  # noqa: TID251 - stands in for it

from engine.errors import CorruptionError
from engine.store import rocks
from engine.store.rocks import RocksStore
from engine.store.store import SYSTEM_CF, Changes

GONE = Exception("Corruption: IO error: No such file or directory: While open a file for random read: 000042.sst")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one record."""
    store = RocksStore(tmp_path / "0", ())
    changes = Changes()
    changes.of(SYSTEM_CF)[b"name"] = b"value"
    store.write(changes)
    store.close()
    return tmp_path / "0"


def value(store: RocksStore) -> bytes | None:
    """The record, and the store closed."""
    try:
        return store.getter(SYSTEM_CF)(b"name")
    finally:
        store.close()


def opens(monkeypatch: pytest.MonkeyPatch, happens: Iterator[object]) -> list[int]:
    """Let something happen at each opening: an exception, a function to call first, or None. Returns the calls."""
    calls: list[int] = []

    def open_database(*args: object, **options: object) -> Rdict:
        calls.append(1)
        event = next(happens)
        if isinstance(event, Exception):
            raise event
        if callable(event):
            event()
        return Rdict(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(rocks, "Rdict", open_database)
    return calls


def test_vanished_file_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the writer removed while the manifest still named it: opened again, with the newer manifest."""
    calls = opens(monkeypatch, iter([GONE, GONE, None]))

    assert b"value" == value(RocksStore(path, (), read_only=True))
    assert 3 == len(calls)


def test_vanished_log_is_no_hole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write-ahead log that went away during the opening may have been missed, so that view is not used."""
    log = path / "999999.log"
    log.touch()
    calls = opens(monkeypatch, iter([log.unlink, None]))

    assert b"value" == value(RocksStore(path, (), read_only=True))
    assert 2 == len(calls)


def test_missing_file_is_damage_in_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that stays away is damage; it is not waited for without end."""
    calls = opens(monkeypatch, iter(lambda: GONE, None))

    with pytest.raises(CorruptionError, match="is damaged"):
        RocksStore(path, (), read_only=True)
    assert 20 == len(calls)


def test_other_error_is_told_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error of an opening is final."""
    calls = opens(monkeypatch, iter([Exception("Corruption: block checksum mismatch")]))

    with pytest.raises(CorruptionError, match="checksum mismatch"):
        RocksStore(path, (), read_only=True)
    assert 1 == len(calls)


def test_writer_that_is_too_fast_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When each opening meets a change, the reader is told to try again."""
    log = path / "999999.log"
    log.touch()

    def replaced() -> None:
        next(path.glob("9*.log")).rename(path / f"9{len(calls):05}.log")

    calls = opens(monkeypatch, iter(lambda: replaced, None))

    with pytest.raises(OSError, match="faster than they can be opened; try again"):
        RocksStore(path, (), read_only=True)

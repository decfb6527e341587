"""A partition's directory with missing files, or a directory without a database, is refused or made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import CorruptionError
from engine.store.directory import same_database
from engine.store.failures import open_error
from engine.store.rocks import RocksStore
from engine.store.store import SYSTEM_CF, Changes
from engine.tables.system import open_position, write_home
from tests.engine.store.families import FAMILIES
from tests.layouts import home_of

REBUILD = "rebuild it with `slotlog replay --swap`"

pytestmark = pytest.mark.damaging


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed database with one table and one record that is in its write-ahead log alone."""
    path = tmp_path / "0"
    store = RocksStore(path, FAMILIES)
    for key in (b"a", b"b"):
        changes = Changes()
        changes.of("metadata")[key] = b"1"
        store.write(changes)
        store.flush_all()
    store.close()
    return path


def without(path: Path, *patterns: str) -> None:
    """Remove some of its files."""
    for pattern in patterns:
        for file in path.glob(pattern):
            file.unlink()


def with_directory(path: Path, name: str) -> None:
    """Put a directory in the place of one of its files."""
    (path / name).unlink()
    (path / name).mkdir()


def as_file(path: Path) -> None:
    """Put a file in its place."""
    shutil.rmtree(path)
    path.write_text("not a directory")


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no manifest": (lambda path: without(path, "MANIFEST-*"), "MANIFEST-"),
    "no tables": (lambda path: without(path, "*.sst"), "No such file or directory"),
    "no CURRENT": (lambda path: without(path, "CURRENT"), "its file CURRENT is missing"),
    "no CURRENT and no log": (lambda path: without(path, "CURRENT", "*.log"), "CURRENT is missing"),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("spoil", "said"), DAMAGES.values(), ids=DAMAGES)
def test_a_missing_file_is_damage(spoil: Callable[[Path], None], said: str, read_only: bool, path: Path) -> None:
    """A database without one of its own files is damaged, is said to be, and is not made anew in its place."""
    spoil(path)
    before = sorted(file.name for file in path.glob("*.sst"))

    with pytest.raises(CorruptionError, match="0 is damaged ") as caught:
        RocksStore(path, FAMILIES, read_only=read_only)
    assert (True, True) == (said in str(caught.value), str(caught.value).endswith(REBUILD))
    assert before == sorted(file.name for file in path.glob("*.sst"))


@pytest.mark.parametrize("pattern", ["OPTIONS-*", "LOCK", "IDENTITY", "rocksdict-config.json"])
def test_files_that_can_be_made_again(pattern: str, path: Path) -> None:
    """What RocksDB makes again by itself is no damage."""
    without(path, pattern)
    store = RocksStore(path, FAMILIES)

    assert [(b"a", b"1"), (b"b", b"1")] == list(store.scan("metadata", b"", None))
    store.close()


UNUSABLE: dict[str, tuple[Callable[[Path], None], str]] = {
    "LOCK is a directory": (lambda path: with_directory(path, "LOCK"), "…/LOCK: Is a directory"),
    "CURRENT is a directory": (lambda path: with_directory(path, "CURRENT"), "…/CURRENT: Is a directory"),
    "a file in its place": (as_file, "it is a file, not the directory of a partition"),
}


@pytest.mark.parametrize(("spoil", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_opened_is_named(spoil: Callable[[Path], None], said: str, path: Path) -> None:
    """What is neither damage nor another process is an OSError that names the directory and the cause."""
    spoil(path)

    with pytest.raises(OSError, match="0 cannot be opened: ") as caught:
        RocksStore(path, FAMILIES)
    assert (True, False) == (said in str(caught.value), isinstance(caught.value, BlockingIOError))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("IO error: While lock file: /d/0/LOCK: Resource temporarily unavailable", BlockingIOError),
        ("IO error: lock hold by current process, acquire time 1 acquiring thread 2: /d/0/LOCK", BlockingIOError),
        ("IO error: while open a file for lock: /d/0/LOCK: Permission denied", OSError),
        ("IO error: While opening a file for sequentially reading: /d/0/CURRENT: Permission denied", OSError),
        ("IO error: While pread offset 0 len 53: /d/0/000009.sst: Input/output error", OSError),
    ],
)
def test_what_is_held_and_what_may_not_be_read(said: str, kind: type[OSError]) -> None:
    """Only a lock that somebody holds is another process; rights and a failing disk are none, and no damage."""
    assert kind is type(open_error("/d/0", Exception(said)))


@pytest.mark.parametrize(
    "said", ["IO error: While lock file: …: Permission denied", "Read-only file system (os error 30)"]
)
def test_a_directory_that_may_not_be_written(said: str) -> None:
    """Where RocksDB is refused its lock or its log, the error says that readers write too, and what to do."""
    error = open_error("/d/0", Exception(said))

    assert (OSError, True) == (
        type(error),
        f"/d/0 cannot be opened: {said}. Who reads a state writes as well" in str(error),
    )
    assert "copy the data directory (while no service runs on it) to where you can write" in str(error)


def test_a_directory_that_may_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's refusal is said with the directory's name, once."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "0"))

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(PermissionError) as caught:
        RocksStore(tmp_path / "0", FAMILIES)
    assert f"{tmp_path / '0'} cannot be opened: Permission denied" == str(caught.value)


def test_a_database_is_known_again(path: Path, tmp_path: Path) -> None:
    """The same directory is the same database, wherever it was moved from; another one in its place is not."""
    is_same = same_database(path)
    RocksStore(tmp_path / "other", FAMILIES).close()
    outcomes = [is_same()]
    path.rename(tmp_path / "away")
    outcomes.append(is_same())
    (tmp_path / "other").rename(path)
    outcomes.append(is_same())
    shutil.rmtree(path)
    (tmp_path / "away").rename(path)

    assert [True, False, False, True] == [*outcomes, is_same()]


@pytest.mark.parametrize("name", [b"count/x/2", b"skip/", b"database/x"])
def test_system_records_that_are_none_are_damage(name: bytes, path: Path) -> None:
    """A state whose own records cannot be read is damaged: no exception of Python's comes out of its opening."""
    home = home_of("topic", 0, 1)
    store = RocksStore(path, FAMILIES)
    changes = Changes()
    write_home(changes, home)
    numbers = (b"next_offset", b"clock_ms", b"last_version", b"rules")
    changes.of(SYSTEM_CF).update({**dict.fromkeys(numbers, bytes(8)), name: bytes(8)})
    store.write(changes)

    with pytest.raises(CorruptionError, match="own records cannot be read"):
        open_position(store, home)
    store.close()

"""The directory of a partition's database: makes it, and notices when it was replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.errors import CorruptionError
from engine.store.failures import MEND

_CURRENT: Final = "CURRENT"
_IDENTITY: Final = "IDENTITY"  # 36 random characters, written when the database is made and never again


def prepare_directory(path: Path, *, read_only: bool) -> None:
    """Make the directory, unless it is there or only to be read.

    Raises:
        CorruptionError: nothing names its tables any more. RocksDB would make a new and empty database of it.
        FileNotFoundError: there is nothing to be read. RocksDB would leave a directory with its own log behind.
        OSError: something else has its name, or it may not be made.
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} cannot be opened: it is a file, not the directory of a partition")
    if not read_only:
        _make(path)
    if (path / _CURRENT).exists():
        return
    if any(path.glob("*.sst")):
        raise CorruptionError(f"{path} is damaged (it has tables, and its file {_CURRENT} is missing); {MEND}")
    if read_only:
        raise FileNotFoundError(f"{path} cannot be opened: no state is there")


def same_database(path: Path) -> Callable[[], bool]:
    """Return a check, for later, that the database in this directory is still the same one.

    One that was restored from a snapshot has the identity of the one that it was taken of, but in a file of its own.
    """
    same = identity(path), _file(path)
    return lambda: (identity(path), _file(path)) == same


def created_s(path: Path) -> float | None:
    """When the database in this directory was made, in seconds since 1970; None where it is gone, or its disk is."""
    try:
        return (path / _IDENTITY).stat().st_mtime
    except OSError:
        return None


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(f"{path} cannot be opened: {error.strerror}") from error


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = (path / _IDENTITY).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def identity(path: Path) -> bytes:
    """Tell the database in a directory from all others, by what RocksDB wrote when it was made.

    Empty where it is gone.
    """
    try:
        return (path / _IDENTITY).read_bytes()
    except OSError:  # gone, with or without the rest
        return b""

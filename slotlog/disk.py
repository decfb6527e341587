"""Brings files, and names in directories, to disk; makes directories and files of one owner, and tells sizes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync(path: Path) -> None:
    """Bring a file to disk, or the names in a directory, of files that were made, renamed or removed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory that its owner alone can use, and those above it; what is there keeps its mode.

    Raises:
        OSError: it cannot be made, or a file lies there.
    """
    if not path.is_dir():
        if not path.parent.exists():
            make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file that its owner alone can read and write, if none is there; one that is keeps its mode.

    One that is there is not opened: to close it would let go of all locks that this process holds on it, those of
    SQLite too.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def size_of(path: Path) -> int:
    """Bytes of a file; 0 of one that is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

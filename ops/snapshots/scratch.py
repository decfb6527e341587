"""Directories inside a data directory for what is uploaded, verified or restored, each locked by who uses it.

    DATA/scratch/NAME.lock    held by the process that has it
    DATA/scratch/NAME         its directory

What nobody holds is left of a process that was killed, and is removed before the next one is made.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from slotlog.disk import make_directory

_DIRECTORY: Final = "scratch"
_LOCK: Final = ".lock"


class Scratch:
    """A directory of its own on the disk of a data directory, until it is removed.

    Args:
        data: the data directory.

    Attributes:
        directory: it.
    """

    def __init__(self, data: Path) -> None:
        remove_abandoned(data)
        self._lock, self.directory = _locked(data / _DIRECTORY)
        self.directory.mkdir(mode=0o700)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with all that is in it."""
        _remove(self.directory)
        os.close(self._lock)
        _remove_empty(self.directory.parent)


def remove_abandoned(data: Path) -> None:
    """Remove what processes have left that were killed."""
    directory = data / _DIRECTORY
    for path in directory.glob(f"*{_LOCK}"):
        try:
            lock = os.open(path, os.O_RDWR)
        except FileNotFoundError:  # its process has just removed it
            continue
        try:
            if _is_free(lock):
                _remove(path.with_name(path.name.removesuffix(_LOCK)))
        finally:
            os.close(lock)
    _remove_empty(directory)


def _locked(parent: Path) -> tuple[int, Path]:
    """A locked file, and the name of the directory that goes with it."""
    while True:
        make_directory(parent)
        directory = parent / secrets.token_hex(4)
        try:
            lock = os.open(_lock_of(directory), os.O_CREAT | os.O_RDWR, 0o600)
        except FileNotFoundError:  # another one has just removed its own, and with it the empty directory
            continue
        if _is_free(lock) and os.fstat(lock).st_nlink:  # else it was taken for abandoned at this moment
            return lock, directory
        os.close(lock)


def _lock_of(directory: Path) -> Path:
    return directory.with_name(directory.name + _LOCK)


def _is_free(lock: int) -> bool:
    """Take the lock, unless another process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_empty(directory: Path) -> None:
    with suppress(OSError):  # it is not there, or others are in it
        directory.rmdir()


def _remove(directory: Path) -> None:
    """Remove a directory, and then its lock, which says that there may be one."""
    shutil.rmtree(directory, ignore_errors=True)
    _lock_of(directory).unlink(missing_ok=True)

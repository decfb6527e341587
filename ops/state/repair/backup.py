"""Backs up the embedded log into one file, and verifies the copy before it gets its name."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state.repair.check_log import CheckedLog, look_through, sealed_identity
from slotlog.disk import sync
from slotlog.errors import LogDamagedError, LogUnavailableError
from slotlog.log import embedded_path
from slotlog.log.embedded.file.file import code_of, connect, read_identity, translated
from slotlog.log.embedded.pages.backup import copy_log, open_copy, size_of
from slotlog.log.embedded.proof.mark import HeadMark
from slotlog.log.embedded.proof.scan import Damage
from slotlog.wording import sized

_SUFFIX: Final = ".unfinished"
_COPY_CODES: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}
"""Errors of SQLite that the disk of the copy may have caused."""


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup of a log: how large the file is, and its partitions."""

    topic: str
    size: int
    partitions: Sequence[CheckedLog]


def back_up(settings: Settings, to: Path) -> BackedUp:
    """Copy the embedded log into the file `to`, with progress; it is there when every checksum in it is verified.

    A copy that was broken off is `to` with `.unfinished` behind it, which the next one removes.

    Raises:
        ConfigError: the log is in Kafka or of an older format; `to` is there, cannot be made or is being written.
        LogDamagedError: the copy is damaged, and so is the log or the disk.
        LogMismatchError, LogUnavailableError: the log cannot be opened or read.
        OSError: the copy cannot be written.
    """
    path = embedded_path(settings.log_url)
    if path is None:
        raise ConfigError("a log in Kafka is backed up by Kafka: replicate it, and mirror it to another cluster")
    _refuse_there(to)
    HeadMark(path).refuse_behind()
    with closing(connect(path)) as connection:
        identity = sealed_identity(connection, path)
        _refuse_without_room(path, to)
        with _named_at_end(to) as unfinished:
            _copy(connection, path, unfinished)
            _write_out(unfinished)
            return BackedUp(identity.topic, unfinished.stat().st_size, _verified(unfinished, path))


def _refuse_there(to: Path) -> None:
    if not to.parent.is_dir():
        raise ConfigError(f"{to.parent} is no directory: make it, or name another file")
    if to.exists():
        raise ConfigError(f"{to} is there already: name another file; no backup is written over")


def _refuse_without_room(path: Path, to: Path) -> None:
    size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    free = shutil.disk_usage(to.parent).free
    if free < size:
        raise ConfigError(f"the disk of {to} has {sized(free)} left, and the log {path} has {sized(size)}: make room")


@contextmanager
def _named_at_end(to: Path) -> Iterator[Path]:
    """An empty file that gets the name `to` when the block has ended, and is removed after an error."""
    unfinished = to.with_name(to.name + _SUFFIX)
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, unfinished)
        try:
            os.ftruncate(descriptor, 0)
            yield unfinished
            _refuse_there(to)
            unfinished.rename(to)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        sync(to.parent)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, unfinished: Path) -> None:
    """Refuse a file that another backup writes, or has given its name since it was opened here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = os.path.samestat(os.fstat(descriptor), unfinished.stat())
    except (BlockingIOError, FileNotFoundError):
        mine = False
    if not mine:
        raise ConfigError(f"another backup writes {unfinished}: let it end, or name another file")


def _copy(connection: sqlite3.Connection, path: Path, to: Path) -> None:
    try:
        with progress("backup", size_of(connection), "bytes") as advance:
            copy_log(connection, to, advance)
    except sqlite3.Error as error:
        if code_of(error) in _COPY_CODES:
            raise LogUnavailableError(f"the log {path} cannot be copied to {to}: {error}") from error
        raise translated(error, path) from error


def _write_out(unfinished: Path) -> None:
    """Have it on disk, and out of memory, so that it is the disk which is verified."""
    descriptor = os.open(unfinished, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _verified(copy: Path, path: Path) -> Sequence[CheckedLog]:
    """The partitions of a copy in which nothing is damaged."""
    damages: list[Damage] = []
    with closing(open_copy(copy)) as connection, progress("verify", None, "records") as advance:
        identity = read_identity(connection, copy)
        results, found = look_through(connection, identity.partitions, damages.append, advance)
    if found:
        raise LogDamagedError(
            f"the copy is damaged ({damages[0]}), so there is no backup: `slotlog check --log` says whether the log "
            f"{path} is; if it is not, the disk of the copy is bad"
        )
    return results

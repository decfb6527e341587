"""Notices when the files at the embedded log's path are no longer the open ones.

SQLite goes on writing to a file that was deleted or exchanged, and what it writes goes with the process. So whoever
appends looks first, at both: what is committed stands in the `-wal` alone until SQLite copies it to the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from slotlog.errors import LogMismatchError, Mismatch


class Files:
    """The files of a log that a connection is open to.

    Args:
        path: the log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names = os.fspath(path), f"{path}-wal"
        self._opened = tuple(_inode(name) for name in self._names)

    def refuse_exchanged(self, connection: sqlite3.Connection | None = None) -> None:
        """Look at the path: 2 µs.

        Args:
            connection: as `refuse_without_wal` wants it.

        Raises:
            LogMismatchError: another file lies there, or none.
        """
        self.refuse_other_log()
        if _inode(self._names[1]) != self._opened[1]:
            self.refuse_without_wal(connection)

    def refuse_other_log(self) -> None:
        """Look at the log alone.

        Raises:
            LogMismatchError: another file lies at the path, or none.
        """
        if _inode(self._names[0]) != self._opened[0]:
            raise _exchanged("log", self._names[0])

    def refuse_without_wal(self, connection: sqlite3.Connection | None) -> None:
        """Look whether the `-wal` is still there, if the log is: a new connection would make a new one.

        Args:
            connection: to the files that are open. Without its `-wal`, what only stands there goes into the log now.

        Raises:
            LogMismatchError: it is not.
        """
        log, wal = map(_inode, self._names)
        if log != self._opened[0] or wal == self._opened[1]:
            return
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):  # the error below is said either way
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        raise _exchanged("file", self._names[1])


def _exchanged(what: str, name: str) -> LogMismatchError:
    return LogMismatchError(
        Mismatch.RECREATED, f"the {what} {name} was deleted or exchanged while it was open: restart, and see its check"
    )


def _inode(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)  # noqa: PTH116 - before each append, and a Path takes three times as long
    except OSError:
        return None
    return status.st_dev, status.st_ino

"""Copies the embedded log into another file as it is at one moment, while others append to it.

SQLite's online backup copies page by page. It begins anew with each commit of another process, so one view of the file
is held open until all pages are copied: it is this view that the copy has. Meanwhile nothing of the `-wal` can be
written over, so it grows by what is appended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from slotlog.log.embedded.file.file import as_text

_STEP_PAGES: Final = 256
"""1 MiB: so often the progress is told."""


def size_of(connection: sqlite3.Connection) -> int:
    """Bytes of all pages of the log, wherever they are now."""
    pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    page_bytes: int = connection.execute("PRAGMA page_size").fetchone()[0]
    return pages * page_bytes


def copy_log(connection: sqlite3.Connection, to: Path, advance: Callable[[int], None]) -> None:
    """Copy the log that is open into a file that is empty. The copy is not on disk yet when this returns.

    Args:
        connection: to the log, in no transaction.
        to: the new file; nothing else is written beside it.
        advance: told how many bytes are copied.

    Raises:
        sqlite3.Error: the log cannot be read, or the copy cannot be written.
    """
    connection.execute("BEGIN")
    try:
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("SELECT count(*) FROM log").fetchone()  # from here on the view is this one

        def copied(_status: int, left: int, total: int) -> None:
            advance((total - left) * page_bytes)

        with closing(sqlite3.connect(to, isolation_level=None)) as target:
            target.execute("PRAGMA journal_mode = OFF")  # a copy that fails is removed, not rolled back
            target.execute("PRAGMA synchronous = OFF")
            connection.backup(target, pages=_STEP_PAGES, progress=copied)
    finally:
        connection.execute("ROLLBACK")


def open_copy(path: Path) -> sqlite3.Connection:
    """A connection to a log that nobody writes. It only reads, and makes no other file beside it."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)
    connection.text_factory = as_text
    return connection

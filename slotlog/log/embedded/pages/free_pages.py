"""Gives back to the file system what a trim has freed in the embedded log's file.

A trim leaves free pages in the file, which later appends use. SQLite's incremental vacuum moves the last pages of the
file into free ones and cuts off its end; the file itself gets shorter when a checkpoint has copied the `-wal` to it.
This happens in steps of 1 MiB, each a transaction of its own: between them others append, and a process that is
killed in one of them has done the ones before. No row is changed, so that the chain of checksums stands.

An eighth of the pages in use is left free: what is trimmed by schedule is for the most part used again at once.

A file can do this if it was made so (`slotlog.log.embedded.file.file.connect`). One of an older slotlog keeps its size
until it is written anew, once.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from slotlog.log.embedded.file.file import can_shrink, connect, patiently, translated

_STEP_PAGES: Final = 256
_FREE_SHARE: Final = 8  # of the pages in use, one of so many may stay free


def give_back(connection: sqlite3.Connection) -> int:
    """Cut off the next pages, in the caller's transaction. Returns how many bytes they have."""
    surplus = _surplus(connection)
    if surplus <= 0 or not can_shrink(connection):
        return 0
    before = _number(connection, "page_count")
    for _ in range(min(surplus, _STEP_PAGES)):  # a larger number would do no more: sqlite3 takes one step of it
        connection.execute("PRAGMA incremental_vacuum(1)")
    return (before - _number(connection, "page_count")) * _number(connection, "page_size")


def copy_wal(path: Path) -> None:
    """Copy what is committed from the `-wal` to the file, and cut the end of the file off.

    As far as no reader stands before it. Others append meanwhile. Blocks for the disk.

    Raises:
        LogUnavailableError, LogMismatchError: the file cannot be opened, or written.
    """
    connection = connect(path)
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:
        raise translated(error, path) from error
    finally:
        connection.close()


def rewrite(path: Path) -> int:
    """Write all of the file anew, without free pages, as one that can shrink. Nobody can append meanwhile.

    Returns by how many bytes it is smaller.

    Its content goes through the `-wal`: for a while the disk holds it three times.

    Raises:
        LogUnavailableError, LogMismatchError: the file cannot be opened, or written. It is as it was.
    """
    connection = connect(path)
    try:
        before = _number(connection, "page_count")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        patiently(lambda: connection.execute("VACUUM"))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return max(0, before - _number(connection, "page_count")) * _number(connection, "page_size")
    except sqlite3.Error as error:
        raise translated(error, path) from error
    finally:
        connection.close()


def _surplus(connection: sqlite3.Connection) -> int:
    """How many free pages there are beyond those that are left for appends."""
    pages, free = _number(connection, "page_count"), _number(connection, "freelist_count")
    return free - (pages - free) // _FREE_SHARE


def _number(connection: sqlite3.Connection, name: str) -> int:
    number: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return number

"""The SQLite file of the embedded log: tables, connections, and how its records are found.

    log          one row: format 1, a random id of 16 bytes, topic, number of partitions
    partitions   partition -> next_offset, last_time_ms; apart from the records, as they outlive a full trim
    records      partition << 48 | offset -> time_ms, key, value
    dead_letters (topic, partition, offset) -> time_ms, key, value, headers, reason

WAL mode with synchronous=FULL: a commit is on disk before it can be seen, so nobody ever reads a record that a power
loss could take back. Several processes may append at once. SQLite lets one write at a time and its own waiting starves
the unlucky (0.1 s steps), so whoever meets a lock tries again every 0.2 ms, and bulk writers leave gaps of 2 ms.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple, TypeVar

from engine.errors import CorruptionError
from ingest.errors import LogMismatchError, LogUnavailableError, Mismatch
from ingest.log.base import LogRecord

OFFSET_BITS: Final = 48
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

_FORMAT: Final = 1
_APPLICATION_ID: Final = 0x736C6F67  # "slog": what the file is, for `file` and for us
_RETRY_SECONDS: Final = 0.0002
BUSY_SECONDS_MAX: Final = 5.0  # a service has to end within 10 s of SIGTERM
IN_LOOP_SECONDS_MAX: Final = 1.0  # in the event loop, where nothing else happens meanwhile
_WAL_BYTES_KEPT: Final = 64 * 1024 * 1024

_SCHEMA: Final = f"""
    CREATE TABLE log (format INTEGER NOT NULL, id BLOB NOT NULL, topic TEXT NOT NULL, partitions INTEGER NOT NULL);
    CREATE TABLE partitions (
        partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL, last_time_ms INTEGER NOT NULL);
    CREATE TABLE records (position INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, key BLOB, value BLOB NOT NULL);
    CREATE TABLE dead_letters (
        topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, time_ms INTEGER NOT NULL,
        reason TEXT NOT NULL, key BLOB, value BLOB, headers BLOB NOT NULL,
        PRIMARY KEY (topic, partition, offset)) WITHOUT ROWID;
    PRAGMA application_id = {_APPLICATION_ID}
"""

T = TypeVar("T")


class Identity(NamedTuple):
    """The one row of `log`."""

    format: int
    id: bytes
    topic: str
    partitions: int


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """A connection in the modes that the module's docstring names. It may be used by one thread at a time.

    Raises:
        LogMismatchError: there is no such file, and it may not be created; or it is somebody else's.
        LogUnavailableError: it cannot be opened.
    """
    if not create and not path.exists():
        raise LogMismatchError(Mismatch.MISSING, f"there is no log at {path}")
    try:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    try:
        _refuse_foreign(connection, path)
        patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Before anything is changed: the file is empty, or a log."""
    owner = patiently(lambda: connection.execute("PRAGMA application_id").fetchone())[0]
    if owner != _APPLICATION_ID and not is_empty(connection):
        raise LogMismatchError(Mismatch.TOPIC, f"{path} is an SQLite file, but not a log of slotlog")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables yet."""
    count: int = patiently(lambda: connection.execute("SELECT count(*) FROM sqlite_schema").fetchone())[0]
    return count == 0


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """What an error of SQLite means to a caller of the log."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return LogMismatchError(Mismatch.TOPIC, f"{path} is not a log of slotlog, nor any SQLite file")
    if code == sqlite3.SQLITE_CORRUPT:
        return CorruptionError(f"the log {path} is damaged: {error}")
    return LogUnavailableError(f"the log {path} cannot be used: {error}")


def patiently(action: Callable[[], T], seconds: float = BUSY_SECONDS_MAX) -> T:
    """Do `action` as soon as no other process holds a lock that it needs. Blocks its thread for `seconds` at most.

    Raises:
        LogUnavailableError: the lock was held all the time.
    """
    until = monotonic() + seconds
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if monotonic() > until:
                raise LogUnavailableError(f"another process holds the log's lock for {seconds:g} s") from error
        sleep(_RETRY_SECONDS)


def create_tables(connection: sqlite3.Connection, topic: str, partitions: int) -> None:
    """Make an empty file a log; leave one that is a log as it is."""
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        if is_empty(connection):
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            identity = Identity(_FORMAT, secrets.token_bytes(16), topic, partitions)
            connection.execute("INSERT INTO log VALUES (?, ?, ?, ?)", identity)
            connection.executemany("INSERT INTO partitions VALUES (?, 0, 0)", [(p,) for p in range(partitions)])
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def read_identity(connection: sqlite3.Connection, path: Path) -> Identity:
    """Which log the file is.

    Raises:
        LogMismatchError: not a log, or one of a newer format.
    """
    try:
        row = patiently(lambda: connection.execute("SELECT format, id, topic, partitions FROM log").fetchone())
    except sqlite3.OperationalError as error:
        raise LogMismatchError(Mismatch.TOPIC, f"{path} is an SQLite file, but not a log of slotlog") from error
    except sqlite3.Error as error:
        raise translated(error, path) from error
    identity = Identity(*row)
    if identity.format != _FORMAT:
        raise LogMismatchError(
            Mismatch.SETTINGS,
            f"{path} has format {identity.format}, and this version knows {_FORMAT}: use a newer slotlog",
        )
    return identity


def another_log(path: Path) -> LogMismatchError:
    """The file holds another log than it did."""
    return LogMismatchError(
        Mismatch.RECREATED,
        f"{path} is another log than the one that the state was built from: it was recreated. "
        "Bring the old one back, or replay this one into a fresh directory.",
    )


def range_of(connection: sqlite3.Connection, partition: int) -> tuple[int, int]:
    """(begin, end) of a partition, as of one moment."""
    first = partition << OFFSET_BITS
    begin, end = connection.execute(
        "SELECT (SELECT min(position) FROM records WHERE position >= ? AND position < ?), next_offset "
        "FROM partitions WHERE partition = ?",
        (first, first + (1 << OFFSET_BITS), partition),
    ).fetchone()
    return (end if begin is None else begin & OFFSET_MASK), end


def record_at(connection: sqlite3.Connection, partition: int, offset: int) -> LogRecord | None:
    """The record at an offset; None if there is none."""
    record: LogRecord | None = connection.execute(
        "SELECT position & ?, time_ms, key, value FROM records WHERE position = ?",
        (OFFSET_MASK, partition << OFFSET_BITS | offset),
    ).fetchone()
    return record

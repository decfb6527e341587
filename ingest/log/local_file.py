"""The SQLite file of the embedded log: tables, connections and the one thread that writes.

    log          one row: format 1, a random id of 16 bytes, topic, number of partitions
    partitions   partition -> next_offset, last_time_ms; apart from the records, as they outlive a full trim
    records      partition << 48 | offset -> time_ms, key, value
    dead_letters (topic, partition, offset) -> time_ms, key, value, headers, reason

WAL mode with synchronous=FULL: a commit is on disk before it can be seen, so nobody ever reads a record that a power
loss could take back. Several processes may append at once. SQLite lets one write at a time and its own waiting starves
the unlucky (0.1 s steps), so whoever meets a lock tries again every 0.2 ms, and bulk writers leave gaps of 2 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sqlite3
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, TypeVar

from engine.errors import CorruptionError
from ingest.clock import now_ms
from ingest.errors import AppendUncertainError, LogMismatchError, LogUnavailableError, Mismatch
from ingest.log.base import Entry, LogRecord, Position

OFFSET_BITS: Final = 48
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
GROUP_ROWS_MAX: Final = 1000
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024

_FORMAT: Final = 1
_APPLICATION_ID: Final = 0x736C6F67  # "slog": what the file is, for `file` and for us
_RETRY_SECONDS: Final = 0.0002
_BUSY_SECONDS_MAX: Final = 5.0  # a service has to end within 10 s of SIGTERM
_BUSY_SECONDS_CLOSING: Final = 0.1
IN_LOOP_SECONDS_MAX: Final = 1.0  # in the event loop, where nothing else happens meanwhile
_BULK_ROWS: Final = 500  # a transaction of as many rows belongs to a bulk writer, who then pauses
_BULK_PAUSE_SECONDS: Final = 0.002
_WAL_BYTES_KEPT: Final = 64 * 1024 * 1024
_ROWS_PER_INSERT: Final = (256, 16, 1)

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


def patiently(action: Callable[[], T], seconds: float = _BUSY_SECONDS_MAX) -> T:
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


class Job(NamedTuple):
    """Something to write: entries, or anything else done in the same transaction.

    Attributes:
        entries: to append; the result is their positions.
        work: given the connection inside the transaction; the result is what it returns.
        done: set in the loop's thread once it is durable.
    """

    entries: Sequence[Entry]
    work: Callable[[sqlite3.Connection], Any] | None
    done: asyncio.Future[Any]


class Writer(threading.Thread):
    """Writes jobs in groups, one transaction and one fsync a group.

    Args:
        path: the log.
        loop: whose futures the jobs hold.
        committed: called in the loop's thread after each group.
    """

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop, committed: Callable[[], None]) -> None:
        super().__init__(name="slotlog-log-writer", daemon=True)
        self._path = path
        self._loop = loop
        self._committed = committed
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._held: Job | None = None
        self._stopping = False
        self._connection: sqlite3.Connection | None = None
        self._inode = _inode(path)

    def submit(
        self, entries: Sequence[Entry], work: Callable[[sqlite3.Connection], Any] | None = None
    ) -> asyncio.Future[Any]:
        """Queue a job of at most `GROUP_ROWS_MAX` entries; jobs are written in the order of their submission.

        Raises:
            LogUnavailableError: after `stop`.
        """
        if self._stopping:
            raise LogUnavailableError(f"the log {self._path} is closed")
        job = Job(entries, work, self._loop.create_future())
        self._jobs.put(job)
        return job.done

    def stop(self) -> None:
        """Write what is queued, then end."""
        self._stopping = True
        self._jobs.put(None)

    def run(self) -> None:
        """The thread: one group after another until `stop`."""
        while group := self._next_group():
            results = self._write_or_split(group)
            written_at = monotonic()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, group, results)
            if sum(len(job.entries) for job in group) >= _BULK_ROWS:
                sleep(max(0.0, written_at + _BULK_PAUSE_SECONDS - monotonic()))
        if self._connection is not None:
            self._connection.close()

    def _settle(self, group: list[Job], results: list[Any]) -> None:
        for job, result in zip(group, results, strict=True):
            if job.done.done():
                continue  # cancelled by whoever waited
            if isinstance(result, Exception):
                job.done.set_exception(result)
            else:
                job.done.set_result(result)
        self._committed()

    def _next_group(self) -> list[Job]:
        """What is queued now, as far as it fits into one transaction; waits for a first job. Empty at the end."""
        first = self._held or self._jobs.get()
        self._held = None
        group: list[Job] = []
        rows = size = 0
        job: Job | None = first
        while job is not None:
            rows += len(job.entries)
            size += sum(len(entry.value) for entry in job.entries)
            if group and (rows > GROUP_ROWS_MAX or size > GROUP_BYTES_MAX):
                self._held = job
                break
            group.append(job)
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._jobs.put(None)  # the end is for the next round
        return group

    def _write_or_split(self, group: list[Job]) -> list[Any]:
        """Write a group; when that fails by one of its jobs, each by itself. Gives a result or an error for each."""
        try:
            return self._write(group)
        except sqlite3.OperationalError as error:  # disk, lock, file: no job's fault
            failure = translated(error, self._path)
        except (LogUnavailableError, LogMismatchError) as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the job
            if len(group) > 1:
                return [result for job in group for result in self._write_or_split([job])]
            failure = translated(error, self._path) if isinstance(error, sqlite3.Error) else error
        return [failure] * len(group)

    def _write(self, group: list[Job]) -> list[Any]:
        committing = False
        try:
            connection = self._open()
            seconds = _BUSY_SECONDS_CLOSING if self._stopping else _BUSY_SECONDS_MAX
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), seconds)
            positions = iter(_append(connection, [entry for job in group for entry in job.entries]))
            results = [
                job.work(connection) if job.work is not None else list(islice(positions, len(job.entries)))
                for job in group
            ]
            committing = True
            connection.execute("COMMIT")
        except Exception as error:
            self._drop_connection()
            if committing:
                raise AppendUncertainError(f"the log {self._path} failed while it wrote: {error}") from error
            raise
        return results

    def _open(self) -> sqlite3.Connection:
        if _inode(self._path) != self._inode:
            raise LogMismatchError(
                Mismatch.RECREATED,
                f"the log {self._path} was deleted or exchanged while it was open: restart, and see its check",
            )
        if self._connection is None:
            self._connection = connect(self._path)
        return self._connection

    def _drop_connection(self) -> None:
        """After a failure: closing rolls back, and what is on disk is read anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _append(connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[Position]:
    """Give each entry its offset and its time, and insert the rows."""
    now = now_ms()
    heads: dict[int, list[int]] = {}
    positions: list[Position] = []
    rows: list[tuple[int, int, bytes | None, bytes]] = []
    for partition, key, value, time_ms in entries:
        head = heads.get(partition)
        if head is None:
            found = connection.execute(
                "SELECT next_offset, last_time_ms FROM partitions WHERE partition = ?", (partition,)
            )
            head = heads[partition] = list(found.fetchone())
        head[1] = max(head[1], now if time_ms is None else time_ms)
        positions.append(Position(partition, head[0]))
        rows.append((partition << OFFSET_BITS | head[0], head[1], key, value))
        head[0] += 1
    _insert(connection, rows)
    for partition, (next_offset, last_time_ms) in heads.items():
        connection.execute(
            "UPDATE partitions SET next_offset = ?, last_time_ms = ? WHERE partition = ?",
            (next_offset, last_time_ms, partition),
        )
    return positions


def _insert(connection: sqlite3.Connection, rows: Sequence[tuple[int, int, bytes | None, bytes]]) -> None:
    """Insert `rows`, many by one statement.

    Python's sqlite3 gives up the GIL at each step of a statement, and gets it back after up to 5 ms when the event loop
    is busy: a thousand single inserts would take seconds.
    """
    at = 0
    for count in _ROWS_PER_INSERT:
        statement = "INSERT INTO records VALUES " + ",".join(["(?,?,?,?)"] * count)  # noqa: S608 - no value in it
        while len(rows) - at >= count:
            connection.execute(statement, [field for row in rows[at : at + count] for field in row])
            at += count

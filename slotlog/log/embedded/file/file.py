"""The SQLite file of the embedded log: connections, and which log it is.

WAL mode with synchronous=FULL: a commit is on disk before it can be seen, so nobody ever reads a record that a power
loss could take back. Several processes may append at once. SQLite lets one write at a time and its own waiting starves
the unlucky (0.1 s steps), so whoever meets a lock tries again every 0.2 ms, and bulk writers leave gaps of 2 ms.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, TypeVar

from slotlog import disk
from slotlog.errors import LogDamagedError, LogMismatchError, LogUnavailableError, Mismatch
from slotlog.log.embedded.file.chain import root, sum_of
from slotlog.log.embedded.file.heads import Head, insert_head
from slotlog.log.embedded.file.tables import (
    DEAD_LETTERS,
    LOG,
    PARTITIONS,
    RECORDS,
    REQUIRED,
    TABLES,
    is_format_1,
    is_set_backs_of_2,
    tables_of,
)
from slotlog.log_lines import LineLogger

FORMAT: Final = 3
_APPLICATION_ID: Final = 0x736C6F67  # "slog": what the file is, for `file` and for us
_INCREMENTAL: Final = 2  # as `PRAGMA auto_vacuum` says it
_RETRY_SECONDS: Final = 0.0002
TRY_AGAIN_SECONDS: Final = (0.01, 0.1, 0.5)
BUSY_SECONDS_MAX: Final = 5.0  # a service has to end within 10 s of SIGTERM
IN_LOOP_SECONDS_MAX: Final = 1.0  # in the event loop, where nothing else happens meanwhile
CHECKPOINT_PAGES: Final = 3800
"""Of the `-wal`, when SQLite copies them to the file, in the commit that it is at.

With some 4,060 the `-shm` gets larger, for which a full disk has no room: that is another error than for the `-wal`.
Where `WalRoom` has made it larger, the connection that appends has `ROOMY_CHECKPOINT_PAGES`.
"""

CACHE_BYTES: Final = 512 * 1024
"""Of the file's pages, for each connection: an append needs seven. SQLite's own 2 MB made a service 1.4 MB larger."""

_WAL_BYTES_KEPT: Final = 64 * 1024 * 1024
_BESIDE_BYTES: Final = 64 * 1024  # SQLite's index of the WAL has 32 KiB at first
WORKS_MAX: Final = (1 << 31) - 1  # SQLite makes 0 of a larger `user_version`; at ten a second that is in seven years

_DAMAGED_CODES: Final = {
    0,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_RANGE,
}
"""Nothing that we ask is wrong in a sound file: these say that its tables or rows are not what was written."""

_DENIED_CODES: Final = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
_DENIED: Final = (
    "Who reads a log writes as well: locks, and SQLite's -wal and -shm beside the file. Get the right to write the "
    "file and its directory, or copy the file (a backup, or while no service runs) to where you can write"
)

_NO_VERDICT: Final = "read again: only what fails each time is damage, and is said to be"

T = TypeVar("T")

logger = LineLogger(__name__)


class Identity(NamedTuple):
    """The one row of `log`."""

    format: int
    id: bytes
    topic: str
    partitions: int


def connect(path: Path, *, create: bool = False, change: bool = True) -> sqlite3.Connection:
    """A connection in the modes that the module's docstring names. It may be used by one thread at a time.

    Args:
        path: the file.
        create: make it, if it is not there, and set the modes of one that is empty.
        change: False: the file is left as it is, and so is what stands beside it in a `-wal` or `-journal`.

    Raises:
        LogMismatchError: there is no such file, and it may not be created; or it is somebody else's.
        LogUnavailableError: it cannot be opened.
    """
    if create:
        _make_file(path)
    elif not path.exists():
        raise LogMismatchError(Mismatch.MISSING, f"there is no log at {path}: name it with --data or --log")
    try:
        return _connected(path, create=create, change=change)
    except LogUnavailableError as error:
        _refuse_to_wait(error, path, 0)
    return _connected(path, create=create, change=change)  # what a disk fails to read once may be sound


def _make_file(path: Path) -> None:
    """An empty file for the log, readable by its owner alone: SQLite gives the same mode to those beside it."""
    try:
        disk.make_file(path)
    except OSError as error:
        raise LogUnavailableError(f"the log {path} cannot be made: {error.strerror}") from error


def _connected(path: Path, *, create: bool, change: bool) -> sqlite3.Connection:
    # A connection that may write brings what stands there into the file, when it first reads or when it is closed.
    is_kept = not change and any(disk.size_of(Path(f"{path}{suffix}")) for suffix in ("-wal", "-journal"))
    name = f"{path.absolute().as_uri()}?mode=ro" if is_kept else path
    try:
        connection = sqlite3.connect(name, uri=is_kept, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    connection.text_factory = as_text
    try:
        is_log = _refuse_foreign(connection, path)
        if create and not is_log:
            # Only before the first page is there: later it would be a write by each connection that changes nothing.
            patiently(lambda: connection.execute("PRAGMA auto_vacuum = INCREMENTAL"))
        if create or (change and is_log):  # it is a write into a file that has another mode, or is empty
            patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_BYTES // 1024}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def as_text(stored: bytes) -> str:
    """A text as it is stored; one that a damaged page makes of other bytes is no error here, but in what holds it."""
    return stored.decode("utf-8", "surrogateescape")


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> bool:
    """Before anything is changed: whether the file is a log; else it is empty."""
    if is_empty(connection):  # first: another process may make a log of it now, and then the next answer is that one's
        return False
    owner = patiently(lambda: connection.execute("PRAGMA application_id").fetchone())[0]
    if owner != _APPLICATION_ID:
        raise LogMismatchError(Mismatch.TOPIC, f"{path} is an SQLite file, but not a log of slotlog")
    return True


def can_shrink(connection: sqlite3.Connection) -> bool:
    """Whether free pages can be cut off: since the file's first page is there, it is told where each page belongs."""
    mode: int = connection.execute("PRAGMA auto_vacuum").fetchone()[0]
    return mode == _INCREMENTAL


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables yet."""
    count: int = patiently(lambda: connection.execute("SELECT count(*) FROM sqlite_schema").fetchone())[0]
    return count == 0


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary code; 0 for an error of Python's module itself, such as a value that it cannot give."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """What an error of SQLite means to a caller of the log."""
    code = code_of(error)
    if code == sqlite3.SQLITE_NOTADB:
        return LogMismatchError(Mismatch.TOPIC, f"{path} is not a log of slotlog, nor any SQLite file")
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
        said = f"{path} is an SQLite file with a change half done in its -journal, which no log of slotlog has"
        return LogMismatchError(Mismatch.TOPIC, said)
    if code in _DAMAGED_CODES:
        return damaged(path, str(error))
    if code in _DENIED_CODES and not (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)):
        return LogUnavailableError(f"the log {path} cannot be used: {error}. {_DENIED}")
    return LogUnavailableError(f"the log {path} cannot be used{if_full(error, path)}: {error}")


def if_full(error: BaseException, path: Path) -> str:
    """What is to be said of a full disk where SQLite speaks of an I/O error: it had no room beside the file."""
    is_failed = isinstance(error, sqlite3.Error) and code_of(error) == sqlite3.SQLITE_IOERR
    return ", as its disk is full: make room" if is_failed and _has_no_room(path) else ""


def _has_no_room(path: Path) -> bool:
    """Whether there is no room even for what a reader makes beside the file."""
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < _BESIDE_BYTES


def damaged(path: Path, reason: str) -> LogDamagedError:
    """The file does not hold what was written, or its disk cannot read it: SQLite says the same of both."""
    return LogDamagedError(
        f"the log {path} is damaged, or its disk cannot read it: {reason}. `slotlog check --log` says what of it is "
        "still good; bring the file back from a copy, or put the disk right.",
        reason,
    )


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
            if code_of(error) != sqlite3.SQLITE_BUSY:
                raise
            if monotonic() > until:
                raise LogUnavailableError(f"another process holds the log's lock for {seconds:g} s") from error
        sleep(_RETRY_SECONDS)


async def steadily(action: Callable[[], Awaitable[T]], path: Path) -> T:
    """Do `action`; where the file cannot be read, again in a moment: what a disk fails to read once may be sound.

    SQLite says of a failed read that the file is malformed, as of one that is.

    Raises:
        sqlite3.Error, LogUnavailableError, Exception: as `action` does, the last time.
    """
    for seconds in TRY_AGAIN_SECONDS:
        try:
            return await action()
        except (sqlite3.Error, LogUnavailableError) as error:
            _refuse_to_wait(error, path, seconds)
        await asyncio.sleep(seconds)
    return await action()


def steadily_here(action: Callable[[], T], path: Path) -> T:
    """As `steadily`, in a thread that may wait."""
    for seconds in TRY_AGAIN_SECONDS:
        try:
            return action()
        except (sqlite3.Error, LogUnavailableError) as error:
            _refuse_to_wait(error, path, seconds)
        sleep(seconds)
    return action()


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """`asyncio.to_thread`, whose thread has ended even when this is cancelled.

    SQLite crashes the process when a connection is closed that a thread still uses.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait((working,))
        raise


def _is_failed_read(error: Exception) -> bool:
    """Whether an error was made of one that the operating system gave SQLite for a read or a write."""
    return isinstance(error.__cause__, sqlite3.Error) and code_of(error.__cause__) == sqlite3.SQLITE_IOERR


def _refuse_to_wait(error: Exception, path: Path, seconds: float) -> None:
    """Raise what another attempt would not change; of the rest, say that there will be one."""
    if not isinstance(error, sqlite3.Error | LogDamagedError) and not _is_failed_read(error):
        raise error
    cause = error.__cause__ if isinstance(error.__cause__, sqlite3.Error) else error
    said = "what was read is not what slotlog writes" if isinstance(cause, LogDamagedError) else f"SQLite: {cause}"
    logger.warning("log_read_failed", log=str(path), error=said, again_in_seconds=seconds, hint=_NO_VERDICT)


async def until_made(connection: sqlite3.Connection) -> None:
    """Wait for a moment where the file is empty: who makes a log does so in a few steps."""
    for seconds in TRY_AGAIN_SECONDS:
        if not is_empty(connection):
            break
        await asyncio.sleep(seconds)


def create_tables(connection: sqlite3.Connection, topic: str, partitions: int) -> bool:
    """Make an empty file a log; leave one that is a log as it is. Returns whether it was empty."""
    if not is_empty(connection):
        return False
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        was_empty = is_empty(connection)
        if was_empty:
            for statement in (LOG, PARTITIONS, RECORDS, DEAD_LETTERS, f"PRAGMA application_id = {_APPLICATION_ID}"):
                connection.execute(statement)
            identity = Identity(FORMAT, secrets.token_bytes(16), topic, partitions)
            connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", (*identity, sum_of(*identity)))
            for partition in range(partitions):
                link = root(identity.id, partition)
                insert_head(connection, partition, Head(0, 0, 0, link, link))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return was_empty


def read_identity(connection: sqlite3.Connection, path: Path) -> Identity:
    """Which log the file is, of this format or an older one.

    Raises:
        LogMismatchError: not a log, or one of a newer format.
        LogDamagedError: the tables or this row are not what was written.
    """
    try:
        return patiently(lambda: _identity(connection, path))
    except sqlite3.Error as error:
        raise translated(error, path) from error


def _identity(connection: sqlite3.Connection, path: Path) -> Identity:
    tables = tables_of(connection)
    if not tables:
        raise LogMismatchError(
            Mismatch.TOPIC, f"{path} is empty: there is no log in it. If there was one, bring it back from a copy"
        )
    if "log" not in tables:
        raise LogMismatchError(Mismatch.TOPIC, f"{path} is an SQLite file, but not a log of slotlog")
    if is_format_1(tables):
        return Identity._make(connection.execute("SELECT format, id, topic, partitions FROM log").fetchone())
    row = connection.execute("SELECT format, id, topic, partitions, sum FROM log").fetchone()
    if row is None:
        raise damaged(path, "the table `log` is empty")
    *fields, total = row
    if type(row[0]) is int and row[0] > FORMAT:
        raise LogMismatchError(
            Mismatch.SETTINGS,
            f"{path} has format {row[0]}, and this version knows {FORMAT}: use a newer slotlog. If none wrote it, the "
            "file is damaged: bring it back from a copy.",
        )
    if sum_of(*fields) != total:
        raise damaged(path, "the table `log` is not as it was written")
    for name, definition in tables.items():
        if TABLES.get(name) != definition and not (row[0] == 2 and is_set_backs_of_2(definition)):
            raise damaged(path, f"the definition of the table {name!r} is not what slotlog writes")
    if missing := REQUIRED - tables.keys():
        raise damaged(path, f"the table {min(missing)!r} is missing")
    return Identity._make(fields)


def another_log(path: Path) -> LogMismatchError:
    """The file holds another log than it did."""
    return LogMismatchError(
        Mismatch.RECREATED,
        f"{path} is another log than the one that the state was built from: it was recreated. "
        "Bring the old one back, or replay this one into a fresh directory.",
    )


def changes(connection: sqlite3.Connection) -> tuple[int, int]:
    """Two numbers, of which the first moves with the commits of others, the second with those of this connection."""
    return connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes


def works_of(connection: sqlite3.Connection) -> int:
    """How many transactions of the writer changed anything but records; behind `WORKS_MAX` they are counted from 1."""
    works: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return works


def count_work(connection: sqlite3.Connection) -> None:
    """One more, in the caller's transaction."""
    connection.execute(f"PRAGMA user_version = {works_of(connection) % WORKS_MAX + 1}")


def make_directory(path: Path) -> None:
    """Make a log's directory, if it is not there, for its owner alone.

    Raises:
        LogUnavailableError: it cannot be made.
    """
    try:
        disk.make_directory(path)
    except OSError as error:
        raise LogUnavailableError(f"the log's directory {path} cannot be made: {error}") from error

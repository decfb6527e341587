"""Writes to the embedded log: groups of appends, one transaction and one fsync each.

`Writer` is the one thread that writes; `append_in` does the same in the caller's thread while nobody else writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice, repeat
from operator import itemgetter
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

from slotlog.clock import WALL, stamp_ms
from slotlog.errors import AppendUncertainError, LogMismatchError, LogUnavailableError
from slotlog.log.embedded.file.chain import LINK_BYTES, OFFSET_BITS, seals_of
from slotlog.log.embedded.file.file import (
    BUSY_SECONDS_MAX,
    code_of,
    connect,
    count_work,
    if_full,
    patiently,
    translated,
)
from slotlog.log.embedded.file.heads import Head, head_of, set_head
from slotlog.log.embedded.file.open_files import Files
from slotlog.log.log import Entry, RecordPosition
from slotlog.shared.errors import InvariantError

GROUP_ROWS_MAX: Final = 1000
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
_BUSY_SECONDS_CLOSING: Final = 0.1
_BULK_ROWS: Final = 500  # a transaction of as many rows belongs to a bulk writer, who then pauses
_BULK_PAUSE_SECONDS: Final = 0.002
_INSERTS: Final = tuple(
    (count, "INSERT INTO records VALUES " + ",".join(["(?,?,?,?,?)"] * count))  # noqa: S608 - no value in it
    for count in (256, 128, 64, 32, *range(16, 0, -1))
)
"""Rows, and the statement that inserts as many. Clients that write one by one make groups that take three at most."""

_FIELDS: Final = 5  # of a row
_PARTITION: Final = itemgetter(0)  # of an entry

RowsOf = Callable[
    [Sequence[Entry], int, int, int, int, type[RecordPosition]], tuple[list[Any], list[RecordPosition], int] | None
]
"""Makes rows of entries, as `engine.native` has it, which this package does not import.

It takes entries, partition, the first one's offset, the time of all, the link before them, and the type of positions.
It returns the fields of all rows, their positions and the last one's link; None: it is not for these.
"""

_rows_of: RowsOf | None = None


def choose(rows_of: RowsOf | None) -> None:
    """Let appends make their rows by `rows_of`, or None: by Python alone."""
    global _rows_of  # noqa: PLW0603 - one for the process: it stands for how slotlog was installed
    _rows_of = rows_of


class WriteJob(NamedTuple):
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
        files: the log's.
        loop: whose futures the jobs hold.
        committed: called in the loop's thread after each group.
    """

    def __init__(self, files: Files, loop: asyncio.AbstractEventLoop, committed: Callable[[], None]) -> None:
        super().__init__(name="slotlog-log-writer", daemon=True)
        self._path = files.path
        self._loop = loop
        self._committed = committed
        self._jobs: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._held: WriteJob | None = None
        self._stopping = False
        self._connection: sqlite3.Connection | None = None
        self._files = files

    def submit(
        self, entries: Sequence[Entry], work: Callable[[sqlite3.Connection], Any] | None = None
    ) -> asyncio.Future[Any]:
        """Queue a job of at most `GROUP_ROWS_MAX` entries; jobs are written in the order of their submission.

        Raises:
            LogUnavailableError: after `stop`.
        """
        if self._stopping:
            raise LogUnavailableError(f"the log {self._path} is closed")
        job = WriteJob(entries, work, self._loop.create_future())
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

    def _settle(self, group: list[WriteJob], results: list[Any]) -> None:
        for job, result in zip(group, results, strict=True):
            if job.done.done():
                continue  # cancelled by whoever waited
            if isinstance(result, Exception):
                job.done.set_exception(result)
            else:
                job.done.set_result(result)
        self._committed()

    def _next_group(self) -> list[WriteJob]:
        """What is queued now, as far as it fits into one transaction; waits for a first job. Empty at the end."""
        first = self._held or self._jobs.get()
        self._held = None
        group: list[WriteJob] = []
        rows = size = 0
        job: WriteJob | None = first
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

    def _write_or_split(self, group: list[WriteJob]) -> list[Any]:
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

    def _write(self, group: list[WriteJob]) -> list[Any]:
        committing = False
        try:
            connection = self._open()
            seconds = _BUSY_SECONDS_CLOSING if self._stopping else BUSY_SECONDS_MAX
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), seconds)
            positions = iter(append_rows(connection, [entry for job in group for entry in job.entries]))
            results = [
                _worked(connection, job.work) if job.work is not None else list(islice(positions, len(job.entries)))
                for job in group
            ]
            committing = True
            connection.execute("COMMIT")
        except Exception as error:
            self._drop_connection()
            if committing:
                raise _uncertain(error, self._path) from error
            raise
        return results

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._files.refuse_exchanged()
            self._connection = connect(self._path)
        else:
            self._files.refuse_exchanged(self._connection)
        return self._connection

    def _drop_connection(self) -> None:
        """After a failure: closing rolls back, and what is on disk is read anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _worked(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Any]) -> Any:
    """Do `work`, and count it if it changed anything, so that a file which lacks it is known by its mark."""
    before = connection.total_changes
    result = work(connection)
    if connection.total_changes != before:
        count_work(connection)
    return result


def append_in(connection: sqlite3.Connection, files: Files, entries: Sequence[Entry]) -> list[RecordPosition] | None:
    """Append in a transaction of `connection`; None, and nothing done, while somebody else writes.

    Raises:
        AppendUncertainError: the commit failed.
        LogMismatchError: the files at the path are not the ones that are open.
        sqlite3.Error, LogDamagedError: nothing was appended.
    """
    files.refuse_exchanged(connection)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if code_of(error) != sqlite3.SQLITE_BUSY:
            raise
        return None
    committing = False
    try:
        positions = append_rows(connection, entries)
        committing = True
        connection.execute("COMMIT")
    except Exception as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if committing:
            raise _uncertain(error, files.path) from error
        raise
    return positions


def _uncertain(error: Exception, path: Path) -> AppendUncertainError:
    """What a commit that failed means to who appends."""
    return AppendUncertainError(f"the log {path} failed while it wrote{if_full(error, path)}: {error}")


def append_rows(connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[RecordPosition]:
    """Give each entry its offset, its time and its seal, and insert the rows.

    Raises:
        LogDamagedError: the file no longer says where a partition ends.
    """
    if not entries:
        return []
    now = stamp_ms()
    if len(set(map(_PARTITION, entries))) == 1:
        fields, positions = _rows_in_one(connection, entries[0].partition, entries, now)
        _insert(connection, fields)
        return positions
    places: dict[int, list[int]] = {}
    for place, entry in enumerate(entries):
        places.setdefault(entry.partition, []).append(place)
    fields, by_place = [], dict[int, RecordPosition]()
    for partition, chosen in places.items():
        its_fields, positions = _rows_in_one(connection, partition, [entries[place] for place in chosen], now)
        fields += its_fields
        by_place.update(zip(chosen, positions, strict=True))
    _insert(connection, fields)
    return [by_place[place] for place in range(len(entries))]


def _rows_in_one(
    connection: sqlite3.Connection, partition: int, entries: Sequence[Entry], now: int
) -> tuple[list[Any], list[RecordPosition]]:
    """Let the partition end behind these entries; returns the fields of their rows, to be inserted, and positions."""
    head = head_of(connection, partition)
    if _rows_of is not None and len(head.link) == LINK_BYTES:  # else of an older format
        time_ms, link = max(head.last_time_ms, now), int.from_bytes(head.link, "big")
        made = _rows_of(entries, partition, head.next_offset, time_ms, link, RecordPosition)
        if made is not None:
            fields, positions, link = made
            end, own = positions[-1].offset + 1, link.to_bytes(LINK_BYTES, "big")
            set_head(connection, partition, head._replace(next_offset=end, last_time_ms=time_ms, link=own))
            return fields, positions
    return _rows_by_columns(connection, partition, head, entries, now)


def _rows_by_columns(
    connection: sqlite3.Connection, partition: int, head: Head, entries: Sequence[Entry], now: int
) -> tuple[list[Any], list[RecordPosition]]:
    """`_rows_in_one` by columns: what Python does for each row costs as much as SQLite does.

    SQLite is given bytearrays, as Python's module first looks for an adapter of anything else but numbers and texts:
    for bytes that takes longer than the copy. Measured in instructions a record, with seals and without: in groups of
    800, 31,200 with bytes, 23,700 with bytearrays, and 25,200 row by row with bytes and no seals.
    """
    _, keys, values, times, _ = zip(*entries, strict=True)
    stamped = _stamped(times, head.last_time_ms, now)
    begin, end = head.next_offset, head.next_offset + len(values)
    seals = seals_of(head.link, zip(range(begin, end), stamped, keys, values, strict=True))
    first = partition << OFFSET_BITS
    stored_keys = [None if key is None else bytearray(key) for key in keys]
    stored_values = list(map(bytearray, values))
    columns = range(first + begin, first + end), stamped, stored_keys, stored_values, seals
    fields: list[Any] = [None] * (_FIELDS * len(values))
    for number, column in enumerate(columns):
        fields[number::_FIELDS] = column
    link = bytes(seals[-1][LINK_BYTES:])
    set_head(connection, partition, Head(end, stamped[-1], head.begin_offset, head.begin_link, link))
    # As RecordPosition(...) makes them, in half the time.
    positions = map(
        tuple.__new__, repeat(RecordPosition), zip(repeat(partition), range(begin, end), stamped, strict=False)
    )
    return fields, list(positions)


def _stamped(times: Sequence[int | None], last_time_ms: int, now: int) -> list[int]:
    """The times of entries that want `times`: none goes back, and who wants none gets that of now."""
    if times.count(None) == len(times):  # as a server's
        return [max(last_time_ms, now)] * len(times)
    stamped = []
    for time_ms in times:
        if time_ms is not None:
            WALL.refuse_ahead(time_ms)
        last_time_ms = max(last_time_ms, now if time_ms is None else time_ms)
        stamped.append(last_time_ms)
    return stamped


def _insert(connection: sqlite3.Connection, fields: list[Any]) -> None:
    """Insert rows, given by all their fields, many by one statement. The first field of each is its position.

    Python's sqlite3 gives up the GIL at each step of a statement, and gets it back after up to 5 ms when the event loop
    is busy: a thousand single inserts would take seconds.

    Raises:
        InvariantError: other rows were inserted, so that offsets would be missing. Asked once, for all of them.
    """
    rows, before = len(fields) // _FIELDS, connection.total_changes
    at, last = 0, None
    for size, statement in _inserts_of(rows):
        last = connection.execute(statement, fields[at : at + size]).lastrowid
        at += size
    if connection.total_changes != before + rows or last != fields[-_FIELDS]:
        raise InvariantError(f"the log would have other offsets than the {rows} that were given out")


@lru_cache(maxsize=GROUP_ROWS_MAX)
def _inserts_of(rows: int) -> list[tuple[int, str]]:
    """How many fields each statement takes, and the statements that insert so many rows."""
    inserts: list[tuple[int, str]] = []
    for count, statement in _INSERTS:
        times, rows = divmod(rows, count)
        inserts += [(_FIELDS * count, statement)] * times
    return inserts


def groups_of(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    """`entries` cut into pieces that each fit into one transaction."""
    groups: list[Sequence[Entry]] = []
    start = size = 0
    for at, entry in enumerate(entries):
        size += len(entry.value)
        if at > start and (at - start == GROUP_ROWS_MAX or size > GROUP_BYTES_MAX):
            groups.append(entries[start:at])
            start, size = at, len(entry.value)
    if start < len(entries):
        groups.append(entries[start:])
    return groups

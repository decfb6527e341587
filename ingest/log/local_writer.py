"""Writing to the embedded log: groups of appends, one transaction and one fsync each.

`Writer` is the one thread that writes; `append_in` does the same in the caller's thread while nobody else writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

from ingest.clock import WALL, stamp_ms
from ingest.errors import AppendUncertainError, LogMismatchError, LogUnavailableError
from ingest.log.base import Entry, Position
from ingest.log.local_chain import OFFSET_BITS, Row, link_of
from ingest.log.local_file import BUSY_SECONDS_MAX, code_of, connect, patiently, translated
from ingest.log.local_files import Files
from ingest.log.local_heads import Head, head_of, set_head

GROUP_ROWS_MAX: Final = 1000
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
_BUSY_SECONDS_CLOSING: Final = 0.1
_BULK_ROWS: Final = 500  # a transaction of as many rows belongs to a bulk writer, who then pauses
_BULK_PAUSE_SECONDS: Final = 0.002
_ROWS_PER_INSERT: Final = (256, 16, 1)


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
        files: the log's.
        loop: whose futures the jobs hold.
        committed: called in the loop's thread after each group.
    """

    def __init__(self, files: Files, loop: asyncio.AbstractEventLoop, committed: Callable[[], None]) -> None:
        super().__init__(name="slotlog-log-writer", daemon=True)
        self._path = files.path
        self._loop = loop
        self._committed = committed
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._held: Job | None = None
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
            seconds = _BUSY_SECONDS_CLOSING if self._stopping else BUSY_SECONDS_MAX
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), seconds)
            positions = iter(append_rows(connection, [entry for job in group for entry in job.entries]))
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


def append_in(connection: sqlite3.Connection, files: Files, entries: Sequence[Entry]) -> list[Position] | None:
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
            raise AppendUncertainError(f"the log {files.path} failed while it wrote: {error}") from error
        raise
    return positions


def append_rows(connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[Position]:
    """Give each entry its offset, its time and its seal, and insert the rows.

    Raises:
        LogDamagedError: the file no longer says where a partition ends.
    """
    if len({entry.partition for entry in entries}) == 1 and {entry.time_ms for entry in entries} == {None}:
        return _append_to_one(connection, entries)
    now = stamp_ms() if entries else 0
    ends: dict[int, _End] = {}
    positions: list[Position] = []
    rows: list[Row] = []
    for partition, key, value, time_ms, _ in entries:
        end = ends.get(partition)
        if end is None:
            head = head_of(connection, partition)
            end = ends[partition] = _End(head, head.next_offset, head.last_time_ms, head.link)
        if time_ms is not None:
            WALL.refuse_ahead(time_ms)
        end.time_ms = max(end.time_ms, now if time_ms is None else time_ms)
        positions.append(Position(partition, end.offset, end.time_ms))
        position, before = partition << OFFSET_BITS | end.offset, end.link
        end.link = link_of(before, position, end.time_ms, key, value)
        rows.append((position, end.time_ms, key, value, before + end.link))
        end.offset += 1
    _insert(connection, rows)
    for partition, end in ends.items():
        head = end.head._replace(next_offset=end.offset, last_time_ms=end.time_ms, link=end.link)
        set_head(connection, partition, head)
    return positions


@dataclass(slots=True)
class _End:
    """How far a partition has come in one append that began at `head`."""

    head: Head
    offset: int
    time_ms: int
    link: bytes


def _append_to_one(connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[Position]:
    """`append_rows` for entries of one partition that all get the time of now, as a server's are.

    Measured in groups of 800: 1.4 µs a row, 1.0 of them for its seal, beside the 1.5 that SQLite takes to insert it.
    """
    partition = entries[0].partition
    head = head_of(connection, partition)
    begin, time_ms = head.next_offset, max(head.last_time_ms, stamp_ms())
    link = head.link
    rows: list[Row] = []
    for position, (_, key, value, *_) in enumerate(entries, partition << OFFSET_BITS | begin):
        before = link
        link = link_of(before, position, time_ms, key, value)
        rows.append((position, time_ms, key, value, before + link))
    _insert(connection, rows)
    end = begin + len(entries)
    set_head(connection, partition, head._replace(next_offset=end, last_time_ms=time_ms, link=link))
    return [Position(partition, offset, time_ms) for offset in range(begin, end)]


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert `rows`, many by one statement.

    Python's sqlite3 gives up the GIL at each step of a statement, and gets it back after up to 5 ms when the event loop
    is busy: a thousand single inserts would take seconds.
    """
    at = 0
    for count in _ROWS_PER_INSERT:
        statement = "INSERT INTO records VALUES " + ",".join(["(?,?,?,?,?)"] * count)  # noqa: S608 - no value in it
        while len(rows) - at >= count:
            connection.execute(statement, [field for row in rows[at : at + count] for field in row])
            at += count


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

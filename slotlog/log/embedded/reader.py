"""Reads the embedded log.

Reads run in the event loop, as short pages: in a thread, sqlite3 would wait for the GIL at every row.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final, NoReturn

from slotlog.errors import LogDamagedError, LogRecordError
from slotlog.log.embedded.file.chain import LOST, OFFSET_BITS, CheckedRecords, checked, link_behind
from slotlog.log.embedded.file.file import (
    IN_LOOP_SECONDS_MAX,
    another_log,
    code_of,
    connect,
    patiently,
    read_identity,
    steadily,
    translated,
)
from slotlog.log.embedded.file.heads import Head, head_of, link_before, stored_link
from slotlog.log.embedded.file.open_files import Files
from slotlog.log.identity import check_range
from slotlog.log.log import Headers, LogRecord
from slotlog.shared.errors import PicklableError

_PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
_RECORDS: Final = (
    "SELECT position - ?, time_ms, key, value FROM records WHERE position >= ? AND position < ? "
    "ORDER BY position LIMIT ?"
)
_ROWS: Final = (
    "SELECT position, time_ms, key, value, seal FROM records WHERE position >= ? AND position < ? "
    "ORDER BY position LIMIT ?"
)
_POLL_SECONDS_MIN: Final = 0.001
_POLL_SECONDS_MAX: Final = 0.02  # an idle reader asks 50 times a second, 5 µs each


class EmbeddedReader:
    """Reads pages of at most 4 MiB; see `slotlog.log.log.Reader` for every method.

    Args:
        path: the file.
        log_id: of the log that it held when it was opened.
        positions: partition -> offset.
        closed: told when the reader is closed.
    """

    def __init__(
        self, path: Path, log_id: bytes, positions: Mapping[int, int], closed: Callable[[EmbeddedReader], None]
    ) -> None:
        self._path = path
        self._log_id = log_id
        self._positions = dict(positions)
        self._closed = closed
        self._paused: dict[int, None] = {}
        self._connection: sqlite3.Connection | None = connect(path)
        self._files = Files(path)
        self._woken = asyncio.Event()
        self._seen_version: int | None = None  # of the file, when there was nothing more to read; None: look again
        self._turn = 0
        self._links: dict[int, tuple[int, bytes | None]] = {}  # partition -> the next offset, the link before it

    async def fetch(self, wait_ms: int, records_max: int) -> dict[int, list[LogRecord]]:
        """A page, once there is one."""
        until = monotonic() + wait_ms / 1000
        poll = _POLL_SECONDS_MIN
        while True:
            self._woken.clear()
            page = await self._read_surely(records_max)
            left = until - monotonic()
            if page or left <= 0:
                return page
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(poll, left)):
                    await self._woken.wait()
            poll = min(_POLL_SECONDS_MAX, poll * 2)

    def position(self, partition: int) -> int:
        """The offset after the last one given."""
        return self._positions[partition]

    def headers(self, partition: int, offset: int) -> Headers:
        """None: the embedded log has no headers."""
        return ()

    def seek(self, partition: int, offset: int) -> None:
        """Read on from `offset`."""
        self._positions[partition] = offset
        self._seen_version = None

    def pass_by(self, partition: int, offset: int) -> None:
        """Read on from `offset`, if that lies ahead."""
        self._positions[partition] = max(self._positions[partition], offset)

    def pause(self, partition: int) -> None:
        """Leave the partition out."""
        self._paused[partition] = None

    def resume(self, partition: int) -> None:
        """Take the partition in again."""
        self._paused.pop(partition, None)
        self._seen_version = None

    def wake(self) -> None:
        """Something was appended in this process: do not wait for the next poll."""
        self._woken.set()

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self._closed(self)

    async def _read_surely(self, records_max: int) -> dict[int, list[LogRecord]]:
        """A page, or none."""

        async def read_page() -> dict[int, list[LogRecord]]:
            connection = self._connection
            if connection is None:
                raise RuntimeError("the reader is closed")
            try:
                return patiently(lambda: self._read_if_changed(connection, records_max), IN_LOOP_SECONDS_MAX)
            except (sqlite3.Error, LogRecordError, LogDamagedError):
                # A new file under the old name takes over the old `-shm` as well, which says where in its own `-wal` a
                # page is. What stands there in the old one is any other page: no damage, however it looks.
                self._files.refuse_other_log()
                raise

        try:
            return await steadily(read_page, self._path)
        except _UnreadError as error:
            failure = translated(error, self._path)
            if isinstance(failure, LogDamagedError):
                raise LogRecordError(error.partition, self._positions[error.partition], str(failure)) from error
            raise failure from error
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def _read_if_changed(self, connection: sqlite3.Connection, records_max: int) -> dict[int, list[LogRecord]]:
        partitions = self._in_turn()
        if not partitions:
            return {}
        version = connection.execute("PRAGMA data_version").fetchone()[0]  # moved by every other connection's commit
        if version == self._seen_version:
            return {}
        page: dict[int, list[LogRecord]] = {}
        size = 0
        connection.execute("BEGIN")  # one view of the file, for records and ends alike
        try:
            if connection.execute("SELECT id FROM log").fetchone() != (self._log_id,):
                self._refuse_another(connection)
            for partition in partitions:
                read = self._read(connection, partition, records_max, _PAGE_BYTES_MAX - size)
                if read.records:
                    page[partition] = read.records
                    self._links[partition] = read.records[-1][0] + 1, read.link
                    records_max -= len(read.records)
                    size += read.size
                if records_max <= 0 or size > _PAGE_BYTES_MAX:
                    break
            # A new file under the old name takes over the old `-wal`, so that its records may have been read here, in
            # pages beside those of the old file. So this is asked last.
            self._files.refuse_other_log()
        finally:
            with contextlib.suppress(sqlite3.Error):  # nothing was written; after an error of the disk it has ended
                connection.execute("ROLLBACK")
        for partition, records in page.items():
            self._positions[partition] = records[-1][0] + 1
        self._seen_version = None if page else version
        return page

    def _refuse_another(self, connection: sqlite3.Connection) -> NoReturn:
        read_identity(connection, self._path)  # damaged, it says so
        raise another_log(self._path)

    def _in_turn(self) -> list[int]:
        """The partitions to read, another one first each time, so that a busy one does not starve the rest."""
        partitions = [partition for partition in self._positions if partition not in self._paused]
        self._turn += 1
        cut = self._turn % len(partitions) if partitions else 0
        return partitions[cut:] + partitions[:cut]

    def _read(self, connection: sqlite3.Connection, partition: int, records_max: int, bytes_max: int) -> CheckedRecords:
        """The next records of one partition, as they were written.

        Raises:
            LogRecordError: the first of them is not.
        """
        position = self._positions[partition]
        try:
            head = head_of(connection, partition)
            check_range(f"partition {partition} of the log {self._path}", position, head.begin_offset, head.next_offset)
            if position == head.next_offset:
                return CheckedRecords([], None)
            read = self._checked(connection, partition, head, records_max, bytes_max)
        except sqlite3.DatabaseError as error:
            if code_of(error) == sqlite3.SQLITE_BUSY:
                raise
            raise _UnreadError(partition, error) from error
        except LogDamagedError as error:
            raise LogRecordError(partition, position, str(error)) from error
        if not read.records:
            raise LogRecordError(
                partition,
                position,
                f"{read.fault or LOST}. Bring {self._path} back from a copy, or decide with `slotlog skip {partition} "
                f"{position}` to go past it; `slotlog check --log` says what else is damaged",
            )
        return read

    def _checked(
        self, connection: sqlite3.Connection, partition: int, head: Head, records_max: int, bytes_max: int
    ) -> CheckedRecords:
        position = self._positions[partition]
        known_at, link = self._links.get(partition, (-1, None))
        if known_at != position:
            link = link_before(connection, partition, position, head)
        if link is not None:
            page = _whole_page(connection, partition, position, head, link, records_max, bytes_max)
            if page is not None:
                return page
        first = partition << OFFSET_BITS
        with contextlib.closing(
            connection.execute(_ROWS, (first + position, first + head.next_offset, records_max))
        ) as rows:
            return checked(rows, partition, position, link, bytes_max)


def _whole_page(
    connection: sqlite3.Connection,
    partition: int,
    offset: int,
    head: Head,
    link: bytes,
    records_max: int,
    bytes_max: int,
) -> CheckedRecords | None:
    """The records from `offset` on, which stand behind one with the link `link`, if nothing is wrong with any of them.

    All are held against the link of the last one at once. Measured in pages of 1,000, in instructions a record: 9,900,
    and 18,500 with a loop that looks at each; 7,700 of them are SQLite's.
    """
    first = partition << OFFSET_BITS
    records: list[LogRecord] = []
    size = 0
    try:
        rows = connection.execute(_RECORDS, (first, first + offset, first + head.next_offset, records_max))
        with contextlib.closing(rows):
            for record in rows:
                records.append(record)
                size += len(record[3])
                if size > bytes_max:
                    break
        end = offset + len(records)
        if not records or records[0][0] != offset or records[-1][0] != end - 1:
            return None
        last_link = head.link if end == head.next_offset else stored_link(connection, partition, end - 1)
    except (sqlite3.Error, TypeError):  # which record is to blame is found by looking at each
        return None
    return CheckedRecords(records, last_link, size) if link_behind(link, records) == last_link else None


class _UnreadError(PicklableError, sqlite3.DatabaseError):
    """SQLite could not read something of one partition."""

    def __init__(self, partition: int, cause: sqlite3.Error) -> None:
        super().__init__(str(cause))
        self.sqlite_errorcode = code_of(cause)
        self.partition = partition

"""Reading the embedded log.

Reads run in the event loop, as short pages: in a thread, sqlite3 would wait for the GIL at every row.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final

from ingest.log.base import Headers, LogRecord
from ingest.log.identity import check_range, hole
from ingest.log.local_file import (
    IN_LOOP_SECONDS_MAX,
    OFFSET_BITS,
    OFFSET_MASK,
    another_log,
    connect,
    patiently,
    range_of,
    translated,
)

_PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
_POLL_SECONDS_MIN: Final = 0.001
_POLL_SECONDS_MAX: Final = 0.02  # an idle reader asks 50 times a second, 5 µs each


class LocalReader:
    """Reads pages of at most 4 MiB; see `ingest.log.base.Reader` for every method.

    Args:
        path: the file.
        log_id: of the log that it held when it was opened.
        positions: partition -> offset.
        closed: told when the reader is closed.
    """

    def __init__(
        self, path: Path, log_id: bytes, positions: Mapping[int, int], closed: Callable[[LocalReader], None]
    ) -> None:
        self._path = path
        self._log_id = log_id
        self._positions = dict(positions)
        self._closed = closed
        self._paused: dict[int, None] = {}
        self._connection: sqlite3.Connection | None = connect(path)
        self._woken = asyncio.Event()
        self._seen_version: int | None = None  # of the file, when there was nothing more to read; None: look again
        self._turn = 0

    async def fetch(self, wait_ms: int, records_max: int) -> dict[int, list[LogRecord]]:
        """A page, once there is one."""
        until = monotonic() + wait_ms / 1000
        poll = _POLL_SECONDS_MIN
        while True:
            self._woken.clear()
            page = self._read_page(records_max)
            left = until - monotonic()
            if page or left <= 0:
                return page
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), min(poll, left))
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

    def _read_page(self, records_max: int) -> dict[int, list[LogRecord]]:
        connection = self._connection
        if connection is None:
            raise RuntimeError("the reader is closed")
        try:
            return patiently(lambda: self._read_if_changed(connection, records_max), IN_LOOP_SECONDS_MAX)
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
            # A new file under the old name takes over the old `-wal` file, so that its records would be read here.
            if connection.execute("SELECT id FROM log").fetchone() != (self._log_id,):
                raise another_log(self._path)
            for partition in partitions:
                records, size = self._read(connection, partition, records_max, size)
                if records:
                    page[partition] = records
                    records_max -= len(records)
                if records_max <= 0 or size > _PAGE_BYTES_MAX:
                    break
        finally:
            connection.execute("COMMIT")
        for partition, records in page.items():
            self._positions[partition] = records[-1][0] + 1
        self._seen_version = None if page else version
        return page

    def _in_turn(self) -> list[int]:
        """The partitions to read, another one first each time, so that a busy one does not starve the rest."""
        partitions = [partition for partition in self._positions if partition not in self._paused]
        self._turn += 1
        cut = self._turn % len(partitions) if partitions else 0
        return partitions[cut:] + partitions[:cut]

    def _read(
        self, connection: sqlite3.Connection, partition: int, records_max: int, size: int
    ) -> tuple[list[LogRecord], int]:
        """The next records of one partition, without a gap, and the page's size with them."""
        position = self._positions[partition]
        first = partition << OFFSET_BITS
        records: list[LogRecord] = []
        cursor = connection.execute(
            "SELECT position & ?, time_ms, key, value FROM records "
            "WHERE position >= ? AND position < ? ORDER BY position LIMIT ?",
            (OFFSET_MASK, first + position, first + (1 << OFFSET_BITS), records_max),
        )
        for record in cursor:
            records.append(record)
            size += len(record[3])
            if size > _PAGE_BYTES_MAX:
                break
        cursor.close()
        if records and records[-1][0] - position == len(records) - 1:
            return records, size
        whole = sum(1 for place, record in enumerate(records) if record[0] == position + place)
        if not whole:
            name = f"partition {partition} of the log {self._path}"
            begin, end = range_of(connection, partition)
            check_range(name, position, begin, end)
            if position < end:
                raise hole(name, position)
        return records[:whole], size

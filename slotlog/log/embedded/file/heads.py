"""Reads and checks where each partition of the embedded log begins and ends, and moves its begin."""

from __future__ import annotations

import sqlite3
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple
from zlib import crc32

from slotlog.errors import LogDamagedError, LogRecordError
from slotlog.log.embedded.file.chain import DAMAGED, LINK_BYTES, LOST, OFFSET_BITS, OFFSET_MASK, Row, is_sealed
from slotlog.log.embedded.file.format_2 import sum_of_head
from slotlog.log.log import LogRecord

_HEAD: Final = (
    "SELECT next_offset, last_time_ms, begin_offset, begin_link, link, sum FROM partitions WHERE partition = ?"
)
_INSERT: Final = "INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?, ?)"
_UPDATE: Final = (
    "UPDATE partitions SET next_offset = ?, last_time_ms = ?, begin_offset = ?, begin_link = ?, link = ?, sum = ? "
    "WHERE partition = ?"
)
_SUMMED: Final = Struct(">QQqQI")
_SUM_BYTES: Final = 4
_TRIM_ROWS: Final = 5_000
_DELETE: Final = "DELETE FROM records WHERE position >= ? AND position < ?"
_SEAL: Final = "SELECT seal FROM records WHERE position = ?"
_RECORD: Final = "SELECT position, time_ms, key, value, seal FROM records WHERE position = ?"


class Head(NamedTuple):
    """A row of `partitions`.

    Attributes:
        next_offset: of the next append.
        last_time_ms: the time of the last record.
        begin_offset: of the first record that is kept.
        begin_link: the link of the record before it.
        link: of the last record.
    """

    next_offset: int
    last_time_ms: int
    begin_offset: int
    begin_link: bytes
    link: bytes


def head_of(connection: sqlite3.Connection, partition: int) -> Head:
    """The head of a partition.

    Raises:
        LogDamagedError: it is not what was written.
    """
    row = connection.execute(_HEAD, (partition,)).fetchone()
    try:
        next_offset, last_time_ms, begin_offset, begin_link, link, total = row
        sum_of = _sum if len(total) == _SUM_BYTES else sum_of_head  # of a log that was not opened since format 2
        if sum_of(partition, next_offset, last_time_ms, begin_offset, begin_link, link) == total:
            return Head(next_offset, last_time_ms, begin_offset, begin_link, link)
    except (TypeError, struct_error):  # no row, or other types than were written
        pass
    raise LogDamagedError(
        f"partition {partition} of the log is damaged where the file says how far it reaches, in the table "
        "`partitions`: bring the file back from a copy. `slotlog check --log` says what else is damaged."
    )


def _sum(
    partition: int, next_offset: int, last_time_ms: int, begin_offset: int, begin_link: bytes, link: bytes
) -> bytes:
    """A CRC-32: each append takes two."""
    packed = _SUMMED.pack(partition, next_offset, last_time_ms, begin_offset, len(begin_link))
    return crc32(packed + begin_link + link).to_bytes(_SUM_BYTES, "big")


def insert_head(connection: sqlite3.Connection, partition: int, head: Head) -> None:
    """The head of a partition that is new."""
    connection.execute(_INSERT, (partition, *head, _sum(partition, *head)))


def set_head(connection: sqlite3.Connection, partition: int, head: Head) -> None:
    """Another head for a partition."""
    next_offset, last_time_ms, begin_offset, begin_link, link = head
    total = _sum(partition, next_offset, last_time_ms, begin_offset, begin_link, link)
    blobs = map(bytearray, (begin_link, link, total))  # faster than bytes, see `slotlog.log.embedded.writer`
    connection.execute(_UPDATE, (next_offset, last_time_ms, begin_offset, *blobs, partition))


def trim(connection: sqlite3.Connection, partition: int, before_offset: int) -> int:
    """Forget records before an offset, at most 5,000, in the caller's transaction.

    Returns:
        The offset that the partition now begins at.

    Raises:
        LogDamagedError: the file no longer says where the partition begins. LogRecordError: a record is damaged.
    """
    head = head_of(connection, partition)
    begin = min(before_offset, head.next_offset, head.begin_offset + _TRIM_ROWS)
    if begin <= head.begin_offset:
        return head.begin_offset
    link = link_at(connection, partition, begin - 1)
    first = partition << OFFSET_BITS
    connection.execute(_DELETE, (first + head.begin_offset, first + begin))
    set_head(connection, partition, head._replace(begin_offset=begin, begin_link=link))
    return begin


def record_at(connection: sqlite3.Connection, partition: int, offset: int) -> LogRecord | None:
    """The record at an offset; None if there is none.

    Raises:
        LogRecordError: it is damaged.
    """
    row = _row_at(connection, partition, offset)
    if row is None:
        return None
    if not is_sealed(row):
        raise LogRecordError(partition, offset, DAMAGED)
    return row[0] & OFFSET_MASK, row[1], row[2], row[3]


def link_at(connection: sqlite3.Connection, partition: int, offset: int) -> bytes:
    """The link of a record that is there.

    Raises:
        LogRecordError: it is not, or is damaged.
    """
    row = _row_at(connection, partition, offset)
    if row is None:
        raise LogRecordError(partition, offset, LOST)
    if not is_sealed(row):
        raise LogRecordError(partition, offset, DAMAGED)
    return row[4][LINK_BYTES:]


def stored_link(connection: sqlite3.Connection, partition: int, offset: int) -> bytes | None:
    """The link of a record as its row has it, whatever else stands there.

    Raises:
        TypeError: it has none.
    """
    row = connection.execute(_SEAL, (partition << OFFSET_BITS | offset,)).fetchone()
    return None if row is None else row[0][LINK_BYTES:]


def link_before(connection: sqlite3.Connection, partition: int, offset: int, head: Head) -> bytes | None:
    """The link of the record before an offset; None where that record is damaged or lost, and so says nothing."""
    if offset == head.begin_offset:
        return head.begin_link
    row = _row_at(connection, partition, offset - 1)
    return row[4][LINK_BYTES:] if row is not None and is_sealed(row) else None


def _row_at(connection: sqlite3.Connection, partition: int, offset: int) -> Row | None:
    row: Row | None = connection.execute(_RECORD, (partition << OFFSET_BITS | offset,)).fetchone()
    return row

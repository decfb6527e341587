"""The times of the embedded log. They never go back, but where an operator has set a partition's clock back.

table set_backs   partition, offset    from that offset on times begin anew; there only once that has happened
"""

from __future__ import annotations

import sqlite3
from typing import Final

from ingest.log.local_file import SET_BACKS
from ingest.log.local_heads import head_of, record_at, set_head

_IS_THERE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'set_backs'"


def set_time_back(connection: sqlite3.Connection, partition: int, to_ms: int) -> None:
    """Let the next record of a partition have the time `to_ms` at the earliest, in the caller's transaction.

    Raises:
        LogDamagedError: the file no longer says where the partition ends.
    """
    head = head_of(connection, partition)
    if head.last_time_ms > to_ms:
        connection.execute(SET_BACKS)
        connection.execute("INSERT OR IGNORE INTO set_backs VALUES (?, ?)", (partition, head.next_offset))
        set_head(connection, partition, head._replace(last_time_ms=to_ms))


def first_at(connection: sqlite3.Connection, partition: int, time_ms: int) -> int | None:
    """The first offset whose record's time is at `time_ms` or later; None if there is none.

    By bisection, of each stretch in which times do not go back.

    Raises:
        LogDamagedError: as above. LogRecordError: a record is damaged.
    """
    head = head_of(connection, partition)
    seams: list[int] = []
    if connection.execute(_IS_THERE).fetchone():
        rows = connection.execute("SELECT offset FROM set_backs WHERE partition = ? ORDER BY offset", (partition,))
        seams = [offset for (offset,) in rows if head.begin_offset < offset < head.next_offset]
    begins = [head.begin_offset, *seams]
    for begin, end in zip(begins, [*seams, head.next_offset], strict=True):
        low, high = begin, end
        while low < high:
            middle = (low + high) // 2
            found = record_at(connection, partition, middle)
            if found is not None and found[1] >= time_ms:
                high = middle
            else:
                low = middle + 1
        if low < end:
            return low
    return None

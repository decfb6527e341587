"""Times of the embedded log: they never go back, unless an operator sets the clock back.

table set_backs   partition, offset, sum   from that offset on times begin anew; there only once that has happened
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from slotlog.errors import LogDamagedError
from slotlog.log.embedded.file.chain import sum_of
from slotlog.log.embedded.file.heads import head_of, record_at, set_head
from slotlog.log.embedded.file.tables import SET_BACKS

_SEAMS: Final = "SELECT partition, offset, sum FROM set_backs WHERE partition = ? ORDER BY offset"
_IS_THERE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'set_backs'"


def set_time_back(connection: sqlite3.Connection, partition: int, to_ms: int) -> None:
    """Let the next record of a partition have the time `to_ms` at the earliest, in the caller's transaction.

    Raises:
        LogDamagedError: the file no longer says where the partition ends.
    """
    head = head_of(connection, partition)
    if head.last_time_ms > to_ms:
        connection.execute(SET_BACKS)
        seam = partition, head.next_offset
        connection.execute("INSERT OR REPLACE INTO set_backs VALUES (?, ?, ?)", (*seam, sum_of(*seam)))
        set_head(connection, partition, head._replace(last_time_ms=to_ms))


def first_at(connection: sqlite3.Connection, partition: int, time_ms: int) -> int | None:
    """The first offset whose record's time is at `time_ms` or later; None if there is none.

    By bisection, of each stretch in which times do not go back.

    Raises:
        LogDamagedError: as above, or it no longer says where times were set back. LogRecordError: a record is damaged.
    """
    head = head_of(connection, partition)
    seams = [offset for offset in _seams(connection, partition) if head.begin_offset < offset < head.next_offset]
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


def _seams(connection: sqlite3.Connection, partition: int) -> Iterator[int]:
    if not connection.execute(_IS_THERE).fetchone():
        return
    for stored, offset, total in connection.execute(_SEAMS, (partition,)):
        if sum_of(stored, offset) != total:
            raise LogDamagedError(
                f"the mark that times of partition {partition} of the log were set back at offset {offset} is damaged: "
                "bring the file back from a copy. `slotlog check --log` says what else is damaged."
            )
        yield offset

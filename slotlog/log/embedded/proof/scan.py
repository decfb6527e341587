"""Checks the whole embedded log for what is not as it was written, in slices, while others append."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple

from slotlog.errors import LogDamagedError
from slotlog.log.embedded.file.chain import LOST, MOVED, OFFSET_BITS, OFFSET_MASK, checked, sum_of
from slotlog.log.embedded.file.heads import Head, head_of, link_before
from slotlog.log.embedded.file.tables import tables_of

_ROWS: Final = (
    "SELECT position, time_ms, key, value, seal FROM records WHERE position >= ? AND position < ? "
    "ORDER BY position LIMIT ?"
)
_FIRST: Final = "SELECT position FROM records WHERE position >= ? AND position < ? ORDER BY position LIMIT 1"
_OUTSIDE: Final = (
    "SELECT count(*) FROM records WHERE (position >= ? AND position < ?) OR (position >= ? AND position < ?)"
)
_NOWHERE: Final = "SELECT count(*) FROM records WHERE position < 0 OR position >= ?"
_LETTERS: Final = (
    "SELECT topic, partition, offset, time_ms, reason, key, value, headers, sum FROM dead_letters "
    "ORDER BY topic, partition, offset"
)
_MARKS: Final = (
    "SELECT topic, partition, offset, time_ms, to_partition, to_offset, sum FROM redriven "
    "ORDER BY topic, partition, offset"
)
_SEAMS: Final = "SELECT partition, offset, sum FROM set_backs ORDER BY partition, offset"
_TABLES: Final = (
    ("letter", "dead_letters", _LETTERS, "the dead letter is not what was stored"),
    ("letter", "redriven", _MARKS, "the mark that the dead letter was sent again is not what was stored"),
    ("time", "set_backs", _SEAMS, "the mark that times were set back here is not what was stored"),
)


class Damage(NamedTuple):
    """Something that is not as it was written.

    Attributes:
        kind: `record`, `end`, `letter`, `time` or `file`.
        message: what is wrong.
        partition, offset: where; None where it is nowhere in particular.
        records: how many it is, from `offset` on.
    """

    kind: str
    message: str
    partition: int | None = None
    offset: int | None = None
    records: int = 1

    def __str__(self) -> str:
        if self.partition is None:
            return f"{self.kind}: {self.message}"
        if self.offset is None:
            return f"partition {self.partition}: {self.kind}: {self.message}"
        places = f"offset {self.offset}"
        if self.records > 1:
            places = f"offsets {self.offset} to {self.offset + self.records - 1}"
        return f"partition {self.partition}: {self.kind} at {places}: {self.message}"


class PartitionScan:
    """One partition, from its begin to its end.

    Attributes:
        next_offset: what stands before it was looked at.
        end_offset: of the partition, at the last look; 0 before the first.
        records: how many were as they were written.
        is_done: the end was reached.
    """

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.next_offset = 0
        self.end_offset = 0
        self.records = 0
        self.is_done = False
        self._link: bytes | None = None
        self._begun = False

    def slice(self, connection: sqlite3.Connection, rows_max: int, bytes_max: int) -> tuple[list[Damage], int]:
        """Look at the next records, in one view of the file; what is damaged, and how many bytes of values were read.

        Raises:
            sqlite3.OperationalError: the file is locked.
        """
        connection.execute("BEGIN")
        try:
            return self._slice(connection, rows_max, bytes_max)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _slice(self, connection: sqlite3.Connection, rows_max: int, bytes_max: int) -> tuple[list[Damage], int]:
        try:
            head = head_of(connection, self.partition)
        except (LogDamagedError, sqlite3.DatabaseError) as error:
            self.is_done = True
            return [Damage("end", str(error), self.partition)], 0
        if not self._begun or self.next_offset < head.begin_offset:  # it was trimmed meanwhile
            self.next_offset, self._link, self._begun = head.begin_offset, head.begin_link, True
        self.end_offset = head.next_offset
        if self.next_offset >= head.next_offset:
            self.is_done = True
            return list(self._at_end(connection, head)), 0
        first = self.partition << OFFSET_BITS
        bounds = (first + self.next_offset, first + head.next_offset, rows_max)
        try:
            found = checked(connection.execute(_ROWS, bounds), self.partition, self.next_offset, self._link, bytes_max)
        except sqlite3.DatabaseError as error:
            return [self._unreadable(connection, head, error)], 0
        self.records += len(found.records)
        self.next_offset += len(found.records)
        self._link = found.link
        if found.fault or not found.records:
            try:
                damage = self._fault(connection, head, found.fault or LOST)
            except sqlite3.DatabaseError as error:  # nor can it be read what comes next
                damage = self._unreadable(connection, head, error)
            return [damage], found.size
        return [], found.size

    def _fault(self, connection: sqlite3.Connection, head: Head, fault: str) -> Damage:
        """Name what stands at the position, and go past it."""
        offset = self.next_offset
        if fault == LOST:
            row = connection.execute(_FIRST, self._rest(head)).fetchone()
            self._go_to(head.next_offset if row is None else row[0] & OFFSET_MASK, None)
            return Damage("record", LOST, self.partition, offset, self.next_offset - offset)
        self._go_to(offset + 1, link_before(connection, self.partition, offset + 1, head))
        return Damage("record", fault, self.partition, offset)

    def _unreadable(self, connection: sqlite3.Connection, head: Head, error: sqlite3.Error) -> Damage:
        """Go past the records of pages that cannot be read: to the first that can be, looked for by halves."""
        offset, step = self.next_offset, 1
        while offset + step < head.next_offset and not self._can_read(connection, offset + step):
            step *= 2
        low, high = offset + step // 2, min(offset + step, head.next_offset)
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._can_read(connection, middle) else (middle, high)
        self._go_to(high, None)
        return Damage("record", str(error), self.partition, offset, high - offset)

    def _can_read(self, connection: sqlite3.Connection, offset: int) -> bool:
        first = self.partition << OFFSET_BITS
        try:
            return connection.execute(_ROWS, (first + offset, first + offset + 1, 1)).fetchone() is not None
        except sqlite3.DatabaseError:
            return False

    def _at_end(self, connection: sqlite3.Connection, head: Head) -> Iterator[Damage]:
        if self._link not in {None, head.link}:
            yield Damage("end", f"the last record is another one than the file says: {MOVED}", self.partition)
        first = self.partition << OFFSET_BITS
        bounds = (first, first + head.begin_offset, first + head.next_offset, first + (1 << OFFSET_BITS))
        try:
            (outside,) = connection.execute(_OUTSIDE, bounds).fetchone()
        except sqlite3.DatabaseError as error:
            yield Damage("end", str(error), self.partition)
        else:
            if outside:
                yield Damage("end", f"{outside} records stand outside of its offsets", self.partition)

    def _rest(self, head: Head) -> tuple[int, int]:
        first = self.partition << OFFSET_BITS
        return first + self.next_offset, first + head.next_offset

    def _go_to(self, offset: int, link: bytes | None) -> None:
        self.next_offset, self._link = offset, link


def scan_letters(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Which dead letters are damaged, which marks that one was sent again, and which that times were set back."""
    try:
        tables = tables_of(connection)
        for kind, name, statement, said in _TABLES:
            for row in connection.execute(statement) if name in tables else ():
                if sum_of(*row[:-1]) != row[-1]:
                    place = row[:2] if kind == "time" else row[1:3]
                    partition, offset = (each if isinstance(each, int) else None for each in place)
                    yield Damage(kind, said, partition, offset)
    except sqlite3.DatabaseError as error:
        yield Damage("file", str(error))


def scan_file(connection: sqlite3.Connection, partitions: int) -> Iterator[Damage]:
    """What SQLite finds wrong with the structure of the file, and records that are of no partition."""
    try:
        (nowhere,) = connection.execute(_NOWHERE, (partitions << OFFSET_BITS,)).fetchone()
        if nowhere:
            yield Damage("file", f"{nowhere} records are of no partition")
        for (said,) in connection.execute("PRAGMA quick_check(10)"):
            if said != "ok":
                yield Damage("file", " ".join(str(said).split()))
    except sqlite3.DatabaseError as error:
        yield Damage("file", str(error))

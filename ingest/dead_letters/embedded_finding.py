"""Finds dead letters in the embedded log's file and sends them again."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from heapq import nlargest
from math import inf
from typing import Any, Final

from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.embedded_store import stored_letter
from ingest.dead_letters.found import PAGE_BYTES_MAX, Again, Found, Summary, Wanted, Went
from slotlog.clock import now_ms
from slotlog.errors import LogDamagedError
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.chain import sum_of
from slotlog.log.embedded.file.tables import REDRIVEN, REDRIVEN_TRIGGER
from slotlog.log.embedded.writer import append_rows
from slotlog.log.log import check_entries

_JOINED: Final = (
    "FROM dead_letters AS d LEFT JOIN redriven AS r USING (topic, partition, offset) WHERE d.topic = ? AND d.partition "
)


_NEWEST: Final = (
    "SELECT time_ms, offset, partition FROM dead_letters WHERE topic = ? AND partition = ? ORDER BY offset DESC LIMIT ?"
)


_PAGE: Final = (
    "SELECT d.topic, d.partition, d.offset, d.time_ms, d.reason, d.key, d.value, d.headers, d.sum, "
    "r.topic, r.partition, r.offset, r.time_ms, r.to_partition, r.to_offset, r.sum "
    f"{_JOINED} BETWEEN ? AND ? AND (d.partition, d.offset) > (?, ?) AND d.offset BETWEEN ? AND ? "
    "ORDER BY d.partition, d.offset LIMIT ?"
)


_MARKED: Final = (
    "SELECT topic, partition, offset, time_ms, to_partition, to_offset, sum FROM redriven "
    "WHERE topic = ? AND partition = ? AND offset = ?"
)


_MARK: Final = "INSERT OR IGNORE INTO redriven VALUES (?, ?, ?, ?, ?, ?, ?)"


class EmbeddedDeadLetterSearch:
    """Searches the dead letters in the embedded log's file.

    Args:
        log: started before the first question.
    """

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log

    async def newest(self, dead_letters_max: int) -> list[Summary]:
        """By partition, as the table is ordered, then by time."""

        def select(connection: sqlite3.Connection) -> list[Summary]:
            _prepare(connection)
            latest = nlargest(
                dead_letters_max,
                (
                    row
                    for partition in range(self._log.partitions)
                    for row in connection.execute(_NEWEST, (self._log.topic, partition, dead_letters_max))
                ),
                key=_age,
            )
            return [self._summary(connection, partition, offset) for _, offset, partition in latest]

        return await self._log.write(select)

    def _summary(self, connection: sqlite3.Connection, partition: int, offset: int) -> Summary:
        """Of a whole dead letter, as its checksum is over all of it."""
        bounds = (self._log.topic, partition, partition, -1, -1, offset, offset, 1)
        row = connection.execute(_PAGE, bounds).fetchone()
        return _found(row or (self._log.topic, partition, offset, *[None] * 13)).summary

    async def page(self, wanted: Wanted, after: tuple[int, int] = (-1, -1), dead_letters_max: int = 500) -> list[Found]:
        """A range of the table."""
        first, last = (0, self._log.partitions) if wanted.partition is None else (wanted.partition, wanted.partition)
        bounds = (self._log.topic, first, last, *after, wanted.first_offset, wanted.last_offset, dead_letters_max)

        def select(connection: sqlite3.Connection) -> list[Found]:
            _prepare(connection)
            page: list[Found] = []
            size = 0
            for row in connection.execute(_PAGE, bounds):
                found = _found(row)
                size += found.summary.size
                if page and size > PAGE_BYTES_MAX:
                    break
                page.append(found)
            return page

        return await self._log.write(select)

    async def send(self, batch: Sequence[Again]) -> list[Went | None]:
        """One transaction: what is marked is in the log, and what is not marked is not."""
        check_entries([again.entry for again in batch], self._log.partitions)

        def append(connection: sqlite3.Connection) -> list[Went | None]:
            _prepare(connection)
            went: list[Went | None] = []
            for dead_letter, entry in batch:
                place = dead_letter[:3]
                if mark := connection.execute(_MARKED, place).fetchone():
                    _went(mark)  # a damaged one says nothing of the dead letter
                    went.append(None)
                    continue
                ((partition, offset, _),) = append_rows(connection, [entry])
                connection.execute(_MARK, _mark(dead_letter, Went(partition, offset)))
                went.append(Went(partition, offset))
            return went

        return await self._log.write(append)

    async def mark(self, sent: Sequence[tuple[DeadLetter, Went]]) -> None:
        """Nothing but the marks."""
        rows = [_mark(*each) for each in sent]

        def insert(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            connection.executemany(_MARK, rows)

        if rows:
            await self._log.write(insert)


def _prepare(connection: sqlite3.Connection) -> None:
    """A log's file is older than its first redrive: the table of marks comes with the first question."""
    connection.execute(REDRIVEN)
    connection.execute(REDRIVEN_TRIGGER)


def _age(row: Sequence[Any]) -> tuple[float, ...]:
    """The order of rows of `_NEWEST`; a damaged one comes first, to be named."""
    return tuple(each if isinstance(each, int) else inf for each in row)


def _mark(dead_letter: DeadLetter, went: Went) -> tuple[Any, ...]:
    """A row of `redriven`."""
    row = (*dead_letter[:3], now_ms(), *went)
    return (*row, sum_of(*row))


def _found(row: Sequence[Any]) -> Found:
    """A row of `_PAGE`; LogDamagedError if the dead letter or its mark is not what was written."""
    dead_letter = stored_letter(row[:9])
    return Found(dead_letter, None if row[9] is None else _went(row[9:]))


def _went(mark: Sequence[Any]) -> Went:
    """Where a row of `redriven` says that a dead letter went."""
    *fields, total = mark
    if sum_of(*fields) != total:
        raise LogDamagedError(
            f"the mark that the dead letter of partition {fields[1]}, offset {fields[2]} was sent again is damaged: "
            "bring the log's file back from a copy. `slotlog check --log` says what else is damaged."
        )
    return Went(*fields[-2:])

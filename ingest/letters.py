"""Dead letters, found again and sent again. How they are stored is in `ingest.dead_letters`.

A letter that was sent again is marked, never removed:

    embedded  a row of the table `redriven` in the log's file, in one transaction with the append
    Kafka     one more letter in `<topic>.dlq`, of the same position, without key and value, whose reason begins with
              `redriven to`; the record itself has the header `slotlog.redrive`, TOPIC/PARTITION/OFFSET of the letter
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from heapq import nlargest
from typing import Final, NamedTuple, Protocol

from ingest.clock import now_ms
from ingest.dead_letters import DeadLetter, DeadLetters, stored_letter
from ingest.log.base import Entry, Log, check_entries
from ingest.log.local import LocalLog
from ingest.log.local_chain import OFFSET_MASK
from ingest.log.local_file import REDRIVEN, REDRIVEN_TRIGGER
from ingest.log.local_writer import append_rows

PAGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The letters of one page have this many bytes at most, unless there is one alone."""

_JOINED: Final = (
    "FROM dead_letters AS d LEFT JOIN redriven AS r USING (topic, partition, offset) WHERE d.topic = ? AND d.partition "
)
_NEWEST: Final = (
    "SELECT d.topic, d.partition, d.offset, d.time_ms, d.reason, "
    "ifnull(length(d.key), 0) + ifnull(length(d.value), 0), r.to_partition, r.to_offset "
    f"{_JOINED} = ? ORDER BY d.offset DESC LIMIT ?"
)
_PAGE: Final = (
    "SELECT d.topic, d.partition, d.offset, d.time_ms, d.reason, d.key, d.value, d.headers, d.sum, "
    "r.to_partition, r.to_offset "
    f"{_JOINED} BETWEEN ? AND ? AND (d.partition, d.offset) > (?, ?) AND d.offset BETWEEN ? AND ? "
    "ORDER BY d.partition, d.offset LIMIT ?"
)
_MARKED: Final = "SELECT 1 FROM redriven WHERE topic = ? AND partition = ? AND offset = ?"
_MARK: Final = "INSERT OR IGNORE INTO redriven VALUES (?, ?, ?, ?, ?, ?)"


class Wanted(NamedTuple):
    """Which letters: of one partition or (None) of all, with an offset from `first_offset` to `last_offset`."""

    partition: int | None = None
    first_offset: int = 0
    last_offset: int = OFFSET_MASK

    def has(self, partition: int, offset: int) -> bool:
        """Whether the letter of this position is one of them."""
        return self.partition in {None, partition} and self.first_offset <= offset <= self.last_offset


class Went(NamedTuple):
    """Where a letter was sent again to."""

    partition: int
    offset: int


class Summary(NamedTuple):
    """A letter without its content; `size` is the bytes of key and value, `redriven` where it went, if it was sent."""

    topic: str
    partition: int
    offset: int
    time_ms: int
    reason: str
    size: int
    redriven: Went | None


class Found(NamedTuple):
    """A letter, and where it was sent again to, if it was."""

    letter: DeadLetter
    redriven: Went | None

    @property
    def summary(self) -> Summary:
        """It without its content."""
        letter = self.letter
        size = len(letter.key or b"") + len(letter.value or b"")
        return Summary(
            letter.topic, letter.partition, letter.offset, letter.time_ms, letter.reason, size, self.redriven
        )


class Again(NamedTuple):
    """A letter and the record that it is sent again as."""

    letter: DeadLetter
    entry: Entry


class Letters(Protocol):
    """The dead letters of one log, which is started, as are they."""

    async def newest(self, letters_max: int) -> list[Summary]:
        """The latest letters by the time of their records, latest first.

        Raises:
            LogUnavailableError: they cannot be read.
        """
        ...

    async def page(self, wanted: Wanted, after: tuple[int, int] = (-1, -1), letters_max: int = 500) -> list[Found]:
        """Letters in the order of their positions, as many as fit into `PAGE_BYTES_MAX`; empty when there are no more.

        Args:
            wanted: which.
            after: (partition, offset) of the last one of the page before.
            letters_max: how many.

        Raises:
            LogUnavailableError: they cannot be read.
        """
        ...

    async def send(self, batch: Sequence[Again]) -> list[Went | None]:
        """Append letters in this order, and mark them; None for one that somebody else has sent meanwhile.

        Raises:
            LogUnavailableError: none was appended, or (AppendUncertainError) some may have been, and none is marked.
        """
        ...

    async def mark(self, sent: Sequence[tuple[DeadLetter, Went]]) -> None:
        """Mark letters that are in the log again without a mark.

        Raises:
            LogUnavailableError: they may not be marked.
        """
        ...


class LocalLetters:
    """Those in the embedded log's file.

    Args:
        log: started before the first question.
    """

    def __init__(self, log: LocalLog) -> None:
        self._log = log

    async def newest(self, letters_max: int) -> list[Summary]:
        """By partition, as the table is ordered, then by time."""

        def select(connection: sqlite3.Connection) -> list[Summary]:
            _prepare(connection)
            rows = [
                row
                for partition in range(self._log.partitions)
                for row in connection.execute(_NEWEST, (self._log.topic, partition, letters_max))
            ]
            return [Summary._make((*row[:-2], _went(*row[-2:]))) for row in rows]

        return nlargest(letters_max, await self._log.write(select), key=_age)

    async def page(self, wanted: Wanted, after: tuple[int, int] = (-1, -1), letters_max: int = 500) -> list[Found]:
        """A range of the table."""
        first, last = (0, self._log.partitions) if wanted.partition is None else (wanted.partition, wanted.partition)
        bounds = (self._log.topic, first, last, *after, wanted.first_offset, wanted.last_offset, letters_max)

        def select(connection: sqlite3.Connection) -> list[Found]:
            _prepare(connection)
            page: list[Found] = []
            size = 0
            for row in connection.execute(_PAGE, bounds):
                letter = stored_letter(row[:9])
                size += len(letter.key or b"") + len(letter.value or b"")
                if page and size > PAGE_BYTES_MAX:
                    break
                page.append(Found(letter, _went(*row[9:])))
            return page

        return await self._log.write(select)

    async def send(self, batch: Sequence[Again]) -> list[Went | None]:
        """One transaction: what is marked is in the log, and what is not marked is not."""
        check_entries([again.entry for again in batch], self._log.partitions)

        def append(connection: sqlite3.Connection) -> list[Went | None]:
            _prepare(connection)
            went: list[Went | None] = []
            for letter, entry in batch:
                place = letter[:3]
                if connection.execute(_MARKED, place).fetchone():
                    went.append(None)
                    continue
                ((partition, offset, _),) = append_rows(connection, [entry])
                connection.execute(_MARK, (*place, now_ms(), partition, offset))
                went.append(Went(partition, offset))
            return went

        return await self._log.write(append)

    async def mark(self, sent: Sequence[tuple[DeadLetter, Went]]) -> None:
        """Nothing but the marks."""
        rows = [(*letter[:3], now_ms(), *went) for letter, went in sent]

        def insert(connection: sqlite3.Connection) -> None:
            _prepare(connection)
            connection.executemany(_MARK, rows)

        if rows:
            await self._log.write(insert)


def _prepare(connection: sqlite3.Connection) -> None:
    """A log's file is older than its first redrive: the table of marks comes with the first question."""
    connection.execute(REDRIVEN)
    connection.execute(REDRIVEN_TRIGGER)


def _went(partition: int | None, offset: int | None) -> Went | None:
    return None if partition is None or offset is None else Went(partition, offset)


def _age(summary: Summary) -> tuple[int, int, int]:
    return summary.time_ms, summary.offset, summary.partition


def open_letters(log: Log, dead_letters: DeadLetters) -> Letters:
    """The letters of `log`, whose place is `dead_letters`; both are started before the first question.

    Raises:
        TypeError: neither the embedded log nor Kafka.
    """
    if isinstance(log, LocalLog):
        return LocalLetters(log)
    from ingest.dead_letters_kafka import KafkaDeadLetters  # noqa: PLC0415 - aiokafka takes 0.1 s to import
    from ingest.letters_kafka import KafkaLetters  # noqa: PLC0415
    from ingest.log.kafka import KafkaLog  # noqa: PLC0415

    if isinstance(log, KafkaLog) and isinstance(dead_letters, KafkaDeadLetters):
        return KafkaLetters(log, dead_letters)
    raise TypeError(f"no dead letters of {log!r}")

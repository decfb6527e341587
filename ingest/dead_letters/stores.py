"""Dead letters: records that nobody can apply, kept whole and with the reason, before the position moves past them.

    Kafka     the topic `<topic>.dlq`: original key, value and headers, and after these, as texts, the headers
              slotlog.error, slotlog.topic, slotlog.partition, slotlog.offset, slotlog.time
              (one that is larger than the topic takes is cut, which slotlog.truncated says)
    embedded  the table `dead_letters` of the log's file

Storing is at least once: a crash between it and the commit of the state stores a letter again. The table keeps one row
for a position; in the topic the headers tell that two are the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from msgpack import packb, unpackb

from ingest.errors import LogDamagedError
from ingest.log.embedded.chain import sum_of
from ingest.log.embedded.embedded_log import LocalLog
from ingest.log.log import Headers, Log

TRUNCATED: Final = "slotlog.truncated"
"""The header that says of a letter that it was cut."""

_INSERT: Final = (
    "INSERT OR REPLACE INTO dead_letters (topic, partition, offset, time_ms, reason, key, value, headers, sum) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SELECT: Final = (
    "SELECT topic, partition, offset, time_ms, reason, key, value, headers, sum FROM dead_letters "
    "ORDER BY topic, partition, offset LIMIT ?"
)


class DeadLetter(NamedTuple):
    """A record that cannot be applied.

    Attributes:
        topic, partition, offset, time_ms: where and when it stands in its log.
        reason: why it cannot be applied.
        key, value, headers: what it was, byte for byte (header names that are not UTF-8: escaped).
    """

    topic: str
    partition: int
    offset: int
    time_ms: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class DeadLetters(Protocol):
    """Where dead letters go."""

    @property
    def concerns(self) -> tuple[str, ...]:
        """Settings of the place with which a start would be refused, each with what to do, as `watch` found them."""
        ...

    async def start(self) -> None:
        """Make the place ready.

        Raises:
            LogUnavailableError, LogMismatchError: it cannot be.
        """
        ...

    async def store(self, letters: Sequence[DeadLetter]) -> None:
        """Keep `letters`; they are durable on return. Storing one again changes nothing that counts.

        Raises:
            LogUnavailableError: they may not be; store them again.
        """
        ...

    async def read(self, letters_max: int = 1000) -> list[DeadLetter]:
        """The first letters, in the order of their positions (embedded) or of their arrival (Kafka)."""
        ...

    async def watch(self, seconds: float) -> None:
        """Look every so many seconds whether letters are kept there for ever, until cancelled; see `concerns`."""
        ...

    async def close(self) -> None:
        """Let go of connections of its own; not of the log."""
        ...


class LocalDeadLetters:
    """The table in the embedded log's file.

    Args:
        log: started before the first letter is stored.
    """

    concerns: tuple[str, ...] = ()

    def __init__(self, log: LocalLog) -> None:
        self._log = log

    async def start(self) -> None:
        """Nothing to do: the table came with the log."""

    async def store(self, letters: Sequence[DeadLetter]) -> None:
        """One transaction of the log's writer."""
        fields = [(*letter[:-1], packb(letter.headers)) for letter in letters]
        rows = [(*row, sum_of(*row)) for row in fields]

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany(_INSERT, rows)

        await self._log.write(insert)

    async def read(self, letters_max: int = 1000) -> list[DeadLetter]:
        """In the order of their positions."""
        rows = await self._log.write(lambda connection: connection.execute(_SELECT, (letters_max,)).fetchall())
        return [stored_letter(row) for row in rows]

    async def offsets(self, partition: int) -> set[int]:
        """The offsets of all letters of a partition. Not part of `DeadLetters`."""
        place = self._log.topic, partition
        rows = await self._log.write(
            lambda connection: connection.execute(
                "SELECT offset FROM dead_letters WHERE topic = ? AND partition = ?", place
            ).fetchall()
        )
        return {offset for (offset,) in rows}

    async def watch(self, seconds: float) -> None:
        """Nothing to do: the table has no settings."""

    async def close(self) -> None:
        """Nothing to do: the log has the file."""


def stored_letter(row: Sequence[Any]) -> DeadLetter:
    """The letter of a row of `dead_letters`: its columns in the order of `DeadLetter`, and their sum.

    Raises:
        LogDamagedError: it is not what was written.
    """
    *fields, total = row
    if sum_of(*fields) != total:
        raise LogDamagedError(
            f"the dead letter of partition {fields[1]}, offset {fields[2]} is damaged: bring the log's file back from "
            "a copy. `slotlog check --log` says what else is damaged."
        )
    return DeadLetter._make((*fields[:-1], tuple(map(tuple, unpackb(fields[-1])))))


def open_dead_letters(log: Log) -> DeadLetters:
    """The place that belongs to `log`, not started yet.

    Raises:
        TypeError: neither the embedded log nor Kafka.
    """
    if isinstance(log, LocalLog):
        return LocalDeadLetters(log)
    from ingest.dead_letters.kafka_store import KafkaDeadLetters  # noqa: PLC0415 - aiokafka takes 0.1 s to import
    from ingest.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415

    if isinstance(log, KafkaLog):
        return KafkaDeadLetters(log)
    raise TypeError(f"no place for dead letters of {log!r}")

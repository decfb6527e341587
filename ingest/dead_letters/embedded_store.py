"""Dead letters in a table of the embedded log's file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from msgpack import packb, unpackb

from ingest.dead_letters.dead_letter import DeadLetter
from slotlog.errors import LogDamagedError
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.chain import sum_of

_INSERT: Final = (
    "INSERT OR REPLACE INTO dead_letters (topic, partition, offset, time_ms, reason, key, value, headers, sum) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


_SELECT: Final = (
    "SELECT topic, partition, offset, time_ms, reason, key, value, headers, sum FROM dead_letters "
    "ORDER BY topic, partition, offset LIMIT ?"
)


class EmbeddedDeadLetters:
    """The dead letters in a table of the embedded log's file.

    Args:
        log: started before the first dead letter is stored.
    """

    concerns: tuple[str, ...] = ()

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log

    async def start(self) -> None:
        """Nothing to do: the table came with the log."""

    async def store(self, dead_letters: Sequence[DeadLetter]) -> None:
        """One transaction of the log's writer."""
        fields = [(*dead_letter[:-1], packb(dead_letter.headers)) for dead_letter in dead_letters]
        rows = [(*row, sum_of(*row)) for row in fields]

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany(_INSERT, rows)

        await self._log.write(insert)

    async def read(self, dead_letters_max: int = 1000) -> list[DeadLetter]:
        """In the order of their positions."""
        rows = await self._log.write(lambda connection: connection.execute(_SELECT, (dead_letters_max,)).fetchall())
        return [stored_letter(row) for row in rows]

    async def offsets(self, partition: int) -> set[int]:
        """Of all dead letters of a partition."""
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
    """The dead letter of a row of `dead_letters`: its columns in the order of `DeadLetter`, and their sum.

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

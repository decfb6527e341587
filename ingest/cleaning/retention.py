"""Deletes dead letters of the embedded log that are more, or older, than the settings allow.

By default all of them for ever: they are lost events, and each is somebody's to look at. On Kafka it is the retention
of the topic `<topic>.dlq`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final

import structlog

from slotlog.clock import now_ms
from slotlog.errors import LogUnavailableError
from slotlog.log.embedded.embedded_log import EmbeddedLog

_LOOK_SECONDS: Final = 60.0
_PAGE_LETTERS: Final = 1000
_DAY_MS: Final = 86_400_000

_NEWEST_SPARE: Final = (
    "SELECT offset FROM dead_letters WHERE topic = ? AND partition = ? ORDER BY offset DESC LIMIT 1 OFFSET ?"
)
_OLDEST: Final = "SELECT offset, time_ms FROM dead_letters WHERE topic = ? AND partition = ? ORDER BY offset LIMIT ?"
_DELETE: Final = "DELETE FROM dead_letters WHERE topic = ? AND partition = ? AND offset <= ?"

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The limits on stored dead letters.

    Attributes:
        letters_max: of each partition, the newest; 0: all.
        days_max: by the time of the record; 0: for ever.
    """

    dead_letters_max: int = 0
    days_max: float = 0.0


class Retention:
    """Forgets dead letters that are too many or too old, once a minute, and says how many and which.

    Args:
        log: started.
        partitions: whose dead letters; those that this process applies, as each has one owner.
        settings: what is kept.
    """

    def __init__(self, log: EmbeddedLog, partitions: list[int], settings: RetentionSettings) -> None:
        self._log = log
        self._partitions = partitions
        self._settings = settings

    async def run(self) -> None:
        """Forget until cancelled."""
        while True:
            try:
                await self.forget(now_ms())
            except LogUnavailableError as error:
                logger.warning("dead_letters_not_forgotten", error=str(error))
            except Exception:
                logger.exception("dead_letters_not_forgotten")
            await asyncio.sleep(_LOOK_SECONDS)

    async def forget(self, wall_ms: int) -> int:
        """Forget what is too much at this time. Returns how many dead letters went.

        Raises:
            LogUnavailableError: the file cannot be written.
        """
        return sum([await self._forget_of(partition, wall_ms) for partition in self._partitions])

    async def _forget_of(self, partition: int, wall_ms: int) -> int:
        before_ms = wall_ms - int(self._settings.days_max * _DAY_MS) if self._settings.days_max else 0
        gone: list[int] = []
        # In pages, as one write keeps all others waiting.
        while page := await self._log.write(partial(self._forget_page, partition, before_ms)):
            gone += page
            if len(page) < _PAGE_LETTERS:
                break
        if gone:
            logger.warning(
                "dead_letters_forgotten",
                partition=partition,
                count=len(gone),
                first_offset=gone[0],
                last_offset=gone[-1],
                dead_letters_max=self._settings.dead_letters_max,
                days_max=self._settings.days_max,
            )
        return len(gone)

    def _forget_page(self, partition: int, before_ms: int, connection: sqlite3.Connection) -> list[int]:
        """The offsets of the oldest dead letters, which are deleted now. Along the key: nothing else is read."""
        place = self._log.topic, partition
        spare = None
        if self._settings.dead_letters_max:
            spare = connection.execute(_NEWEST_SPARE, (*place, self._settings.dead_letters_max)).fetchone()
        last_spare = -1 if spare is None else spare[0]
        oldest = connection.execute(_OLDEST, (*place, _PAGE_LETTERS)).fetchall()
        gone = [offset for offset, _ in takewhile(lambda row: row[0] <= last_spare or row[1] < before_ms, oldest)]
        if gone:
            connection.execute(_DELETE, (*place, gone[-1]))
        return gone

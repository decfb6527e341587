"""Checks the records of the embedded log against their checksums, slowly, again and again.

Nothing else reads records again that the state has applied. Without the scrub, only a replay that needs them would find
the damage. The scrub reads at a low rate, in a thread, because a slow disk must not block the event loop. sqlite3 waits
for the interpreter at each row, so the scrub is slower still while the event loop is busy. Each damage writes a log
line and counts in a metric, which has an alert.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from copy import copy
from typing import Final

import structlog

from slotlog.clock import now_ms
from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.file import connect, in_thread, translated
from slotlog.log.embedded.proof.scan import Damage, PartitionScan, scan_letters

SLICE_ROWS: Final = 100
_SLICE_BYTES: Final = 256 * 1024
_ROW_BYTES: Final = 64  # what a record takes beside its value, about
_AGAIN_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 3600.0
_SAID_MAX: Final = 100

logger = structlog.get_logger(__name__)


class Scrubber:
    """Scrubs some partitions of one log; what it finds is in `log.scrubbed`.

    Args:
        log: started.
        partitions: which.
        bytes_per_s: how much is read in a second, at most; more than 0.
    """

    def __init__(self, log: EmbeddedLog, partitions: Sequence[int], bytes_per_s: int) -> None:
        self._log = log
        self._partitions = partitions
        self._bytes_per_s = bytes_per_s
        self._found = 0

    async def run(self) -> None:
        """Scrub until cancelled, with an hour between the end of one round and the begin of the next."""
        while True:
            try:
                await self.scrub()
            except (LogUnavailableError, LogMismatchError) as error:
                logger.warning("log_scrub_failed", error=str(error))
            except Exception:
                logger.exception("log_scrub_failed")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def scrub(self) -> None:
        """One round.

        Raises:
            LogMismatchError: the log is not the file any more that is open.
            LogUnavailableError: it cannot be opened.
        """
        self._log.refuse_exchanged()
        self._found = 0
        try:
            with contextlib.closing(connect(self._log.path)) as connection:
                for partition in self._partitions:
                    await self._scrub_partition(connection, PartitionScan(partition))
                damages = await in_thread(_letters, connection)
                if damages:
                    await asyncio.sleep(_AGAIN_SECONDS)
                    damages = await in_thread(_letters, connection)
                self._note(damages)
        except sqlite3.Error as error:
            raise translated(error, self._log.path) from error
        counts = self._log.scrubbed
        counts.damages = self._found
        counts.ended_ms = now_ms()

    async def _scrub_partition(self, connection: sqlite3.Connection, scan: PartitionScan) -> None:
        while not scan.is_done:
            self._log.refuse_exchanged()
            before, read_before = copy(scan), scan.records
            damages, size = await in_thread(scan.slice, connection, SLICE_ROWS, _SLICE_BYTES)
            if damages:  # or the disk could not read it once
                await asyncio.sleep(_AGAIN_SECONDS)
                scan = before
                damages, size = await in_thread(scan.slice, connection, SLICE_ROWS, _SLICE_BYTES)
            self._note(damages)
            read_bytes = size + (scan.records - read_before) * _ROW_BYTES
            self._log.scrubbed.bytes += read_bytes
            await asyncio.sleep(read_bytes / self._bytes_per_s)

    def _note(self, damages: Sequence[Damage]) -> None:
        for damage in damages:
            if self._found < _SAID_MAX:
                logger.error(
                    "log_damaged",
                    kind=damage.kind,
                    partition=damage.partition,
                    offset=damage.offset,
                    records=damage.records,
                    reason=damage.message,
                    hint="`slotlog check --log` names all of it",
                )
            self._found += damage.records
        counts = self._log.scrubbed
        counts.damages = max(counts.damages, self._found)


def _letters(connection: sqlite3.Connection) -> list[Damage]:
    return list(scan_letters(connection))

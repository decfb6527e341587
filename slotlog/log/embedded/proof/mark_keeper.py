"""Keeps the mark beside an open embedded log up to date until the log is closed."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.log.embedded.file import file as local_file
from slotlog.log.embedded.file.file import Identity, in_thread
from slotlog.log.embedded.file.heads import head_of
from slotlog.log.embedded.file.open_files import Files
from slotlog.log.embedded.proof.mark import HeadMark

_MARK_SECONDS: Final = 1.0


class Query(Protocol):
    """Asks the log's file something, by a connection that is open."""

    def __call__(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        """What the query returns.

        Raises:
            LogUnavailableError, LogMismatchError: the file does not answer.
        """
        ...


class MarkKeeper:
    """Writes the mark once a second when the file has changed. It begins when it is made.

    Args:
        mark: the mark.
        files: those that are open. No mark is written when others lie at their path.
        identity: of the log.
        query: asks the file.
    """

    def __init__(self, mark: HeadMark, files: Files, identity: Identity, query: Query) -> None:
        self._mark = mark
        self._files = files
        self._identity = identity
        self._query = query
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write it for the last time."""
        self._running.cancel()
        await asyncio.wait((self._running,))
        await self.write()

    async def _run(self) -> None:
        seen = None
        while True:
            await asyncio.sleep(_MARK_SECONDS)
            with contextlib.suppress(LogUnavailableError, LogMismatchError):  # whoever reads or appends hears of it
                changes = self._query(local_file.changes)
                if changes != seen:
                    await self.write()
                    seen = changes

    async def write(self) -> None:
        """Write what the file says now, if the mark does not say it. Where the file does not answer it stays."""
        try:
            self._files.refuse_exchanged()
            heads = [self._query(partial(head_of, partition=each)) for each in range(self._identity.partitions)]
            works = self._query(local_file.works_of)
        except (LogUnavailableError, LogMismatchError):
            return  # whoever reads or appends hears of it
        if not self._mark.is_written(self._identity.id, heads, works):
            await in_thread(self._mark.write, self._identity.id, heads, works)

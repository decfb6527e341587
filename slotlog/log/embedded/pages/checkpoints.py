"""Copies the embedded log's `-wal` to its file, in a thread, before an append has to.

SQLite copies in the commit that fills the `-wal`, and the clients of that commit wait for it. Measured with 50 clients
that send one SET at a time, where a group of writes takes 1.0 ms: one in 180 took 2.6 ms with SQLite's usual 1,000
pages, one in 730 took 7 ms with 4,000. With those and a thread that copies each 1,000 the longest took 4 to 5.5. With
8,000 pages, copies of 1,000, 2,000 and 3,000 have the same 99th percentiles within the noise.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Final

from slotlog.errors import LogDamagedError, LogMismatchError, LogUnavailableError
from slotlog.log.embedded.file.file import CHECKPOINT_PAGES, connect, in_thread
from slotlog.log.embedded.file.open_files import Files
from slotlog.log_lines import LineLogger

_COPIES: Final = 4  # until SQLite would copy
_PAGE_BYTES: Final = 4096
_PAGES_OF_APPEND: Final = 4  # beside those of its rows: heads, an inner page, the first one, the rest of the last
_ROW_BYTES: Final = 64  # beside the value

logger = LineLogger(__name__)


class Checkpoints:
    """Copies once in some appends of the event loop. What it has not copied, SQLite does in a commit.

    Args:
        files: the log's.

    Attributes:
        pages_max: of the `-wal`, when SQLite itself copies them; a quarter of them are copied at once.
    """

    def __init__(self, files: Files) -> None:
        self.pages_max = CHECKPOINT_PAGES
        self._files = files
        self._connection: sqlite3.Connection | None = None
        self._running: asyncio.Task[None] | None = None
        self._pages = 0  # about as many were written since it has begun to copy
        self._is_failing = False

    def appended(self, rows: int, value_bytes: int) -> None:
        """Count an append of the event loop's thread."""
        self._pages += _PAGES_OF_APPEND + (rows * _ROW_BYTES + value_bytes) // _PAGE_BYTES
        if self._pages * _COPIES >= self.pages_max and self._running is None:
            self._pages = 0
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Copy nothing any more."""
        if self._running is not None:
            await asyncio.wait((self._running,))
        if self._connection is not None:
            self._connection.close()

    async def _run(self) -> None:
        """SQLite says nothing where it cannot copy: appends go on as long as there is room for the `-wal`."""
        try:
            await in_thread(self._copy)
            self._is_failing = False
        except (LogUnavailableError, LogMismatchError, LogDamagedError, sqlite3.Error) as error:
            if not self._is_failing:
                logger.warning("log_not_copied", log=str(self._files.path), error=str(error))
            self._is_failing = True
        finally:
            self._running = None

    def _copy(self) -> None:
        if self._connection is None:
            self._files.refuse_exchanged()
            self._connection = connect(self._files.path)
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

"""Makes the embedded log's `-wal` as large as it becomes, before commits have made it so.

SQLite writes the `-wal` from its beginning again each time that it has copied it to the log, after 3,800 pages. Until
it was that large once, each commit makes it longer, and with it the file system's journal is synced, which waits for
what others have changed on that disk. Measured with ext4 and other work on the disk, three times 400 commits of one
row: medians of 361 to 2,159 µs and 99th percentiles of 5,353 to 11,325 µs while the file grows, 232 to 325 µs and 481
to 5,274 µs where it has the room.

What is added are zeros, which SQLite takes for the end of what was written: frames carry the salt of their round.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from slotlog.errors import LogDamagedError, LogMismatchError, LogUnavailableError
from slotlog.log.appends import Appends
from slotlog.log.embedded.file import CHECKPOINT_PAGES

_APPENDS_MIN: Final = 64  # a log that takes fewer is not worth it
_LOOK_SECONDS: Final = 0.1
_FRAMES: Final = CHECKPOINT_PAGES + 200  # a large group may be behind those that are copied
_ROOM_PART: Final = 8  # of what the disk has left: else others would not find any
_PIECE_BYTES: Final = 1024 * 1024
_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24


class Write(Protocol):
    """Does work in a transaction of the log's writer."""

    def __call__(self, work: Callable[[sqlite3.Connection], None]) -> Awaitable[None]:
        """Return when it is durable.

        Raises:
            LogUnavailableError, LogMismatchError, LogDamagedError: the file cannot be written.
        """
        ...


class WalRoom:
    """Makes the room once, when a log has taken some appends. It begins when it is made.

    Args:
        path: the log.
        appends: counts them.
        write: does work while nobody else writes.
    """

    def __init__(self, path: Path, appends: Appends, write: Write) -> None:
        self._path, self._appends, self._write = path, appends, write
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Make none any more."""
        self._running.cancel()
        await asyncio.wait((self._running,))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if sum(self._appends.seconds.counts) >= _APPENDS_MIN:
                break
        with contextlib.suppress(LogUnavailableError, LogMismatchError, LogDamagedError):  # whoever appends hears of it
            await self._write(partial(make_room, path=self._path))


def make_room(connection: sqlite3.Connection, path: Path) -> None:
    """Lengthen the `-wal` by zeros, within a transaction that writes: nobody else may be writing behind its end.

    Args:
        connection: to the log.
        path: the log.
    """
    page_bytes: int = connection.execute("PRAGMA page_size").fetchone()[0]
    size = _HEADER_BYTES + _FRAMES * (_FRAME_HEADER_BYTES + page_bytes)
    with contextlib.suppress(OSError):  # the disk is full: commits go on as before
        file = os.open(f"{path}-wal", os.O_WRONLY)
        try:
            present = os.fstat(file).st_size
            disk = os.fstatvfs(file)
            if present < size and (size - present) * _ROOM_PART <= disk.f_bavail * disk.f_frsize:
                for at in range(present, size, _PIECE_BYTES):  # not all in memory at once
                    os.pwrite(file, bytes(min(_PIECE_BYTES, size - at)), at)
                os.fsync(file)
        finally:
            os.close(file)

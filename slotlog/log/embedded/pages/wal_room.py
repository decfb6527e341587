"""Makes the embedded log's `-wal` and its index `-shm` as large as they become, before commits have made them so.

SQLite writes the `-wal` from its beginning again each time that it has copied it to the log. Until it was that large
once, each commit makes it longer, and with it the file system's journal is synced, which waits for what others have
changed on that disk. Measured with ext4 and other work on the disk, three times 400 commits of one row: medians of 361
to 2,159 µs and 99th percentiles of 5,353 to 11,325 µs while the file grows, 232 to 325 µs and 481 to 5,274 µs where it
has the room.

The index grows with it, for the first time at 4,062 pages (https://sqlite.org/walformat.html). A commit for which the
disk has no room there fails when its pages are in the `-wal`: nobody knows whether it happened. So SQLite copies at
3,800 pages, and at 8,000 where the room is there, as copies are fewer then. Measured, 50 clients that write one by one,
six servers each in turns, 3,000 pages at a time: 99th percentiles of SET 1.64 ms instead of 1.69, INCR 1.45 instead of
1.59, LPUSH 1.41 instead of 1.45, ZADD 2.18 instead of 2.30.

SQLite makes both itself, for a transaction that is larger than its memory for pages, and leaves them as they are when
that is rolled back. It takes 30 to 70 ms, in which others wait with their appends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from slotlog.errors import LogDamagedError, LogMismatchError, LogUnavailableError
from slotlog.log.appends import Appends
from slotlog.log.embedded.file.file import CACHE_BYTES, connect, in_thread, patiently
from slotlog.log.embedded.file.open_files import Files

ROOMY_CHECKPOINT_PAGES: Final = 8000
"""Of the `-wal`, when SQLite copies them to the log, where the room is there."""

_APPENDS_MIN: Final = 64  # a log that takes fewer is not worth it
_LOOK_SECONDS: Final = 0.1
_PAGES: Final = ROOMY_CHECKPOINT_PAGES + 200  # a large group may be behind those that are copied
_ROOM_PART: Final = 8  # of what the disk has left: else others would not find any
_WAL_BYTES: Final = 32 + _PAGES * (24 + 4096)  # with its heads, as https://sqlite.org/fileformat2.html has them
# A page of a long value has the number of the next one. The last ones stay in SQLite's memory.
_FILLER_BYTES: Final = _PAGES * (4096 - 4) + 2 * CACHE_BYTES
_FAILURES: Final = LogUnavailableError, LogMismatchError, LogDamagedError, sqlite3.Error, OSError


class WalRoom:
    """Makes the room once, when a log has taken some appends. It begins when it is made.

    Args:
        files: the log's.
        appends: counts them.
        made: called when the room is there.
    """

    def __init__(self, files: Files, appends: Appends, made: Callable[[], None]) -> None:
        self._files, self._appends, self._made = files, appends, made
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
        with contextlib.suppress(*_FAILURES):  # commits go on as before; whoever appends hears of what concerns them
            if await in_thread(make_room, self._files):
                self._made()


def make_room(files: Files) -> bool:
    """Make it, if it is not there and the disk has enough; returns whether it is there. Blocks for the disk.

    Args:
        files: the log's, which is open.

    Raises:
        LogUnavailableError, LogMismatchError, LogDamagedError: the log cannot be opened, or is another one.
        sqlite3.Error, OSError: the disk is full, or fails. The log is as it was.
    """
    files.refuse_exchanged()
    wal = Path(f"{files.path}-wal")
    missing = _WAL_BYTES - wal.stat().st_size
    if missing <= 0:  # of a process that was killed: who opens it first makes an index for all of it
        return True
    disk = os.statvfs(files.path.parent)
    if missing * _ROOM_PART > disk.f_bavail * disk.f_frsize:
        return False
    with contextlib.closing(connect(files.path)) as connection:
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            connection.execute("CREATE TABLE room AS SELECT zeroblob(?) AS filler", (_FILLER_BYTES,))
            _sync(wal)
        finally:
            if connection.in_transaction:  # SQLite has rolled back what met a full disk
                connection.execute("ROLLBACK")
    return True


def _sync(path: Path) -> None:
    """Let the disk have it: else the next commit would wait for all of it."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)

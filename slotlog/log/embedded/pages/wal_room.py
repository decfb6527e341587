"""Makes the embedded log's `-wal` and its index `-shm` as large as they become, before commits have made them so.

SQLite writes the `-wal` from its beginning again each time that it has copied it to the log. Until it was that large
once, each commit makes it longer, and with it the file system's journal is synced, which waits for what others have
changed on that disk. Measured with ext4 and other work on the disk, three times 400 commits of one row: medians of 361
to 2,159 µs and 99th percentiles of 5,353 to 11,325 µs while the file grows, 232 to 325 µs and 481 to 5,274 µs where it
has the room.

The index grows with it, for the first time at 4,062 pages (https://sqlite.org/walformat.html). A commit for which the
disk has no room there fails when its pages are in the `-wal`: nobody knows whether it happened. So SQLite copies at
3,800 pages, and at 8,000 where the room is there, as it copies more seldom then: measured, quiet machine, one commit
of 50 rows in 1,300 takes 14 to 18 ms, all others 0.26 in the median. No thread copies beside the commits of a service,
but where a trim has made the file smaller (`free_pages`): SQLite before 3.51.3 may lose pages where a copy begins when
all is copied already, while another connection commits (https://sqlite.org/wal.html#walresetbug).

SQLite makes both itself, for a transaction that is larger than its memory for pages, and leaves them as they are when
that is rolled back. Others wait with their appends meanwhile, for some 0.1 s, so a disk that takes longer gets no room.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

from slotlog.errors import LogDamagedError, LogMismatchError, LogUnavailableError
from slotlog.log.appends import Appends
from slotlog.log.embedded.file.file import CACHE_BYTES, connect, in_thread, patiently
from slotlog.log.embedded.file.open_files import Files

ROOMY_CHECKPOINT_PAGES: Final = 8000
"""Of the `-wal`, when SQLite copies them to the log, where the room is there."""

_APPENDS_MIN: Final = 64  # a log that takes fewer is not worth it
_LOOK_SECONDS: Final = 0.1
_SECONDS_MAX: Final = 0.5
_PAGES: Final = ROOMY_CHECKPOINT_PAGES + 200  # a large group may be behind those that are copied
_ROOM_PART: Final = 8  # of what the disk has left: else others would not find any
_WAL_BYTES: Final = 32 + _PAGES * (24 + 4096)  # with its heads, as https://sqlite.org/fileformat2.html has them
_INDEX_BYTES: Final = 3 * 32 * 1024  # for 4,062, 8,158 and 12,254 pages
_PIECE_BYTES: Final = 2 * 1024 * 1024
# A page of a long value has the number of the next one. The last ones stay in SQLite's memory.
_PIECES: Final = -(-(_PAGES * (4096 - 4) + 2 * CACHE_BYTES) // _PIECE_BYTES)
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
    """Make it, if it is not there, the disk has enough and is fast enough. Blocks for the disk.

    Args:
        files: the log's, which is open.

    Returns:
        Whether it is there.

    Raises:
        LogUnavailableError, LogMismatchError, LogDamagedError: the log cannot be opened, or is another one.
        sqlite3.Error, OSError: the disk is full, or fails. The log is as it was.
    """
    files.refuse_exchanged()
    if _is_there(files.path):
        return True
    disk = os.statvfs(files.path.parent)
    if disk.f_bavail * disk.f_frsize < _WAL_BYTES * _ROOM_PART:
        return False
    with contextlib.closing(connect(files.path)) as connection:
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            return _is_there(files.path) or _fill(connection, files.path)  # another process may have made it by now
        finally:
            if connection.in_transaction:  # SQLite itself has rolled back what met a full disk
                connection.execute("ROLLBACK")


def _is_there(path: Path) -> bool:
    wal, index = (Path(f"{path}{suffix}").stat().st_size for suffix in ("-wal", "-shm"))
    return wal >= _WAL_BYTES and index >= _INDEX_BYTES


def _fill(connection: sqlite3.Connection, path: Path) -> bool:
    """Write long values, piece by piece, as no commit would like to wait for all of them; False: it takes too long."""
    until = monotonic() + _SECONDS_MAX
    file = os.open(f"{path}-wal", os.O_WRONLY)
    try:
        connection.execute("CREATE TABLE room (filler)")
        for _ in range(_PIECES):
            connection.execute("INSERT INTO room VALUES (zeroblob(?))", (_PIECE_BYTES,))
            os.fdatasync(file)
            if monotonic() > until:
                return False
    finally:
        os.close(file)
    return True

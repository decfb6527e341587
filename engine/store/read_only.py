"""Opens a database read-only while another process may be writing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

_ATTEMPTS: Final = 20


class _Database(Protocol):
    def close(self) -> None:
        """Let go of it."""


Database = TypeVar("Database", bound=_Database)


def open_while_written(open_read_only: Callable[[], Database], logs: Callable[[], set[str]]) -> Database:
    """A database opened read-only, whole as of a moment during this call.

    RocksDB reads the manifest, then the write-ahead logs that it finds. When the writer flushes in between, a file that
    the manifest names is gone, which is no damage; or a log is gone whose records are in a table that the manifest did
    not know yet, and the state has a hole. So it counts only when no log vanished meanwhile; else it is done again.

    Args:
        open_read_only: opens it.
        logs: the names of its write-ahead logs.

    Raises:
        OSError: the writer was faster each time.
        Exception: as `open_read_only`.
    """
    for attempt in range(_ATTEMPTS):
        before = logs()
        try:
            database = open_read_only()
        except Exception as error:
            if "No such file" not in str(error) or attempt == _ATTEMPTS - 1:
                raise
            continue
        if before <= logs():
            return database
        database.close()
    message = "its writer replaces files faster than they can be opened; try again"
    raise OSError(message)

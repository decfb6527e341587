"""Flushes that are asked for, beside those that RocksDB begins by itself.

Where several memtables are merged into one file, RocksDB forgets the one for the other: a flush that it has begun by
itself takes the memtables that were full then, after it has synced the write-ahead log. A flush that is asked for in
between is taken for done, and who asked waits until as many memtables are full again, which may be for good. Seen with
rocksdict 0.3.29, each time; so nothing is asked for in that time. A handle's `close` and `compact_range` ask, too.
"""

from __future__ import annotations

from typing import Final, Protocol

from engine.store.failures import close_failure

_PENDING: Final = "rocksdb.mem-table-flush-pending"
_LOOKS_MAX: Final = 100_000  # of 35 us where there is nothing to sync: a flush waits for those of other families


class Family(Protocol):
    """The part of a handle of rocksdict that is used here."""

    def property_int_value(self, name: str) -> int | None:
        """One of RocksDB's numbers."""
        ...

    def flush_wal(self, sync: bool = True) -> None:
        """Write and sync the write-ahead log, which is one for all column families."""
        ...

    def close(self) -> None:
        """Close the handle, which flushes its column family."""
        ...


def until_begun(family: Family) -> None:
    """Wait until no flush of a column family has yet to take its memtables; it releases the GIL.

    A sync of the write-ahead log waits for the one that such a flush waits for: so this looks once or twice. Where
    RocksDB cannot write, flushes stay as they are: then it returns, and what comes next says why.
    """
    for _ in range(_LOOKS_MAX):
        if not family.property_int_value(_PENDING):
            return
        try:
            family.flush_wal(sync=True)
        except Exception:  # noqa: BLE001 - rocksdict raises nothing else
            return


def close_family(family: Family) -> str:
    """Close a handle; in which case it could not be, what RocksDB says."""
    until_begun(family)
    return close_failure(family.close)

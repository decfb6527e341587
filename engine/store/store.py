"""The Store protocol: an ordered map of bytes per column family, changed one atomic batch at a time.

Both implementations pass the same contract tests (`tests/engine/store/test_store_contract.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from engine.errors import CorruptionError

Get = Callable[[bytes], bytes | None]

SYSTEM_CF: Final = "system"
EXPIRY_CF: Final = "expiry"
GRAVEYARD_CF: Final = "graveyard"
DEDUP_CF: Final = "dedup"
LOCAL_CF: Final = "local"

SHARED_CFS: Final = (SYSTEM_CF, EXPIRY_CF, GRAVEYARD_CF, DEDUP_CF, LOCAL_CF)
"""The column families that every state has beside those of its layout (engine/FORMAT.md)."""


PROPERTIES: Final = (
    "total-sst-files-size",
    "live-sst-files-size",
    "estimate-live-data-size",
    "estimate-pending-compaction-bytes",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-immutable-mem-table",
    "num-files-at-level0",
    "estimate-num-keys",
)
"""What `properties` tells of each column family in RocksDB, sizes in bytes; it costs no reading (0.5 us each)."""


def is_damage(error: Exception) -> bool:
    """Whether a store's exception says that stored bytes are damaged: RocksDB's status text begins so."""
    return isinstance(error, CorruptionError) or str(error).startswith("Corruption")


class Changes:
    """One atomic batch: first the range deletes, then the puts and deletes.

    Attributes:
        ranges: (column family, first key, exclusive end) to delete.
        values: column family -> key -> value, or None to delete the key.
    """

    __slots__ = ("ranges", "values")

    def __init__(self) -> None:
        self.ranges: list[tuple[str, bytes, bytes]] = []
        self.values: dict[str, dict[bytes, bytes | None]] = {}

    def copy(self) -> Changes:
        """A batch of the same content; what is added to one of them is not in the other."""
        copy = Changes()
        copy.ranges = list(self.ranges)
        copy.values = {name: dict(records) for name, records in self.values.items()}
        return copy

    def has_any(self, column_families: Iterable[str]) -> bool:
        """Whether anything is deleted by range, or put into or deleted from one of these column families."""
        return bool(self.ranges) or any(self.values.get(name) for name in column_families)

    def of(self, column_family: str) -> dict[bytes, bytes | None]:
        """The puts and deletes of one column family, to be added to."""
        return self.values.setdefault(column_family, {})


class Store(Protocol):
    """One partition's records.

    Raises:
        CorruptionError: opening or a scan met damaged bytes. A getter, which is the store's own function so that the
            hot path makes one call, raises whatever the store raises.
    """

    def getter(self, column_family: str) -> Get:
        """A function from key to value (None when absent), bound once so that the hot path makes one call."""
        ...

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records with `start <= key < end` (None: to the last), in key order, or against it with `reverse`.

        It sees the store as it was when `scan` was called. An iteration that ends early through damage raises.
        """
        ...

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The first `most` keys that `scan` would give: quicker, for who knows how many there are.

        Damage may end it early and in silence.
        """
        ...

    def records(self, column_family: str, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """The first `most` records that `scan` would give, as `keys`."""
        ...

    def write(self, changes: Changes) -> None:
        """Apply `changes` as one: all of it or nothing is there after a crash.

        Raises:
            StoreBusyError: refused before anything was written; may be tried again.
            Exception: anything else leaves it open whether the batch was written: close, reopen, read the position.
        """
        ...

    def close(self) -> None:
        """Release the store; it can be opened again afterwards."""
        ...


class MaintainedStore(Store, Protocol):
    """A store with all that a running service does to it beside applying records. A machine needs none of it."""

    def sameness(self) -> Callable[[], bool]:
        """Return a check, for later and after `close`, that what would be opened is still this store."""
        ...

    is_gathering: bool
    """Whether batches may wait to be written with later ones: for who applies much and calls `write_gathered` soon."""

    def write_gathered(self) -> None:
        """Write the batches that wait.

        Raises:
            StoreBusyError, Exception: as `write`; they go on to wait.
        """
        ...

    def flush_all(self) -> None:
        """Write to files what is only in memory and in the write-ahead log. In any thread."""
        ...

    def settle(self) -> bool:
        """Compact what a rebuild has put off, as far as the store would do that by itself. In any thread.

        Returns:
            Whether it was done to its end: not when the store is closed.
        """
        ...

    def checkpoint(self, path: str) -> None:
        """Write the store as it is at this moment into a new directory, without batches that wait.

        Raises:
            OSError: it has no files, not all of it is in them, or they cannot be written.
        """
        ...

    def compact(
        self, column_family: str, start: bytes, end: bytes, go_on: Callable[[int], bool] = lambda _: True
    ) -> bool:
        """Give back the room of what was deleted of `start <= key < end`, in pieces. In any thread.

        Args:
            column_family: where.
            start: the first key.
            end: the key behind the last.
            go_on: asked after each piece, with the bytes of its files before; False ends it, as a limit of rate may.

        Returns:
            Whether it was done to its end: not when the store is closed, or `go_on` said no.

        Raises:
            Exception: the store's own, such as a full disk; the state is unharmed.
        """
        ...

    def created_s(self) -> float | None:
        """When it was made, in seconds since 1970; None where that cannot be told."""
        ...

    def stored_bytes(self) -> int:
        """Bytes on disk, the write-ahead log included."""
        ...

    def wal_bytes(self) -> int:
        """Bytes of the write-ahead log."""
        ...

    def properties(self) -> Mapping[str, Mapping[str, int]]:
        """What the store counts of each column family, by RocksDB's names; nothing where it counts nothing."""
        ...

    def number_of(self, name: str) -> int:
        """One of RocksDB's numbers for the store as a whole, such as `num-running-compactions`; 0 where not known."""
        ...

"""Opens the directory of a Kvrocks, read-only and without a trace in it.

Kvrocks keeps its database in `db` below its `dir`; a backup of it is such a database, too. Column families and what
they hold, in the order in which Kvrocks makes them:

    default      subkeys of all types but streams    zset_score   score and member of sorted sets
    metadata     a record for each key               pubsub       messages on their way to replicas
    propagate    scripts, functions, namespaces      stream       subkeys of streams
    search       indexes of FT.*

Those that are missing are empty. One that is not known is a newer Kvrocks', and is opened and reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from engine.errors import CorruptionError
from engine.store.plain import PlainReader
from engine.store.store import SYSTEM_CF
from ops.config import ConfigError
from ops.importing.linked import CURRENT, identity_of, opened_by_links

DEFAULT: Final = "default"
METADATA: Final = "metadata"
ZSET_SCORE: Final = "zset_score"
PUBSUB: Final = "pubsub"
PROPAGATE: Final = "propagate"
STREAM: Final = "stream"
SEARCH: Final = "search"

COLUMN_FAMILIES: Final = (METADATA, ZSET_SCORE, PUBSUB, PROPAGATE, STREAM, SEARCH)
"""Those beside `default`, in the order of Kvrocks."""


class KvrocksDirectory:
    """An open directory.

    Attributes:
        path: the database itself.
        identity: by which RocksDB knows it, and its last write.
        unknown: column families that Kvrocks 2.10 does not have.
    """

    def __init__(self, path: Path, reader: PlainReader) -> None:
        self.path = path
        self.identity = identity_of(path, reader)
        self.unknown = sorted(set(reader.column_families) - {DEFAULT, *COLUMN_FAMILIES})
        self._reader = reader

    def scan(self, column_family: str, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The records with `start <= key < end`, in order; none of a column family that is missing.

        Raises:
            CorruptionError: they end at damage.
        """
        return self._reader.scan(column_family, start, end) if self._has(column_family) else iter(())

    def get(self, column_family: str, key: bytes) -> bytes | None:
        """The value of a record, None where there is none; CorruptionError at damage."""
        return self._reader.get(column_family, key) if self._has(column_family) else None

    def estimated_count(self, column_family: str) -> int:
        """About how many records a column family has."""
        return self._reader.estimated_count(column_family) if self._has(column_family) else 0

    def _has(self, column_family: str) -> bool:
        return column_family in self._reader.column_families


@contextmanager
def opened(path: Path) -> Iterator[KvrocksDirectory]:
    """The directory of a Kvrocks, as of this moment. It may be in use: what was written until now is there.

    It is opened by links (`ops/importing/linked.py`), so nothing is made, changed or locked in it.

    Args:
        path: what Kvrocks' setting `dir` names, or a database of it, such as a backup.

    Raises:
        ConfigError: it is none that Kvrocks wrote.
        CorruptionError: it is damaged, or of a RocksDB that is too new.
        OSError: a file cannot be read.
    """
    database = _database_in(path)
    with opened_by_links(database, "Kvrocks") as reader:
        _check(database, reader)
        yield KvrocksDirectory(database, reader)


def _database_in(path: Path) -> Path:
    for database in (path / "db", path):
        if (database / CURRENT).is_file():
            return database.resolve()
    if not path.exists():
        raise ConfigError(f"{path} is not there")
    for database in (path / "db", path):
        if database.is_dir() and any(database.glob("*.sst")):
            raise CorruptionError(
                f"{database} is damaged: it has tables, and its file {CURRENT} is missing; take a backup"
            )
    raise ConfigError(
        f"{path} is no directory of Kvrocks: neither it nor its directory db holds a RocksDB database;"
        " name what Kvrocks' setting `dir` says, or a backup"
    )


def _check(database: Path, reader: PlainReader) -> None:
    """Refuse what Kvrocks did not write, by its column families."""
    names = set(reader.column_families)
    if SYSTEM_CF in names:
        raise ConfigError(
            f"{database} is a state of slotlog, not a directory that Kvrocks wrote; its log has the events"
        )
    if METADATA not in names:
        raise ConfigError(
            f"{database} is no directory that Kvrocks wrote: it has no column family {METADATA},"
            f" but {', '.join(sorted(names))}"
        )

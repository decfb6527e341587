"""Plain RocksDB directories, such as other programs write and read: without a column family of ours.

`PlainReader` and `PlainWriter` keep to what any RocksDB since version 7 reads, and around the traps of rocksdict as
`engine.store.rocks` does. rocksdict leaves a file of its own beside each database that it opens. The writer removes it.
Whoever wants nothing to be left where a reader looks gives it a directory of links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from engine.errors import CorruptionError
from engine.store.iterators import forward
from engine.store.store import is_damage

_MIB: Final = 1024 * 1024
_CACHE_BYTES: Final = 32 * _MIB
_MEMTABLE_BYTES: Final = 32 * _MIB
_BATCH_BYTES: Final = 4 * _MIB
_BLOCK_BYTES: Final = 16 * 1024
_READ_ONLY: Final = AccessType.read_only(error_if_log_file_exist=False)
_DEFAULT: Final = "default"
_LEFT_BEHIND: Final = "rocksdict-config.json"


class PlainReader:
    """A database, read as of the moment of opening.

    Args:
        path: its directory, in which a file of rocksdict's is left.

    Attributes:
        column_families: all that it has, in the order in which they were made.

    Raises:
        CorruptionError: it cannot be read: it is damaged, of a newer format, or does not order its keys by their bytes.
        OSError: a file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        cache = Cache(_CACHE_BYTES)
        try:
            self.column_families: tuple[str, ...] = tuple(Rdict.list_cf(str(path)))
            self._db = Rdict(
                str(path),
                Options(raw_mode=True),
                column_families={name: _reading_options(cache) for name in self.column_families},
                access_type=_READ_ONLY,
            )
        except Exception as error:
            raise self._failure(error) from error
        self._families: dict[str, Rdict] = {name: self._db.get_column_family(name) for name in self.column_families}

    def scan(self, column_family: str, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The records with `start <= key < end`, in order.

        Raises:
            CorruptionError: they end at damage.
        """
        return forward(self._families[column_family].iter(), start, end)

    def get(self, column_family: str, key: bytes) -> bytes | None:
        """The value of a record, None where there is none.

        Raises:
            CorruptionError: it is damaged.
        """
        try:
            value: bytes | None = self._families[column_family].get(key)
        except Exception as error:
            raise self._failure(error) from error
        return value

    def estimated_count(self, column_family: str) -> int:
        """About how many records there are: RocksDB counts one that was written twice as two."""
        return self._families[column_family].property_int_value("rocksdb.estimate-num-keys") or 0

    def sequence_number(self) -> int:
        """The number of its last write: where it is the same, so are the records."""
        return self._db.latest_sequence_number()

    def close(self) -> None:
        """Close every handle."""
        for family in self._families.values():
            family.close()
        self._families = {}
        self._db.close()

    def _failure(self, error: Exception) -> Exception:
        text = str(error).replace(str(self._path), "…")
        if is_damage(error) or not text.startswith("IO error"):
            return CorruptionError(f"the database cannot be read: {text}")
        return OSError(f"the database cannot be read: {text}")


class PlainWriter:
    """A new database, filled once from nothing; whole when `finish` has returned.

    Tables have format 5, in blocks without compression, and keys lie in the order of their bytes.

    Args:
        path: its directory, which is not there.
        column_families: those beside `default`, in the order in which they are made.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path, column_families: Sequence[str]) -> None:
        self._path = path
        options = _writing_options()
        options.create_if_missing(True)
        try:
            self._db = Rdict(str(path), options)
            self._families: dict[str, Rdict] = {_DEFAULT: self._db.get_column_family(_DEFAULT)}
            for name in column_families:
                self._families[name] = self._db.create_column_family(name, _writing_options())
        except Exception as error:
            raise self._failure(error) from error
        self._handles: dict[str, ColumnFamily] = {
            name: self._db.get_column_family_handle(name) for name in self._families
        }
        self._batch = WriteBatch(raw_mode=True)
        self._write_options = WriteOptions()
        # There is nothing to recover: what was not finished is begun anew.
        self._write_options.disable_wal = True  # type: ignore[method-assign, assignment] # a property; its stub errs

    def put(self, column_family: str, key: bytes, value: bytes) -> None:
        """Write a record.

        Raises:
            OSError: the disk is full, or failed.
        """
        self._batch.put(key, value, self._handles[column_family])
        if self._batch.size_in_bytes() >= _BATCH_BYTES:
            self._write()

    def finish(self) -> None:
        """Bring everything to disk, and close.

        Raises:
            OSError: as `put`.
        """
        self._write()
        try:
            for family in self._families.values():
                family.flush()
        except Exception as error:
            raise self._failure(error) from error
        self.close()
        (self._path / _LEFT_BEHIND).unlink()

    def close(self) -> None:
        """Close every handle, whatever is unfinished. A second call does nothing."""
        self._handles = {}
        families, self._families = self._families, {}
        for handle in (*families.values(), *([self._db] if families else [])):
            with suppress(Exception):  # rocksdict raises nothing else; after a failed write a handle cannot be flushed
                handle.close()

    def _write(self) -> None:
        batch, self._batch = self._batch, WriteBatch(raw_mode=True)
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> OSError:
        return OSError(f"{self._path} cannot be written: {str(error).replace(str(self._path), '…')}")


def _reading_options(cache: Cache) -> Options:
    """One cache for all column families.

    Indexes in one piece stay out of it: one that is larger than a shard of the cache would be read anew at each read
    (measured: 0.5 ms). Kvrocks cuts its own into small ones, which are in the cache either way.
    """
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    return options


def _writing_options() -> Options:
    table = BlockBasedOptions()
    table.set_format_version(5)
    table.set_bloom_filter(10, block_based=False)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_block_size(_BLOCK_BYTES)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(_MEMTABLE_BYTES)
    # Each compression is a choice of whoever builds a RocksDB; every one reads blocks without.
    options.set_compression_type(DBCompressionType.none())
    return options

"""A partition's store in RocksDB: one directory per partition, one column family per kind of record.

The only file that opens RocksDB. It is written around the traps of rocksdict 0.3.29: every column family's options are
passed at each open, scans are bounded by comparing keys (those of the expiry index also by read options, which are kept
as long as their iterator), each scan checks the iterator's status (a damaged block otherwise ends it in silence), and
one handle per column family is kept until `close` (dropping one is a flush). `tests/engine/test_rocksdict_traps.py`
guards each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
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
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from engine.errors import CorruptionError, StoreBusyError
from engine.store.base import EXPIRY_CF, SHARED_CFS, SYSTEM_CF, Changes, Get, is_damage

_MIB: Final = 1024 * 1024
_OPEN_ATTEMPTS: Final = 20
_SIGNS_OF_DAMAGE: Final = ("corruption", "checksum mismatch")


class SharedMemory:
    """The memory that all partitions of one process share: one block cache, one budget for memtables.

    Without it each of 64 partitions would bring its own 8 MiB cache and its own 64 MiB of memtables per column family.

    Args:
        cache_bytes: blocks, index and filter blocks of all partitions.
        memtable_bytes: when all memtables together exceed it, the largest is flushed.
    """

    def __init__(self, cache_bytes: int = 256 * _MIB, memtable_bytes: int = 256 * _MIB) -> None:
        self.cache = Cache(cache_bytes)
        # allow_stall=False: a full budget starts a flush, it never blocks a writer that holds the GIL.
        self.write_buffers = WriteBufferManager(memtable_bytes, allow_stall=False)


class RocksStore:
    """One partition's RocksDB.

    Args:
        path: the directory; made when `read_only` is false.
        column_families: those of the layout, beside `SHARED_CFS`.
        memory: shared by all partitions of the process.
        wal: write-ahead log on; off only for `replay` into a fresh directory, which counts once `flush_all` returned.
        read_only: read beside a running writer, as of the moment of opening.

    Raises:
        CorruptionError: the directory is damaged.
        OSError: another process has it open, it is missing (read_only), or the disk failed.
    """

    def __init__(
        self,
        path: Path,
        column_families: Iterable[str],
        memory: SharedMemory | None = None,
        *,
        wal: bool = True,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self._memory = memory or SharedMemory()
        names = (*SHARED_CFS, *column_families)
        if not read_only:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not (path / "CURRENT").exists():  # RocksDB would leave a directory with its own log behind
            message = f"{path} cannot be opened: no state is there"
            raise FileNotFoundError(message)
        open_database = partial(
            Rdict,
            str(path),
            database_options(self._memory),
            column_families={name: column_family_options(self._memory) for name in ("default", *names)},
        )
        try:
            self._db = _open_beside(path, open_database) if read_only else open_database()
        except Exception as error:
            raise _open_error(path, error) from error
        self._families: dict[str, Rdict] = {name: self._db.get_column_family(name) for name in names}
        self._handles: dict[str, ColumnFamily] = {name: self._db.get_column_family_handle(name) for name in names}
        self._idle: dict[str, list[RdictIter]] = {name: [] for name in names}
        self._write_options = WriteOptions()
        # A write stall becomes a clean failure before anything is written, instead of a pause that holds the GIL.
        self._write_options.no_slowdown = True
        if not wal:
            self._write_options.disable_wal = True  # type: ignore[method-assign, assignment] # a property; its stub errs

    def getter(self, column_family: str) -> Get:
        """A function from key to value: rocksdict's own `get`, so that the hot path makes one call."""
        get: Get = self._families[column_family].get
        return get if column_family != SYSTEM_CF else partial(_get_checked, get)

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records with `start <= key < end`, as they were at this call.

        Iterators are kept and re-seeked until the next write (measured: 2.3 us a seek against 5.1 for a new one).
        """
        if column_family == EXPIRY_CF and end is not None and not reverse:
            return self._bounded(column_family, start, end)
        idle = self._idle[column_family]
        iterator = idle.pop() if idle else self._families[column_family].iter()
        records = _backward(iterator, start, end) if reverse else _forward(iterator, start, end)
        return self._lent(column_family, idle, iterator, records)

    def write(self, changes: Changes) -> None:
        """Apply `changes` in one WriteBatch, in the WAL but not synced: a crash leaves a prefix of whole batches."""
        batch = WriteBatch(raw_mode=True)
        for name, start, end in changes.ranges:
            batch.delete_range(start, end, self._handles[name])
        for name, records in changes.values.items():
            # `batch[key] = value` under a default column family: 0.67 us against 0.84 for `put` with a handle.
            batch.set_default_column_family(self._handles[name])
            for key, value in records.items():
                if value is None:
                    del batch[key]
                else:
                    batch[key] = value
        self._idle = {name: [] for name in self._idle}
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            if "write stall" in str(error).lower():
                message = f"{self.path}: RocksDB is behind with its compactions; try again"
                raise StoreBusyError(message) from error
            raise

    def flush_all(self) -> None:
        """Write every memtable to disk: afterwards the directory is whole even when `wal` was off."""
        for family in self._families.values():
            family.flush()
        self._db.flush_wal(sync=True)

    def disk_bytes(self) -> dict[str, int]:
        """Bytes of SST files by column family; what is not flushed yet is in the write-ahead log alone."""
        return {
            name: family.property_int_value("rocksdb.total-sst-files-size") or 0
            for name, family in self._families.items()
        }

    def wal_bytes(self) -> int:
        """Bytes of the write-ahead logs."""
        return sum(log.stat().st_size for log in self.path.glob("*.log"))

    def close(self) -> None:
        """Close every handle; iterators that scans still hold keep the lock until they are gone.

        Raises:
            OSError: one could not be closed, as after a failed write; all the others are closed.
        """
        self._idle = {}
        self._handles = {}
        failures = []
        for handle in (*self._families.values(), self._db):
            try:
                handle.close()
            except Exception as error:  # noqa: BLE001 - rocksdict raises nothing else
                failures.append(str(error))
        self._families = {}
        if failures:
            message = f"{self.path} was not closed well: {failures[0]}"
            raise OSError(message)

    def _bounded(self, column_family: str, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """A scan that RocksDB itself ends at `end`, without crossing the tombstones behind it (0.12 us each).

        For the expiry index, where most looks find nothing and every replaced time to live has left a tombstone.
        """
        read_options = ReadOptions()
        read_options.set_iterate_upper_bound(end)
        return _held(self._families[column_family].iter(read_options), start, end, read_options)

    def _lent(
        self, column_family: str, idle: list[RdictIter], iterator: RdictIter, records: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """`records`, and at their end the iterator back among the idle ones, unless a write has made it stale."""
        try:
            yield from records
        finally:
            if self._idle.get(column_family) is idle:
                idle.append(iterator)


def _get_checked(get: Get, key: bytes) -> bytes | None:
    """A point read that names damage. The hot column families do without: there `Machine` tells it by the text."""
    try:
        return get(key)
    except Exception as error:
        if is_damage(error):
            message = f"the state is damaged ({error}); rebuild it with `slotlog replay`"
            raise CorruptionError(message) from error
        raise


def _forward(iterator: RdictIter, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    iterator.seek(start)
    while iterator.valid():
        key = iterator.key()
        if end is not None and key >= end:
            return
        yield key, iterator.value()
        iterator.next()
    _check_status(iterator)


def _held(iterator: RdictIter, start: bytes, end: bytes, read_options: ReadOptions) -> Iterator[tuple[bytes, bytes]]:
    """A forward scan in whose frame the read options, and the bound that they point to, outlive every step."""
    yield from _forward(iterator, start, end)
    del read_options


def _backward(iterator: RdictIter, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    if end is None:
        iterator.seek_to_last()
    else:
        iterator.seek_for_prev(end)
        if iterator.valid() and iterator.key() == end:
            iterator.prev()
    while iterator.valid():
        key = iterator.key()
        if key < start:
            return
        yield key, iterator.value()
        iterator.prev()
    _check_status(iterator)


def _check_status(iterator: RdictIter) -> None:
    try:
        iterator.status()
    except Exception as error:
        message = f"a scan ended at damaged data: {error}"
        raise CorruptionError(message) from error


def database_options(memory: SharedMemory) -> Options:
    """The options of a partition's database. Public for the benchmarks, whose floor uses the same."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_manager(memory.write_buffers)
    # Two cores: one flush and one compaction beside the writer.
    options.set_max_background_jobs(2)
    # Many small column families share one WAL; without a bound an idle one would keep all of it.
    options.set_max_total_wal_size(128 * _MIB)
    options.set_keep_log_file_num(4)
    options.set_max_log_file_size(4 * _MIB)
    return options


def column_family_options(memory: SharedMemory) -> Options:
    """The options of each column family. Public as `database_options` is."""
    table = BlockBasedOptions()
    table.set_block_cache(memory.cache)
    # Most point reads of a new field or key find nothing; ten bits a key answer 99 % of them without a block.
    table.set_bloom_filter(10, block_based=False)
    # Index and filter blocks count against the shared cache, else memory grows with the number of files. They are cut
    # into small ones: the cache has shards of some MiB, and a larger block than a shard (the filter of a file of some
    # 4 million records, which compress to 30 MB) is read and checked anew at each read: 2 to 4 ms against 0.03.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(32 * _MIB)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    return options


def _open_beside(path: Path, open_database: Callable[..., Rdict]) -> Rdict:
    """Open read-only while another process may be writing.

    RocksDB reads the manifest, then the write-ahead logs that it finds. When the writer flushes in between, a file that
    the manifest names is gone, which is no damage; or a log is gone whose records are in a table that the manifest did
    not know yet, and the state has a hole. So it counts only when no log vanished meanwhile; else it is done again.
    """
    read_only = AccessType.read_only(error_if_log_file_exist=False)
    for attempt in range(_OPEN_ATTEMPTS):
        logs = {log.name for log in path.glob("*.log")}
        try:
            database = open_database(access_type=read_only)
        except Exception as error:
            if "No such file" not in str(error) or attempt == _OPEN_ATTEMPTS - 1:
                raise
            continue
        if logs <= {log.name for log in path.glob("*.log")}:
            return database
        database.close()
    message = "its writer replaces files faster than they can be opened; try again"
    raise OSError(message)


def _open_error(path: Path, error: Exception) -> Exception:
    text = str(error).replace(str(path), "…")  # so that no word of the path is taken for RocksDB's
    if "LOCK" in text:
        return BlockingIOError(
            f"{path} is open in another process; stop it first, or read beside it with `slotlog query`"
        )
    if any(sign in text.lower() for sign in _SIGNS_OF_DAMAGE):
        return CorruptionError(f"{path} is damaged ({text}); rebuild it with `slotlog replay`")
    return OSError(f"{path} cannot be opened: {text}")

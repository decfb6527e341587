"""A partition's store in RocksDB: one directory per partition, one column family per kind of record.

The only file that opens a state's RocksDB. It is written around the traps of rocksdict 0.3.29: every column family's
options are passed at each open, scans are bounded by comparing keys (where much was deleted also by read options, which
are kept as long as their iterator), each scan checks the iterator's status (a damaged block otherwise ends it in
silence), and one handle per column family is kept until `close` (dropping one is a flush).
`tests/engine/store/test_rocksdict_traps.py` guards each of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, cast

from rocksdict import (
    AccessType,
    Checkpoint,
    ColumnFamily,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from engine import native
from engine.errors import StoreBusyError, StoreFullError
from engine.store.compaction_pieces import pieces
from engine.store.directory import created_s, prepare_directory, same_database
from engine.store.failures import close_failure, damaged, get_checked, is_full, open_error
from engine.store.iterators import FEW_KEYS, Idle, Sweep, backward, few_keys, lent, singly, swept
from engine.store.options import FILES_MAX, SharedMemory, database_options, options_of_families
from engine.store.read_only import open_while_written
from engine.store.store import EXPIRY_CF, PROPERTIES, SHARED_CFS, SYSTEM_CF, Changes, Get, is_damage

_MIB: Final = 1024 * 1024
_SORTED_FROM: Final = 200  # records of a column family: of fewer the sort takes what RocksDB saves
_SORTED_FROM_IN_PYTHON: Final = 2_000  # where the sort is Python's
_READ_ONLY: Final = AccessType.read_only(error_if_log_file_exist=False)
_DELETED_MAX: Final = 1000
_WAL_PART: Final = 10  # of what is stored, the log may be one tenth
_WAL_BYTES_MIN: Final = _MIB  # below it nothing is flushed for its sake


class RocksStore:
    """One partition's RocksDB.

    Args:
        path: the directory; made when `read_only` is false.
        column_families: those of the layout, beside `SHARED_CFS`.
        memory: shared by all partitions of the process.
        scattered: those of the layout's whose records are written anywhere among each other: memtables are small.
        counters: those of the layout's whose values are of one size and replaced all the time. A value takes the place
            of the one before it in the memtable: a scan that goes on across a write may give the new one, and what a
            range was deleted of must not be put again, as it would take the place of a record that the range hides.
        looked_up: those of the layout's that are asked for a key before it is put, mostly in vain where keys are new.
        bulk: without a write-ahead log, and with compactions put off until `settle`: only for what builds a state in a
            fresh directory, which counts once `flush_all` returned.
        read_only: read beside a running writer, as of the moment of opening.

    Attributes:
        is_gathering: makes no difference, but to a `GatheringStore`.

    Raises:
        CorruptionError: the directory is damaged.
        StoreFullError: its disk has no room for what an opening writes.
        OSError: another process has it open, it is missing (read_only), or the disk failed.
    """

    def __init__(
        self,
        path: Path,
        column_families: Iterable[str],
        memory: SharedMemory | None = None,
        *,
        scattered: Collection[str] = (),
        counters: Collection[str] = (),
        looked_up: Collection[str] = (),
        bulk: bool = False,
        read_only: bool = False,
    ) -> None:
        self.path = path
        memory = memory or SharedMemory()
        names = (*SHARED_CFS, *column_families)
        prepare_directory(path, read_only=read_only)
        families = options_of_families(memory, names, scattered, counters, looked_up, bulk=bulk)
        open_database = partial(Rdict, str(path), database_options(memory), column_families=families)
        try:
            if read_only:
                reader = partial(open_database, access_type=_READ_ONLY)
                self._db = open_while_written(reader, lambda: {log.name for log in path.glob("*.log")})
            else:
                self._db = open_database()
        except Exception as error:
            raise open_error(str(path), error) from error
        self._families: dict[str, Rdict] = {name: self._db.get_column_family(name) for name in names}
        self._handles: dict[str, ColumnFamily] = {name: self._db.get_column_family_handle(name) for name in names}
        self._idle: defaultdict[str, Idle] = defaultdict(Idle)  # of those that were scanned since the last write
        # What was deleted since the opening. In the expiry index each replaced time to live leaves a tombstone.
        self._deleted = dict.fromkeys(names, 0) | {EXPIRY_CF: _DELETED_MAX + 1}
        self._owned: list[Rdict] = []
        self._closed = False
        self.is_gathering = False
        self._write_options = WriteOptions()
        # A write stall becomes a clean failure before anything is written, instead of a pause that holds the GIL.
        self._write_options.no_slowdown = True
        if bulk:
            self._write_options.disable_wal = True  # type: ignore[method-assign, assignment] # a property; its stub errs

    def getter(self, column_family: str) -> Get:
        """A function from key to value: rocksdict's own `get`, so that the hot path makes one call."""
        get: Get = self._families[column_family].get
        return get if column_family != SYSTEM_CF else partial(get_checked, get)

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records with `start <= key < end`, as they were at this call.

        Iterators are kept and re-seeked until the next write (measured: 1.2 us a seek against 2 to 5 for a new one),
        but not where much was deleted: there a bound costs less than the tombstones behind the last record.
        """
        idle, family, bound = self._idle[column_family], self._families[column_family], None
        if self._deleted[column_family] > _DELETED_MAX and end is not None and not reverse:
            bound = _up_to(end)
        iterator = idle.pop() if idle and bound is None else family.iter(bound)
        if reverse:
            return lent(backward(iterator, start, end), iterator, idle)
        left_off: list[bytes] = []
        rest = swept(partial(_sweep, family), end, left_off)
        return chain(singly(iterator, idle, start, end, left_off, bound), chain.from_iterable(rest))

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The first `most` keys of `scan`: a few by an idle iterator, more by rocksdict's own loop.

        That loop takes 0.1 us less for a key, 1 us more for an iterator of its own, and ends at damage in silence.
        """
        idle = self._idle[column_family]
        if most <= FEW_KEYS and self._deleted[column_family] <= _DELETED_MAX:
            iterator = idle.pop() if idle else self._families[column_family].iter()
            found = few_keys(iterator, start, end, most)
            if not idle.is_stale:
                idle.append(iterator)
            return found
        bound = _up_to(end)
        keys: Iterator[Any] = self._families[column_family].keys(from_key=start, read_opt=bound)
        return list(islice(keys, most))

    def records(self, column_family: str, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """The first `most` records of `scan`, by rocksdict's own loop: 100 in 20 us instead of 50.

        It ends at damage in silence.
        """
        bound = _up_to(end)
        records: Iterator[Any] = self._families[column_family].items(from_key=start, read_opt=bound)
        return list(islice(records, most))

    def write(self, changes: Changes) -> None:
        """Apply `changes` in one WriteBatch, in the WAL but not synced: a crash leaves a prefix of whole batches."""
        batch = WriteBatch(raw_mode=True)
        for name, start, end in changes.ranges:
            batch.delete_range(start, end, self._handles[name])
            self._deleted[name] += _DELETED_MAX
        for name, records in changes.values.items():
            # `batch[key] = value` under a default column family: 0.67 us against 0.84 for `put` with a handle.
            batch.set_default_column_family(self._handles[name])
            self._deleted[name] += _put_all(batch, records)
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            if "write stall" in str(error).lower():
                message = f"{self.path}: RocksDB is behind with its compactions; try again"
                raise StoreBusyError(message) from error
            if is_full(error):
                message = f"{self.path} cannot be written: {str(error).replace(str(self.path), '…')}"
                raise StoreFullError(message) from error
            if is_damage(error):  # a flush or compaction has met some: until the store is opened again, no write goes
                raise damaged(error) from error
            raise
        finally:  # not before: others may scan while the batch is filled, and give their iterators back
            self._forget_iterators()

    def write_gathered(self) -> None:
        """Nothing to do: `write` has written all of it."""

    def flush_all(self) -> None:
        """Write every memtable to disk: afterwards the directory is whole even when `wal` was off.

        The write-ahead log, which is one for all column families, keeps every record until then. In any thread.
        """
        for name in self._handles:
            with self._own_family(name) as family:
                if family is None:
                    return
                family.flush()

    def checkpoint(self, path: str) -> None:
        """Link the files of all that is written into a new directory, which is a database of its own.

        It holds the GIL: for some milliseconds after `flush_all`, else as long as RocksDB flushes what is in memory.

        Raises:
            OSError: the directory is there, is on another disk, or cannot be written.
        """
        checkpoint = Checkpoint(self._db)
        try:
            checkpoint.create_checkpoint(path)
        except Exception as error:
            message = f"no checkpoint can be made in {path}: {str(error).replace(path, '…')}"
            raise OSError(message) from error
        finally:
            del checkpoint  # as long as it lives the database cannot be closed

    def compact(
        self, column_family: str, start: bytes, end: bytes, go_on: Callable[[int], bool] = lambda _: True
    ) -> bool:
        """Compact `start <= key < end` to free its deleted space. Any thread may call it; it releases the GIL.

        `close` breaks it off within one. At its end a write-ahead log that is large beside what is stored goes too:
        what it still keeps was deleted, or is flushed with the rest.
        """
        with self._own_family(column_family) as family:
            if family is None:
                return False
            for first, last, size in pieces(family.live_files(), start, end):
                try:
                    family.compact_range(first, last)
                except Exception:
                    if self._closed:
                        return False
                    raise
                if self._closed or not go_on(size):
                    return False
            stored_bytes = sum(file["size"] for file in family.live_files())
        if self.wal_bytes() > max(_WAL_BYTES_MIN, stored_bytes // _WAL_PART):
            self.flush_all()
        return True

    def settle(self) -> bool:
        """Compact what a rebuild has put off, as RocksDB would when the state is opened without `bulk`.

        Else a service would be refused its writes while it catches up. It releases the GIL; `close` breaks it off.

        Returns:
            Whether it was done to its end: not when the store was closed.
        """
        for name in self._handles:
            with self._own_family(name) as family:
                if family is None:
                    return False
                if (family.property_int_value("rocksdb.num-files-at-level0") or 0) < FILES_MAX:
                    continue
                try:
                    family.compact_range(None, None)
                except Exception:
                    if self._closed:
                        return False
                    raise
        return not self._closed

    def properties(self) -> dict[str, dict[str, int]]:
        """What RocksDB says of each column family, by name: see `PROPERTIES`."""
        return {
            name: {word: family.property_int_value(f"rocksdb.{word}") or 0 for word in PROPERTIES}
            for name, family in self._families.items()
        }

    def disk_bytes(self) -> dict[str, int]:
        """Bytes of SST files by column family; what is not flushed yet is in the write-ahead log alone."""
        return {
            name: family.property_int_value("rocksdb.total-sst-files-size") or 0
            for name, family in self._families.items()
        }

    def stored_bytes(self) -> int:
        """Bytes of SST files and write-ahead logs."""
        return sum(self.disk_bytes().values()) + self.wal_bytes()

    def number_of(self, name: str) -> int:
        """One of RocksDB's numbers for the database as a whole, such as `num-running-compactions` (0.5 us).

        It is asked for the default column family: RocksDB counts `background-errors` there, whichever family they met.
        """
        return self._db.property_int_value(f"rocksdb.{name}") or 0

    def wal_bytes(self) -> int:
        """Bytes of the write-ahead logs."""
        size = 0
        for log in self.path.glob("*.log"):
            with suppress(FileNotFoundError):  # RocksDB has just removed it
                size += log.stat().st_size
        return size

    def sameness(self) -> Callable[[], bool]:
        """By what RocksDB writes into a directory when it makes a database there, and never again."""
        return same_database(self.path)

    def created_s(self) -> float | None:
        """Likewise."""
        return created_s(self.path)

    def close(self) -> None:
        """Close every handle; iterators that scans still hold keep the lock until they are gone.

        Raises:
            OSError: one could not be closed, as after a failed write; all the others are closed.
        """
        self._closed = True
        self._forget_iterators()
        self._handles = {}
        failures = [text for family in self._families.values() if (text := close_failure(family.close))]
        self._families = {}
        breaks_off = bool(self._owned)  # now: the thread gives its handle back while the database is closed
        if breaks_off:
            # All is flushed. RocksDB ends the compaction in its thread at once, which then lets go of the lock.
            self._db.cancel_all_background(wait=False)
        text = close_failure(self._db.close)
        if text and not breaks_off:
            failures.append(text)
        if failures:
            raise OSError(f"{self.path} was not closed well: {failures[0]}")

    def _forget_iterators(self) -> None:
        stale, self._idle = self._idle, defaultdict(Idle)
        for idle in stale.values():
            idle.is_stale = True

    @contextmanager
    def _own_family(self, name: str) -> Iterator[Rdict | None]:
        """A handle of its own for a thread, so that `close` never meets one that is borrowed; None when it was closed.

        RocksDB keeps its lock as long as one of these is open.
        """
        try:
            family = self._db.get_column_family(name)
        except Exception:
            if not self._closed:
                raise
            yield None
            return
        self._owned.append(family)
        try:
            yield family
        finally:
            text = close_failure(family.close)
            self._owned.remove(family)
            if text and not self._closed:
                message = f"{self.path}: {name} could not be flushed: {text}"
                raise OSError(message)


def _put_all(batch: WriteBatch, records: dict[bytes, bytes | None]) -> int:
    """Put records into a batch, many of them in the order of their keys. Returns how many it deletes."""
    if (hot := native.chosen()) is not None:
        count: int = hot.put_all(batch, records, _SORTED_FROM)
        return count
    if len(records) >= _SORTED_FROM_IN_PYTHON:
        records = {key: records[key] for key in sorted(records)}
    deleted = 0
    for key, value in records.items():
        if value is None:
            del batch[key]
            deleted += 1
        else:
            batch[key] = value
    return deleted


def _up_to(end: bytes) -> ReadOptions:
    """Lets RocksDB itself end a scan at `end`, without crossing the tombstones behind it (0.12 us each)."""
    read_options = ReadOptions()
    read_options.set_iterate_upper_bound(end)
    return read_options


def _sweep(family: Rdict, start: bytes, end: bytes | None) -> Sweep:
    bound = ReadOptions() if end is None else _up_to(end)
    return cast("Any", family.items(from_key=start, read_opt=bound)), family.iter(bound), bound


def stored_families(path: Path) -> frozenset[str]:
    """The column families of the database in a directory; none where there is no database, or it cannot be told."""
    try:
        return frozenset(Rdict.list_cf(str(path)))
    except Exception:  # noqa: BLE001 - rocksdict raises nothing else; whoever opens it hears why
        return frozenset()

"""The options and the memory that every partition's RocksDB is opened with, for a service and for a rebuild.

All of them are passed at each open, as rocksdict asks for: what is left out goes back to RocksDB's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    WriteBufferManager,
)

from engine.store.store import DEDUP_CF, EXPIRY_CF, GRAVEYARD_CF, SHARED_CFS

_MIB: Final = 1024 * 1024
# Of what is asked for a key before it is put: each of its files is asked, too, so they are to be few and large.
_MEMTABLE_BYTES: Final = 32 * _MIB
# Of elements: on a put's way through a large skip list each step misses the processor's caches. So files are smaller,
# and twice as many of them are compacted at once. Measured, quiet machine, by 16, CPU time of the whole process with
# compactions: HSETs of new fields 4.6 us instead of 5.2 with 32 MiB and four files, LPUSH 3.2 instead of 2.8 to 2.9. A
# HGET of what is in no memory takes 3.5 us instead of 3.3. With 16 files a HGET takes 4.3.
_ELEMENT_MEMTABLE_BYTES: Final = 8 * _MIB
_SMALL_FILES: Final = 8
# About as many bytes of them as of large ones may be behind with their compaction before a write is refused: with
# RocksDB's own 20 files 50 to 170 of 2.5 million pairs of 100 bytes were, written as fast as can be, none with these.
_SMALL_FILES_SLOW: Final = 64
_SMALL_FILES_MAX: Final = 96
# A million keys that are due at one TICK die in one millisecond, through which each reclaiming slice walks from its
# beginning: over tombstones, as many as the memtable holds. Measured: 5 to 10 ms with 4 MiB, 35 with 32.
_GRAVEYARD_MEMTABLE_BYTES: Final = 2 * _MIB
# A record of a sorted set's order goes anywhere among its others. Measured likewise, ZADD to a set of 100,000 members:
# 11.0 us instead of 11.6 with 8 MiB and four files, of 600,000 11.7 instead of 15.4, of up to 3 million 13.9 instead of
# 15.3; half of the batches took 15 to 25 % less time. With 4 MiB and four files 600,000 take 16.5: each file is
# compacted with all of them. A range of ten scores that are in no memory takes 9.8 us instead of 8.2.
_SCATTERED_MEMTABLE_BYTES: Final = 4 * _MIB
# More of them than two may wait to be flushed, so that small ones do not refuse a write sooner.
_SMALL_MEMTABLES: Final = 4
# Each key with a time to live writes an entry and deletes it, so this one fills as fast as the metadata of small keys.
# Measured, 20,000 keys a second that live for 2 s, busy machine: with 8 MiB instead of 32 the process took 148 to 188
# MB instead of 163 to 248, for 36.2 s of CPU time instead of 35.8 in 50 s.
_EXPIRY_MEMTABLE_BYTES: Final = 8 * _MIB
# A filter of a memtable says that a key is not in it, where the way through its skip list ends at nothing: 0.3 us
# instead of 1.1 to 1.5, and the put behind it takes 0.1 to 0.4 more, as it finds none of the way in the processor's
# caches. Measured, CPU us an event, compiled, three runs in turns: 3.7 and 3.2 of the flights stream, whose events have
# ids, 2.0 and 1.8 of a SET. It takes its memory when the memtable is made, and there are two: 0.26 MB for a service.
_MEMTABLE_FILTER_BYTES: Final = 128 * 1024
_MEMTABLE_FILTER_BYTES_MIN: Final = 8 * 1024  # of many partitions: below it a filter says nothing
_BULK_MEMTABLE_BYTES: Final = 64 * _MIB
_BULK_MEMTABLES: Final = 4
_BULK_FILES: Final = 16
_BULK_FILTER_PART: Final = 1 / 64  # of a memtable
_NEVER: Final = 1 << 30

FILES_MAX: Final = 4
"""So many files of flushed memtables, in one column family, are compacted: RocksDB's own default. Of elements it is
eight, but what a rebuild has put off is compacted from these on, in every column family.
"""

_COUNT: Final = re.compile(r"^(rocksdb\.\S+) COUNT : (\d+)$", re.MULTILINE)


class SharedMemory:
    """The memory of all partitions of a process: one block cache, one budget for memtables.

    Without it each of 64 partitions would bring its own 8 MiB cache and its own 64 MiB of memtables per column family.

    Args:
        cache_bytes: blocks, index and filter blocks of all partitions.
        memtable_bytes: when all memtables together exceed it, the largest is flushed.
        stores: how many share it: each has its part of what filters of memtables take.

    Attributes:
        options: of every database, once one was opened.
        filter_bytes: what the filter of one memtable takes.
    """

    def __init__(self, cache_bytes: int = 256 * _MIB, memtable_bytes: int = 256 * _MIB, stores: int = 1) -> None:
        self.cache = Cache(cache_bytes)
        # allow_stall=False: a full budget starts a flush, it never blocks a writer that holds the GIL.
        self.write_buffers = WriteBufferManager(memtable_bytes, allow_stall=False)
        self.stores = max(1, stores)
        self.filter_bytes = _MEMTABLE_FILTER_BYTES // max(1, stores)
        self.options: Options | None = None

    def counts(self) -> dict[str, int]:
        """What RocksDB has counted in all databases since the start, by its name, such as `rocksdb.block.cache.hit`."""
        text = self.options.get_statistics() if self.options is not None else ""
        return {name: int(count) for name, count in _COUNT.findall(text or "")}


def database_options(memory: SharedMemory) -> Options:
    """The options of every partition's database. Public for the benchmarks, whose floor uses the same.

    One object for all, as RocksDB counts where its options are.
    """
    if memory.options is not None:
        return memory.options
    options = memory.options = Options(raw_mode=True)
    options.enable_statistics()  # measured: no difference to a get or a write
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_manager(memory.write_buffers)
    # Two cores: one flush and one compaction beside the writer.
    options.set_max_background_jobs(2)
    # A column family of counters asks for it. There is one writer: no difference was measured.
    options.set_allow_concurrent_memtable_write(False)
    # Many small column families share one WAL; without a bound an idle one would keep all of it.
    options.set_max_total_wal_size(128 * _MIB)
    options.set_keep_log_file_num(4)
    options.set_max_log_file_size(4 * _MIB)
    return options


def options_of_families(
    memory: SharedMemory,
    names: Collection[str],
    scattered: Collection[str] = (),
    counters: Collection[str] = (),
    looked_up: Collection[str] = (),
    *,
    bulk: bool = False,
) -> dict[str, Options]:
    """The options of each column family, by name. Public as `database_options` is.

    Args:
        memory: of the process.
        names: beside RocksDB's own, `default`.
        scattered: those of them whose records are written anywhere among each other.
        counters: those of them whose values are of one size and replaced all the time, see `RocksStore`.
        looked_up: those of them that are asked for keys before they are put: their memtables, and ids', have filters
            and are large; those of all other families of a layout are small.
        bulk: for a state that is built from nothing, see `_for_bulk`.
    """
    families = {name: _of_family(memory) for name in ("default", *names)}
    if bulk:
        for options in families.values():
            _for_bulk(options)
    else:
        families[GRAVEYARD_CF].set_write_buffer_size(_GRAVEYARD_MEMTABLE_BYTES)
        elements = [name for name in names if name not in looked_up and name not in SHARED_CFS]
        sizes = dict.fromkeys(elements, _ELEMENT_MEMTABLE_BYTES) | dict.fromkeys(scattered, _SCATTERED_MEMTABLE_BYTES)
        for name in sizes:
            families[name].set_level_zero_file_num_compaction_trigger(_SMALL_FILES)
            families[name].set_level_zero_slowdown_writes_trigger(_SMALL_FILES_SLOW)
            families[name].set_level_zero_stop_writes_trigger(_SMALL_FILES_MAX)
        for name, size in (sizes | {EXPIRY_CF: _EXPIRY_MEMTABLE_BYTES}).items():
            families[name].set_write_buffer_size(size)
            families[name].set_max_write_buffer_number(_SMALL_MEMTABLES)
    for name in counters:
        families[name].set_inplace_update_support(True)
    if memory.filter_bytes >= _MEMTABLE_FILTER_BYTES_MIN:
        part = memory.filter_bytes / _MEMTABLE_BYTES if not bulk else _BULK_FILTER_PART
        for name in dict.fromkeys((*looked_up, DEDUP_CF)):
            families[name].set_memtable_whole_key_filtering(True)
            families[name].set_memtable_prefix_bloom_ratio(part)
    return families


def _for_bulk(options: Options) -> None:
    """Put compactions off until the end: a rebuild would write most records of a large state several times.

    What is not compacted is looked for in each file, so a very large state is compacted on the way, too.
    """
    options.set_write_buffer_size(_BULK_MEMTABLE_BYTES)
    options.set_max_write_buffer_number(_BULK_MEMTABLES)
    options.set_level_zero_file_num_compaction_trigger(_BULK_FILES)
    options.set_level_zero_slowdown_writes_trigger(_NEVER)
    options.set_level_zero_stop_writes_trigger(_NEVER)
    options.set_soft_pending_compaction_bytes_limit(0)  # none
    options.set_hard_pending_compaction_bytes_limit(0)


def _of_family(memory: SharedMemory) -> Options:
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
    options.set_write_buffer_size(_MEMTABLE_BYTES)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    # A file full of tombstones (what was expired, reclaimed, forgotten) is compacted as soon as it is written, not when
    # three more of its kind are there. Measured with 20,000 keys a second that live for 2 s: after 30 s and a flush 0.8
    # MB are left against 10.5 without it, for the same CPU time; files with few deletions are left alone.
    options.add_compact_on_deletion_collector_factory(1000, 500, 0.5)
    return options

"""Storage: what takes room on the disk, whether cleaning keeps up, how RocksDB does."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.build.frame import Row, dashboard
from dashboards.build.panels import graph
from dashboards.build.queries import each, growth, highest, quantiles, rate, series

_WHERE: Final = ("instance", "partition")
_LEGEND: Final = "{{instance}} {{partition}}"
_OLDEST_GRAVE: Final = series("slotlog_oldest_grave_timestamp_seconds")


def storage() -> Dashboard:
    """For full disks, orphans that stay, slow writes."""
    return dashboard(
        "storage",
        "Disk by column family, expiry and reclaim of what died, RocksDB's compactions and cache, snapshots.",
        [_disk(), _expiry(), _reclaim(), _compaction(), _writes(), _cache(), _snapshots()],
    )


def _disk() -> Row:
    return "Disk", [
        graph(
            "Tables by column family",
            "RocksDB's table files, obsolete ones included, over all partitions that are chosen.",
            "bytes",
            (each("slotlog_disk_bytes", "column_family"), "{{column_family}}"),
            stacked=True,
        ),
        graph(
            "Tables by partition",
            "RocksDB's table files, obsolete ones included.",
            "bytes",
            (each("slotlog_disk_bytes", *_WHERE), _LEGEND),
            stacked=True,
        ),
        graph(
            "Disk free",
            "Of the data directory's disk: free now, and in four hours if the last hour goes on.",
            "bytes",
            (each("slotlog_disk_free_bytes", "instance"), "{{instance}}"),
            (each("instance:slotlog_disk_free_bytes:predicted_4h", "instance"), "in 4 h {{instance}}"),
        ),
        graph(
            "What the bytes are",
            "data: what a full compaction would leave, by RocksDB's estimate. live: files in use. all: obsolete files, "
            "too, which go when nobody reads them any more. WAL: write-ahead logs.",
            "bytes",
            (each("slotlog_live_data_bytes"), "data"),
            (each("slotlog_disk_live_bytes"), "live"),
            (each("slotlog_disk_bytes"), "all"),
            (each("slotlog_wal_bytes"), "WAL"),
        ),
        graph(
            "Records by column family",
            "RocksDB's estimate of the records stored, those of dead collections included.",
            "short",
            (each("slotlog_stored_records", "column_family"), "{{column_family}}"),
            stacked=True,
        ),
        graph(
            "Keys by type",
            "Keys of all databases, due ones included until they are cleaned up.",
            "short",
            (each("slotlog_keys", "type"), "{{type}}"),
            stacked=True,
        ),
    ]


def _expiry() -> Row:
    return "Expiry", [
        graph(
            "Expiry behind",
            "How long the first due key or field waits to be removed. No read finds it meanwhile.",
            "s",
            (highest("slotlog_expiry_behind_seconds", *_WHERE), _LEGEND),
        ),
        graph(
            "Keys due",
            "Keys that are due, or have fields that are, and wait to be removed; not counted beyond 1,000 a partition.",
            "short",
            (each("slotlog_expiry_due_keys", *_WHERE), _LEGEND),
        ),
        graph(
            "Expired",
            "Keys, and fields of hashes, removed in a second because their time had come.",
            "ops",
            (rate("slotlog_expired_keys_total"), "keys"),
            (rate("slotlog_expired_fields_total"), "fields"),
        ),
        graph(
            "Forgotten",
            "Idempotency keys and watches past their window removed in a second.",
            "ops",
            (rate("slotlog_forgotten_records_total", *_WHERE), _LEGEND),
        ),
    ]


def _reclaim() -> Row:
    return "Reclaim", [
        graph(
            "Dead collections",
            "Collections deleted, overwritten or expired whose elements still take room, by RocksDB's estimate.",
            "short",
            (each("slotlog_graves", *_WHERE), _LEGEND),
        ),
        graph(
            "Age of the oldest dead collection",
            "For how long it has waited to be reclaimed. No data while there is none.",
            "s",
            (f"time() - min by (instance, partition) ({_OLDEST_GRAVE})", _LEGEND),
        ),
        graph(
            "Reclaimed",
            "Records of dead collections removed in a second, and dead collections of which nothing is left.",
            "ops",
            (rate("slotlog_reclaimed_records_total"), "records"),
            (rate("slotlog_reclaimed_graves_total"), "collections"),
        ),
        graph(
            "Stretches to compact",
            "Stretches of column families noted for compaction, which gives the room of removed records back.",
            "none",
            (each("slotlog_compaction_ranges_waiting", *_WHERE), "waiting " + _LEGEND),
        ),
        graph(
            "Stretches compacted",
            "In the interval of a point.",
            "none",
            (growth("slotlog_compacted_ranges_total", *_WHERE), _LEGEND),
        ),
        graph(
            "Cleaning's hold on the event loop",
            "Time of one slice: no client gets an answer meanwhile.",
            "s",
            *quantiles("slotlog_cleaning_seconds"),
        ),
    ]


def _compaction() -> Row:
    return "RocksDB: compaction", [
        graph(
            "Compaction pending",
            "Estimate of what compactions have to rewrite. Writes are slowed down when it stays high.",
            "bytes",
            (each("slotlog_compaction_pending_bytes", *_WHERE), _LEGEND),
        ),
        graph(
            "Files at level 0",
            "Of the column family that has the most; many slow writes and reads down.",
            "none",
            (highest("slotlog_level0_files", *_WHERE), _LEGEND),
        ),
        graph(
            "Flushes and compactions at work",
            "Over all partitions of a process.",
            "none",
            (each("slotlog_flushes_running", "instance"), "flushes {{instance}}"),
            (each("slotlog_compactions_running", "instance"), "compactions {{instance}}"),
        ),
        graph(
            "Bytes flushed and compacted",
            "Written by flushes and compactions, read by compactions, in a second.",
            "Bps",
            (rate("slotlog_flush_written_bytes_total", "instance"), "flushed {{instance}}"),
            (rate("slotlog_compaction_written_bytes_total", "instance"), "written {{instance}}"),
            (rate("slotlog_compaction_read_bytes_total", "instance"), "read {{instance}}"),
        ),
        graph(
            "Failed flushes and compactions",
            "In the interval of a point. One is enough to look into.",
            "none",
            (growth("slotlog_rocksdb_background_errors_total", *_WHERE), _LEGEND),
        ),
    ]


def _writes() -> Row:
    return "RocksDB: writes", [
        graph(
            "Writers held",
            "Share of the time that RocksDB made writers wait.",
            "percentunit",
            (rate("slotlog_write_stall_seconds_total", "instance"), "{{instance}}"),
        ),
        graph(
            "Partitions with writes stopped",
            "Partitions that RocksDB takes no writes for: compactions are too far behind.",
            "none",
            (each("slotlog_write_stopped", "instance"), "{{instance}}"),
        ),
        graph(
            "Writes slowed down to",
            "Bytes per second that RocksDB allows a partition to write; 0 while it does not limit them.",
            "Bps",
            (each("slotlog_delayed_write_bytes_per_second", *_WHERE), _LEGEND),
        ),
        graph(
            "Memtables",
            "Bytes of all memtables of a process, and how many they may be before the largest is flushed.",
            "bytes",
            (each("slotlog_memtable_bytes", "instance"), "{{instance}}"),
            (each("slotlog_memtable_budget_bytes", "instance"), "budget {{instance}}"),
        ),
        graph(
            "Memtables to flush",
            "That are full and wait.",
            "none",
            (each("slotlog_memtables_immutable", *_WHERE), _LEGEND),
        ),
    ]


def _cache() -> Row:
    hits, misses = (
        rate("slotlog_block_cache_hits_total", "instance"),
        rate("slotlog_block_cache_misses_total", "instance"),
    )
    return "Block cache", [
        graph(
            "Hit ratio",
            "Share of the blocks asked for that were in the cache.",
            "percentunit",
            (f"{hits} / ({hits} + {misses})", "{{instance}}"),
        ),
        graph(
            "Blocks",
            "Found in the cache and read from files, in a second.",
            "ops",
            (hits, "hits {{instance}}"),
            (misses, "misses {{instance}}"),
        ),
        graph(
            "Keys in memory",
            "Bytes of recently used keys, their elements and rank counts, and how many they may be.",
            "bytes",
            (each("slotlog_keys_held_bytes", "instance", "what"), "{{what}} {{instance}}"),
            (each("slotlog_keys_held_budget_bytes", "instance"), "budget {{instance}}"),
        ),
        graph(
            "Keys held",
            "How many keys are in memory between batches.",
            "short",
            (each("slotlog_keys_held", "instance"), "{{instance}}"),
        ),
        graph(
            "Size",
            "Bytes in the cache, those of them in use, and the size that it may have.",
            "bytes",
            (each("slotlog_block_cache_bytes", "instance"), "{{instance}}"),
            (each("slotlog_block_cache_pinned_bytes", "instance"), "in use {{instance}}"),
            (each("slotlog_block_cache_capacity_bytes", "instance"), "capacity {{instance}}"),
        ),
    ]


def _snapshots() -> Row:
    taken = series("slotlog_snapshot_timestamp_seconds")
    applied, kept = highest("slotlog_next_offset", *_WHERE), highest("slotlog_snapshot_next_offset", *_WHERE)
    return "Snapshots", [
        graph(
            "Age of the newest snapshot",
            "Of those that are verified. 0: none is known to the process.",
            "s",
            (f"max by (instance, partition) ((time() - {taken}) * ({taken} > bool 0))", _LEGEND),
        ),
        graph(
            "Events since the newest snapshot",
            "What a restore would have to apply from the log.",
            "short",
            (f"{applied} - {kept}", _LEGEND),
        ),
        graph(
            "Snapshots",
            "Taken and verified, failed, and restored, in the interval of a point; failing: the last attempt failed.",
            "short",
            (growth("slotlog_snapshots_taken_total", *_WHERE), f"taken {_LEGEND}"),
            (growth("slotlog_snapshots_failed_total", *_WHERE), f"failed {_LEGEND}"),
            (growth("slotlog_snapshots_restored_total", *_WHERE), f"restored {_LEGEND}"),
            (highest("slotlog_snapshots_failing", *_WHERE), f"failing {_LEGEND}"),
        ),
        graph(
            "Bytes of snapshots",
            "All files of the last one, and what was uploaded in a second.",
            "bytes",
            (each("slotlog_snapshot_size_bytes", *_WHERE), _LEGEND),
            (rate("slotlog_snapshots_uploaded_bytes_total", *_WHERE), f"uploaded/s {_LEGEND}"),
        ),
        graph(
            "Time of a snapshot",
            "Of the last one: from the checkpoint to the verification, and the pause of the event loop in it.",
            "s",
            (highest("slotlog_snapshot_seconds", *_WHERE), _LEGEND),
            (highest("slotlog_snapshot_pause_seconds", *_WHERE), f"pause {_LEGEND}"),
        ),
        graph(
            "Restore",
            "Bytes that are fetched, and all of them; waiting: 1 while the store of snapshots is away.",
            "bytes",
            (each("slotlog_restore_done_bytes", *_WHERE), f"fetched {_LEGEND}"),
            (each("slotlog_restore_total_bytes", *_WHERE), f"all {_LEGEND}"),
            (highest("slotlog_restore_waiting", *_WHERE), f"waiting {_LEGEND}"),
        ),
    ]

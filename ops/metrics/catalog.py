"""The closed list of metrics, `CATALOG`. `docs/metrics.md` is generated from it.

Names follow https://prometheus.io/docs/practices/naming/: one prefix, base units, `_total` for counters, times as
`_timestamp_seconds`. What a client can make up (a key, a value, a name, an address) is in no label.
"""

from __future__ import annotations

from typing import Final

from ops.metrics.changes import CHANGES
from ops.metrics.record import DUE_KEYS_MAX, Metric, MetricKind
from ops.metrics.snapshots import SNAPSHOTS
from ops.metrics.stall import STALL_SECONDS
from ops.metrics.workers import GROUP, WORKERS
from slotlog.distribution import APPEND_SECONDS, APPLY_SECONDS, REQUEST_SECONDS

_BATCH: Final = "once a batch"
_LOG: Final = "once an append"
_WATCH: Final = "every 2 s"
_CLEANING: Final = "once a slice of cleaning"
_GROUP: Final = "once for all writes that are appended together"
_READ: Final = "once for all that one read of a socket brings"
_SCRAPE: Final = "read at each scrape"
_FILE: Final = "`slotlog replay --metrics-file`, every 5 s"
_CLIENT: Final = "prometheus_client, at each scrape"

LATENCY_SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025),
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    60.0,
    300.0,
    3600.0,
)
BATCH_RECORDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)

_PARTITION: Final = ("partition",)
_FAMILY: Final = ("partition", "column_family")
_HELD: Final = ("partition", "what")


def _counter(name: str, text: str, unit: str, labels: tuple[str, ...], source: str, needs: str = "") -> Metric:
    return Metric(f"slotlog_{name}_total", MetricKind.COUNTER, text, unit, labels, source, needs=needs)


def _gauge(name: str, text: str, unit: str, labels: tuple[str, ...], source: str, needs: str = "") -> Metric:
    return Metric(f"slotlog_{name}", MetricKind.GAUGE, text, unit, labels, source, needs=needs)


def _gauge_of_all(name: str, text: str, unit: str, source: str) -> Metric:
    """One whose value all processes of a service share."""
    return Metric(f"slotlog_{name}", MetricKind.GAUGE, text, unit, (), source, of_all=True)


def _histogram(name: str, text: str, unit: str, buckets: tuple[float, ...], source: str, needs: str = "") -> Metric:
    return Metric(f"slotlog_{name}", MetricKind.HISTOGRAM, text, unit, (), source, buckets, needs)


_EVENTS: Final = (
    _counter("events_applied", "Events applied, rejected ones included.", "events", _PARTITION, _BATCH),
    _counter("events_rejected", "Commands that answered with an error.", "commands", _PARTITION, _BATCH),
    _counter("events_dead_lettered", "Records that can never be applied.", "records", _PARTITION, _BATCH),
    _counter("events_duplicate", "Events skipped by their idempotency key.", "events", _PARTITION, _BATCH),
    _counter("events_skipped", "Records that an operator decided to go past.", "records", _PARTITION, _BATCH),
    _counter("events_applied_bytes", "Bytes of records, dead letters included.", "bytes", _PARTITION, _BATCH),
    _counter("commands_applied", "Commands applied, those of transactions included.", "commands", ("command",), _BATCH),
    _counter("commands_rejected", "Commands that answered with an error.", "commands", ("command",), _BATCH),
    _counter(
        "family_commands_applied",
        "Commands applied by their family, those of transactions included.",
        "commands",
        ("partition", "family"),
        _BATCH,
    ),
    _histogram("batch_records", "Records in a batch.", "records", BATCH_RECORDS, _BATCH),
    _histogram("batch_apply_seconds", "Time to apply and write a batch.", "seconds", APPLY_SECONDS, _BATCH),
    _histogram(
        "event_latency_seconds",
        "Time from an event's record time to its commit; each counts as the oldest of its batch.",
        "seconds",
        LATENCY_SECONDS,
        _BATCH,
    ),
    _gauge(
        "lag_events",
        "Records in the log that are not applied, by its last answer; no series before the first. What an open "
        "transaction holds up is not counted.",
        "records",
        _PARTITION,
        _WATCH,
    ),
    _gauge(
        "lag_seconds",
        "Age of the last applied record while behind, else 0; while the lag is not known, also the time since the last "
        "answer, or since the start.",
        "seconds",
        _PARTITION,
        _WATCH,
    ),
    _gauge(
        "lag_known",
        "1 while the log's last answer is 15 s old at most, 0 while it is older or there was none.",
        "0 or 1",
        _PARTITION,
        _SCRAPE,
    ),
    _gauge("next_offset", "First record not applied.", "offset", _PARTITION, _SCRAPE),
    _gauge("clock_timestamp_seconds", "Log time of the partition.", "seconds", _PARTITION, _SCRAPE),
)

_PARTITIONS: Final = (
    _gauge("ready", "1 while `/readyz` answers 200.", "0 or 1", (), _SCRAPE),
    _gauge(
        "partition_running",
        "1 while the partition is applied, 0 while it is set aside.",
        "0 or 1",
        _PARTITION,
        "at each change",
    ),
    _gauge(
        "partition_condition",
        "1 for the condition that the partition is in, 0 for the others.",
        "0 or 1",
        ("partition", "condition"),
        "at each change",
    ),
    _gauge("partition_owners", "Workers that say that they apply the partition.", "workers", _PARTITION, _WATCH),
    _gauge_of_all(
        "partitions_unowned",
        "Partitions of the topic that no worker says to apply; no series while that is not known, at first for 15 s.",
        "partitions",
        _WATCH,
    ),
    _gauge(
        "state_created_timestamp_seconds",
        "When the partition's state directory was made.",
        "seconds",
        _PARTITION,
        _SCRAPE,
    ),
    _gauge("keys", "Keys, due ones included until they are cleaned up.", "keys", ("partition", "db", "type"), _SCRAPE),
)

_LOGS: Final = (
    _histogram("log_append_seconds", "Time until an append is durable.", "seconds", APPEND_SECONDS, _LOG),
    _counter("log_appended_records", "Records appended by this process.", "records", (), _LOG),
    _counter("log_append_errors", "Appends that failed.", "appends", ("outcome",), _LOG),
    _gauge(
        "log_append_failing",
        "1 while the process's last append to the partition failed, or has not been acknowledged for 10 s.",
        "0 or 1",
        _PARTITION,
        _SCRAPE,
    ),
    _gauge(
        "log_held_up_seconds",
        "How long a producer's open transaction has kept what is in the log from being read, else 0. Above 10 the "
        "partition is not ready.",
        "seconds",
        _PARTITION,
        _WATCH,
    ),
    _gauge(
        "log_begin_offset",
        "First record that the log still has. Above 0 it was cut: a state is built again from a snapshot.",
        "offset",
        _PARTITION,
        "every `identity_check_seconds`",
    ),
    _gauge_of_all(
        "topic_settings_wrong",
        "Settings of the topic, and of that of its dead letters, with which a start would be refused.",
        "settings",
        "every `identity_check_seconds`",
    ),
    _gauge_of_all(
        "log_disk_bytes",
        "Bytes of the log: the files of the embedded one; of a topic all partitions, one replica of each.",
        "bytes",
        "read at each scrape; from Kafka every minute",
    ),
    _gauge_of_all(
        "log_warn_bytes", "The setting `log_bytes_warn`: a log larger than that is an alert.", "bytes", _SCRAPE
    ),
    _counter("log_scrubbed_bytes", "Bytes of the embedded log held against checksums.", "bytes", (), _SCRAPE, "sqlite"),
    _gauge(
        "log_damages",
        "Records and dead letters of the embedded log that the last round of the scrub found damaged, or more by now.",
        "records",
        (),
        _SCRAPE,
        "sqlite",
    ),
    _gauge(
        "log_scrub_end_timestamp_seconds",
        "When the last round of the scrub ended; no series before the first.",
        "seconds",
        (),
        _SCRAPE,
        "sqlite",
    ),
)

_STORAGE: Final = (
    _gauge("disk_bytes", "Bytes of RocksDB's table files, obsolete ones included.", "bytes", _FAMILY, _SCRAPE),
    _gauge("disk_live_bytes", "Bytes of the table files that are not obsolete.", "bytes", _FAMILY, _SCRAPE),
    _gauge(
        "live_data_bytes",
        "RocksDB's estimate of the bytes that a full compaction would leave.",
        "bytes",
        _FAMILY,
        _SCRAPE,
    ),
    _gauge("stored_records", "RocksDB's estimate of the records stored.", "records", _FAMILY, _SCRAPE),
    _gauge("wal_bytes", "Bytes of RocksDB's write-ahead logs.", "bytes", _PARTITION, _SCRAPE),
    _gauge_of_all("disk_free_bytes", "Bytes free on the disk of the data directory.", "bytes", _SCRAPE),
    _gauge_of_all("disk_size_bytes", "Size of the disk of the data directory.", "bytes", _SCRAPE),
    _gauge("memtable_bytes", "Bytes of RocksDB's memtables.", "bytes", _PARTITION, _SCRAPE),
    _gauge("memtables_immutable", "Memtables that wait to be flushed.", "memtables", _PARTITION, _SCRAPE),
    _gauge(
        "memtable_budget_bytes",
        "Bytes that all memtables of the process may take before the largest is flushed.",
        "bytes",
        (),
        _SCRAPE,
    ),
    _gauge(
        "level0_files", "Most level-0 files of a column family; many slow writes down.", "files", _PARTITION, _SCRAPE
    ),
    _gauge("compaction_pending_bytes", "Estimate of what compactions have to rewrite.", "bytes", _PARTITION, _SCRAPE),
    _gauge("compactions_running", "Compactions at work.", "compactions", _PARTITION, _SCRAPE),
    _gauge("flushes_running", "Flushes at work.", "flushes", _PARTITION, _SCRAPE),
    _gauge("write_stopped", "1 while RocksDB takes no writes.", "0 or 1", _PARTITION, _SCRAPE),
    _gauge(
        "delayed_write_bytes_per_second",
        "Rate to which RocksDB slows writes down; 0 while it does not.",
        "bytes per second",
        _PARTITION,
        _SCRAPE,
    ),
    _counter(
        "rocksdb_background_errors", "Failed flushes and compactions since the start.", "errors", _PARTITION, _SCRAPE
    ),
    _counter("write_stall_seconds", "Time that writers were held by RocksDB.", "seconds", (), _SCRAPE),
    _gauge("block_cache_bytes", "Bytes in the block cache of all partitions.", "bytes", (), _SCRAPE),
    _gauge("block_cache_pinned_bytes", "Those of them that are in use.", "bytes", (), _SCRAPE),
    _gauge("block_cache_capacity_bytes", "Size of the block cache.", "bytes", (), _SCRAPE),
    _gauge("keys_held", "Keys that stay in memory between batches.", "keys", _PARTITION, _SCRAPE),
    _gauge("keys_held_bytes", "What they, their elements, rank counts and listings take.", "bytes", _HELD, _SCRAPE),
    _gauge("keys_held_budget_bytes", "What they may take together.", "bytes", _PARTITION, _SCRAPE),
    _counter("block_cache_hits", "Blocks found in the cache.", "blocks", (), _SCRAPE),
    _counter("block_cache_misses", "Blocks read from a file.", "blocks", (), _SCRAPE),
    _counter("flush_written_bytes", "Bytes written by flushes.", "bytes", (), _SCRAPE),
    _counter("compaction_read_bytes", "Bytes read by compactions.", "bytes", (), _SCRAPE),
    _counter("compaction_written_bytes", "Bytes written by compactions.", "bytes", (), _SCRAPE),
)

_CLEANED: Final = (
    _counter("expired_keys", "Keys removed because their time had come.", "keys", _PARTITION, _CLEANING),
    _counter(
        "expired_fields", "Fields removed from hashes because their time had come.", "fields", _PARTITION, _CLEANING
    ),
    _counter("reclaimed_graves", "Dead collections of which nothing is left.", "collections", _PARTITION, _CLEANING),
    _counter("reclaimed_records", "Records of dead collections removed.", "records", _PARTITION, _CLEANING),
    _counter("compacted_ranges", "Stretches compacted to give their space back.", "ranges", _PARTITION, _CLEANING),
    _counter(
        "forgotten_records", "Idempotency keys and watches past their window removed.", "records", _PARTITION, _CLEANING
    ),
    _gauge(
        "expiry_due_keys",
        f"Keys that are due, or have fields that are, and still stored; not counted beyond {DUE_KEYS_MAX}.",
        "keys",
        _PARTITION,
        _SCRAPE,
    ),
    _gauge("expiry_behind_seconds", "How long the first due key or field waits.", "seconds", _PARTITION, _SCRAPE),
    _gauge(
        "oldest_grave_timestamp_seconds",
        "When the oldest dead collection died that is not reclaimed; no series while there is none.",
        "seconds",
        _PARTITION,
        _CLEANING,
    ),
    _gauge("graves", "Estimate of the dead collections that are not reclaimed.", "collections", _PARTITION, _SCRAPE),
    _gauge("compaction_ranges_waiting", "Stretches noted for compaction.", "ranges", _PARTITION, _CLEANING),
    _histogram(
        "cleaning_seconds", "Time that a slice of cleaning held the event loop.", "seconds", APPLY_SECONDS, _CLEANING
    ),
)

_CLIENTS: Final = (
    _gauge("resp_clients", "Connected clients.", "clients", (), _SCRAPE, "resp"),
    _gauge("resp_blocked_clients", "Clients that wait for an element.", "clients", (), _SCRAPE, "resp"),
    _gauge("resp_pending_writes", "Writes taken and not answered.", "writes", _PARTITION, _SCRAPE, "resp"),
    _counter("resp_connections", "Connections accepted.", "connections", (), _SCRAPE, "resp"),
    _counter("resp_connections_rejected", "Connections turned away.", "connections", (), _SCRAPE, "resp"),
    _counter("resp_clients_cut_off", "Clients cut off at a buffer's limit.", "clients", ("buffer",), _SCRAPE, "resp"),
    _counter("resp_commands", "Commands that ran.", "commands", ("command",), _SCRAPE, "resp"),
    _counter("resp_command_seconds", "Time that they took to run.", "seconds", ("command",), _SCRAPE, "resp"),
    _counter("resp_commands_failed", "Those that answered with an error.", "commands", ("command",), _SCRAPE, "resp"),
    _counter("resp_commands_refused", "Commands refused before they ran.", "commands", ("command",), _SCRAPE, "resp"),
    _counter("resp_errors", "Error replies by their code.", "replies", ("code",), _SCRAPE, "resp"),
    _counter("resp_received_bytes", "Bytes from clients.", "bytes", (), _SCRAPE, "resp"),
    _counter("resp_sent_bytes", "Bytes to clients.", "bytes", (), _SCRAPE, "resp"),
    _counter("resp_keyspace_hits", "Reads that found their key.", "reads", (), _SCRAPE, "resp"),
    _counter("resp_keyspace_misses", "Reads that did not.", "reads", (), _SCRAPE, "resp"),
    _histogram(
        "resp_request_seconds",
        "Time from a client's bytes to the end of what they asked for that needs no log; counts commands.",
        "seconds",
        REQUEST_SECONDS,
        _READ,
        "resp",
    ),
    _histogram(
        "resp_write_seconds",
        "Time from a write's request to its reply, durable and applied; each counts as the oldest of its group.",
        "seconds",
        APPEND_SECONDS,
        _GROUP,
        "resp",
    ),
)

_PROCESS: Final = (
    _gauge_of_all(
        "wall_clock_moved_seconds",
        "How far the machine's wall clock was moved, back below zero; nothing is appended meanwhile. 0: it is right.",
        "seconds",
        _SCRAPE,
    ),
    _gauge("build_info", "1, labelled with what runs.", "1", ("version", "layout", "rules", "python"), "at the start"),
    _histogram(
        "event_loop_stall_seconds",
        "How late a timer of the event loop fires.",
        "seconds",
        STALL_SECONDS,
        "20 times a second",
    ),
    _gauge(
        "event_loop_stall_max_seconds",
        "The latest that it fired in the last minute.",
        "seconds",
        (),
        "20 times a second",
    ),
    Metric("process_cpu_seconds_total", MetricKind.COUNTER, "CPU time of the process.", "seconds", (), _CLIENT),
    Metric("process_resident_memory_bytes", MetricKind.GAUGE, "Resident memory.", "bytes", (), _CLIENT),
    Metric("process_virtual_memory_bytes", MetricKind.GAUGE, "Virtual memory.", "bytes", (), _CLIENT),
    Metric("process_start_time_seconds", MetricKind.GAUGE, "When the process started.", "seconds", (), _CLIENT),
    Metric("process_open_fds", MetricKind.GAUGE, "Open files and sockets.", "files", (), _CLIENT),
    Metric("process_max_fds", MetricKind.GAUGE, "How many it may open.", "files", (), _CLIENT),
    Metric(
        "python_gc_collections_total",
        MetricKind.COUNTER,
        "Rounds of Python's collector.",
        "rounds",
        ("generation",),
        _CLIENT,
    ),
)

_REPLAY: Final = (
    _gauge("replay_done_events", "Events that a replay has applied.", "events", (), _FILE, "replay"),
    _gauge("replay_total_events", "Events that it has to apply.", "events", (), _FILE, "replay"),
    _gauge(
        "replay_end_timestamp_seconds",
        "When it will be done at the rate so far, or was.",
        "seconds",
        (),
        _FILE,
        "replay",
    ),
)

GROUPS: Final = {
    "Events": _EVENTS,
    "Partitions": _PARTITIONS,
    "Log": _LOGS,
    "Storage": _STORAGE,
    "Cleaning": _CLEANED,
    "Snapshots": SNAPSHOTS,
    "Changes": CHANGES,
    "Redis clients": _CLIENTS,
    "Workers": WORKERS,
    "Group": GROUP,
    "Process": _PROCESS,
    "Replay": _REPLAY,
}
"""Every metric by what it is about, as `docs/metrics.md` has them."""

CATALOG: Final = tuple(metric for group in GROUPS.values() for metric in group)
"""Every metric."""

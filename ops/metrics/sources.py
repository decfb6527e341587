"""Reads the values of a scrape: one function for each group of the catalog.

Nothing here scans but for the due keys, up to a bound: RocksDB is asked for numbers that it keeps in memory, half a
microsecond each.
"""

from __future__ import annotations

import gc
import platform
import shutil
from collections import Counter
from collections.abc import Collection
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector

from engine.commands.registry import SPECS
from engine.model import TYPE_NAMES
from engine.store.options import SharedMemory
from engine.store.store import GRAVEYARD_CF, MaintainedStore
from engine.tables.expiry_index import due_entries
from engine.tables.system import RULES
from ingest.applying.batches.worker import Worker
from ingest.applying.partitions.ownership import Ownership
from ingest.dead_letters.dead_letter import DeadLetters
from ingest.reporting.observer import Condition
from ops.config import Settings
from ops.metrics.counts import PartitionCounts
from ops.metrics.readings import Readings
from ops.metrics.record import DUE_KEYS_MAX, ERROR_CODES, OTHER_CODE
from ops.version import VERSION
from resp.server import Server
from slotlog.clock import WALL, now_ms
from slotlog.log import Log

_SECOND: Final = 1000
_MICROSECONDS: Final = 1_000_000

_BY_FAMILY: Final = {
    "disk_bytes": "total-sst-files-size",
    "disk_live_bytes": "live-sst-files-size",
    "live_data_bytes": "estimate-live-data-size",
    "stored_records": "estimate-num-keys",
}
_SUMMED: Final = {
    "memtable_bytes": "size-all-mem-tables",
    "memtables_immutable": "num-immutable-mem-table",
    "compaction_pending_bytes": "estimate-pending-compaction-bytes",
}
_OF_DATABASE: Final = {
    "compactions_running": "num-running-compactions",
    "flushes_running": "num-running-flushes",
    "write_stopped": "is-write-stopped",
    "delayed_write_bytes_per_second": "actual-delayed-write-rate",
}
_OF_ALL: Final = {
    "block_cache_hits_total": "rocksdb.block.cache.hit",
    "block_cache_misses_total": "rocksdb.block.cache.miss",
    "flush_written_bytes_total": "rocksdb.flush.write.bytes",
    "compaction_read_bytes_total": "rocksdb.compact.read.bytes",
    "compaction_written_bytes_total": "rocksdb.compact.write.bytes",
}

_PROCESS: Final = ProcessCollector(registry=CollectorRegistry())


def read_counts(readings: Readings, partition: int, counts: PartitionCounts) -> None:
    """What the observer was told of one partition."""
    label = str(partition)
    families: Counter[str] = Counter()
    for name, amount in counts.commands.items():
        families[SPECS[name].group] += amount
    readings.add_by("family_commands_applied_total", families, label)
    readings.add_all(
        {
            "events_applied_total": counts.applied,
            "events_rejected_total": counts.rejected,
            "events_dead_lettered_total": counts.dead,
            "events_duplicate_total": counts.duplicates,
            "events_skipped_total": counts.skipped,
            "events_applied_bytes_total": counts.value_bytes,
            "partition_running": counts.condition is Condition.RUNNING,
        },
        label,
    )
    conditions = {str(condition): counts.condition is condition for condition in Condition}
    readings.add_by("partition_condition", conditions, label)
    known, seconds = counts.lag_now()
    readings.add_all({"lag_known": known, "lag_seconds": seconds}, label)
    if counts.lag_events is not None:
        readings.add("lag_events", counts.lag_events, label)
    read_cleaned(readings, label, counts)


def read_commands(readings: Readings, counts: Collection[PartitionCounts]) -> None:
    """The commands of all partitions, by name."""
    for metric, by_name in (
        ("commands_applied_total", [each.commands for each in counts]),
        ("commands_rejected_total", [each.rejected_commands for each in counts]),
    ):
        total: Counter[bytes] = Counter()
        for commands in by_name:
            total.update(commands)
        for name, amount in total.items():
            readings.add(metric, amount, name.decode())


def read_cleaned(readings: Readings, label: str, counts: PartitionCounts) -> None:
    """What cleaning did in one partition, and what it left."""
    cleaned, due_ms = counts.cleaned, counts.expiry_due_ms
    readings.add_all(
        {
            "expired_keys_total": cleaned.keys,
            "expired_fields_total": cleaned.fields,
            "reclaimed_graves_total": cleaned.graves,
            "reclaimed_records_total": cleaned.elements,
            "compacted_ranges_total": cleaned.ranges,
            "forgotten_records_total": cleaned.forgotten,
            "compaction_ranges_waiting": counts.ranges_waiting,
            "expiry_behind_seconds": max(0, now_ms() - due_ms) / _SECOND if due_ms else 0.0,
        },
        label,
    )
    if counts.grave_ms:
        readings.add("oldest_grave_timestamp_seconds", counts.grave_ms / _SECOND, label)


def read_partition(readings: Readings, partition: int, worker: Worker) -> None:
    """An open partition: its machine, its store."""
    label, machine, store = str(partition), worker.machine, worker.store
    readings.add("next_offset", machine.position.next_offset, label)
    due = sum(1 for _ in islice(due_entries(store, machine.position.clock_ms), DUE_KEYS_MAX))
    readings.add("expiry_due_keys", due, label)
    readings.add("clock_timestamp_seconds", machine.position.clock_ms / _SECOND, label)
    for (db, type_code), count in machine.key_counts.items():
        readings.add("keys", count, label, str(db), TYPE_NAMES[type_code])
    held = machine.held
    readings.add_all({"keys_held": held.keys, "keys_held_budget_bytes": held.bytes_max}, label)
    by_what = {
        "keys": held.key_bytes,
        "elements": held.element_bytes,
        "ranks": held.rank_bytes,
        "listings": held.listing_bytes,
    }
    readings.add_by("keys_held_bytes", by_what, label)
    read_store(readings, label, store)


def store_errors(worker: Worker) -> int:
    """Failed flushes and compactions of a partition's store since it was opened; 0 when it is not open."""
    return worker.store.number_of("background-errors") if worker.is_open else 0


def read_store(readings: Readings, label: str, store: MaintainedStore) -> None:
    """The store of one partition."""
    properties = store.properties()
    if not properties:  # a store in memory
        return
    for name, word in _BY_FAMILY.items():
        readings.add_by(name, {family: values[word] for family, values in properties.items()}, label)
    for name, word in _SUMMED.items():
        readings.add(name, sum([values[word] for values in properties.values()]), label)
    for name, word in _OF_DATABASE.items():
        readings.add(name, store.number_of(word), label)
    readings.add("level0_files", max([values["num-files-at-level0"] for values in properties.values()]), label)
    readings.add("graves", properties[GRAVEYARD_CF]["estimate-num-keys"], label)
    readings.add("wal_bytes", store.wal_bytes(), label)
    if (created := store.created_s()) is not None:  # else the partition's condition tells
        readings.add("state_created_timestamp_seconds", created, label)


def read_memory(readings: Readings, memory: SharedMemory, settings: Settings) -> None:
    """What all stores share."""
    counts = memory.counts()
    for name, word in _OF_ALL.items():
        readings.add(name, counts.get(word, 0))
    readings.add("write_stall_seconds_total", counts.get("rocksdb.stall.micros", 0) / _MICROSECONDS)
    readings.add("memtable_budget_bytes", memory.write_buffers.get_buffer_size())
    readings.add("block_cache_bytes", memory.cache.get_usage())
    readings.add("block_cache_pinned_bytes", memory.cache.get_pinned_usage())
    readings.add("block_cache_capacity_bytes", settings.cache_bytes)


def read_log(readings: Readings, log: Log, dead_letters: DeadLetters | None) -> None:
    """What this process appended, and what is known of the log itself and of the place of dead letters."""
    counts = log.append_counts
    readings.add_distribution("log_append_seconds", counts.seconds)
    readings.add("log_appended_records_total", counts.records)
    readings.add("log_append_errors_total", counts.failed, "nothing")
    readings.add("log_append_errors_total", counts.uncertain, "unknown")
    concerns = () if dead_letters is None else dead_letters.concerns
    readings.add("topic_settings_wrong", len(log.concerns) + len(concerns))
    if log.stored_bytes is not None:
        readings.add("log_disk_bytes", log.stored_bytes)
    if log.scrubbed is not None:
        readings.add("log_scrubbed_bytes_total", log.scrubbed.bytes)
        readings.add("log_damages", log.scrubbed.damages)
        if log.scrubbed.ended_ms:
            readings.add("log_scrub_end_timestamp_seconds", log.scrubbed.ended_ms / 1000)


def read_clients(readings: Readings, server: Server) -> None:
    """The RESP server's counters. CONFIG RESETSTAT begins them anew, as a restart does."""
    stats = server.stats
    readings.add_all(
        {
            "resp_clients": len(server.sessions),
            "resp_blocked_clients": len(server.blocked.waiters),
            "resp_connections_total": stats.connections_received,
            "resp_connections_rejected_total": stats.rejected_connections,
            "resp_received_bytes_total": stats.net_input_bytes,
            "resp_sent_bytes_total": stats.net_output_bytes,
            "resp_keyspace_hits_total": stats.keyspace_hits,
            "resp_keyspace_misses_total": stats.keyspace_misses,
        }
    )
    readings.add("resp_clients_cut_off_total", stats.query_limit_disconnections, "query")
    readings.add("resp_clients_cut_off_total", stats.output_limit_disconnections, "output")
    readings.add("resp_clients_cut_off_total", stats.evicted_clients, "all")
    readings.add_distribution("resp_request_seconds", stats.request_seconds)
    readings.add_distribution("resp_write_seconds", stats.write_seconds)
    for partition, pipeline in server.pipelines.items():
        readings.add("resp_pending_writes", pipeline.answers.pending_events, str(partition))
    for plan in server.plans.by_name.values():
        if plan.calls or plan.rejected:
            values = {
                "resp_commands_total": plan.calls,
                "resp_command_seconds_total": plan.seconds,
                "resp_commands_failed_total": plan.failed,
                "resp_commands_refused_total": plan.rejected,
            }
            readings.add_all(values, plan.name.decode())
    codes = Counter(dict.fromkeys((*ERROR_CODES, OTHER_CODE), 0))
    for code, count in stats.errors.items():
        codes[code if code in codes else OTHER_CODE] += count
    for code, count in codes.items():
        readings.add("resp_errors_total", count, code)


def read_owners(readings: Readings, ownership: Ownership, partitions: Collection[int]) -> None:
    """Owners of the partitions of this process, and how many of the topic have none."""
    for partition in partitions:
        readings.add("partition_owners", ownership.owners(partition), str(partition))
    unowned = ownership.unowned()
    if unowned is not None:
        readings.add("partitions_unowned", len(unowned))


def read_process(readings: Readings, settings: Settings) -> None:
    """The process, its build and its disk."""
    readings.add("build_info", 1, VERSION, settings.layout, str(RULES), platform.python_version())
    readings.add("wall_clock_moved_seconds", WALL.moved_ms() / _SECOND)
    disk = shutil.disk_usage(settings.data)
    readings.add("disk_free_bytes", disk.free)
    readings.add("disk_size_bytes", disk.total)
    readings.add("log_warn_bytes", settings.log_bytes_warn)
    for family in _PROCESS.collect():
        for sample in family.samples:
            readings.values[sample.name] = [((), sample.value)]
    readings.values["python_gc_collections_total"] = [
        ((str(generation),), each["collections"]) for generation, each in enumerate(gc.get_stats())
    ]

"""INFO: Redis' sections and field names, so that its exporters work, and our section `slotlog`.

What Redis has and slotlog has not (snapshots, eviction) stands as it would in a Redis that does not use it.
Memory is the process' as a whole: `used_memory` is what is resident, as nobody counts what Python and RocksDB allocate.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from resp.clients.client_list import has_time_limit, is_blocked, total_bytes
from resp.reports.info_commands import Fields, commandstats, errorstats, latencystats
from resp.reports.replication import as_master, as_replica
from resp.resources.memory import memory_use
from resp.statistics.census import Expiring
from resp.statistics.partitions import ScriptFigures, key_counts, script_figures
from slotlog.clock import now_ms, now_us

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.clients.shared import Shared
    from resp.settings.startup import Address

REDIS_VERSION: Final = "7.4.0"
"""The version whose commands and replies these are: clients decide by it what to send. HELLO says it too."""

_UNITS: Final = "BKMGT"


def info_text(server: Shared[Session], wanted: Sequence[bytes], *, at_replica: bool = False) -> str:
    """The sections that are asked for, in INFO's order; without any, the default ones.

    Args:
        server: whose they are.
        wanted: names of sections.
        at_replica: whoever asks has come to it as to a replica.
    """
    names = {name.decode(errors="replace").lower() for name in wanted} or {"default"}
    if names & {"all", "everything"}:
        chosen = list(_SECTIONS)
    else:
        defaults = "default" in names
        chosen = [name for name in _SECTIONS if name in names or (defaults and name not in _ON_DEMAND)]
    sections = {**_SECTIONS, "replication": as_replica} if at_replica else _SECTIONS
    return "\r\n".join(_section(name, sections[name](server)) for name in chosen)


def _section(name: str, fields: Fields) -> str:
    lines = "".join(f"{field}:{value}\r\n" for field, value in fields)
    return f"# {_TITLES.get(name, name.capitalize())}\r\n{lines}"


# ---------------------------------------------------------------------- sections


def _server(server: Shared[Session]) -> Fields:
    uptime_s = max(0, now_ms() - server.started_ms) // 1000
    yield "redis_version", REDIS_VERSION
    yield "server_name", "slotlog"
    yield "slotlog_version", server.host.version
    yield "redis_git_sha1", "00000000"
    yield "redis_git_dirty", 0
    yield "redis_build_id", "0"
    yield "redis_mode", _mode(server)
    yield "server_mode", _mode(server)
    yield "os", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "arch_bits", 64 if sys.maxsize > 1 << 32 else 32
    yield "monotonic_clock", "POSIX clock_gettime"
    yield "multiplexing_api", "epoll"
    yield "gcc_version", "0.0.0"
    yield "process_id", os.getpid()
    yield "process_supervised", "no"
    yield "run_id", server.run_id
    yield "tcp_port", server.port or server.tls_port
    yield "server_time_usec", now_us()
    yield "uptime_in_seconds", uptime_s
    yield "uptime_in_days", uptime_s // 86_400
    yield "hz", 10
    yield "configured_hz", 10
    yield "lru_clock", (now_ms() // 1000) & 0xFFFFFF
    yield "executable", sys.executable
    yield "config_file", ""
    yield "io_threads_active", 0
    for number, (name, (host, _), port) in enumerate(_listeners(server)):
        yield f"listener{number}", f"name={name},bind={host},port={port}"


def _clients(server: Shared[Session]) -> Fields:
    sessions = list(server.sessions.values())
    yield "connected_clients", len(sessions)
    yield "cluster_connections", 0
    yield "maxclients", server.config["maxclients"]
    yield "client_recent_max_input_buffer", max((session.query_bytes for session in sessions), default=0)
    yield "client_recent_max_output_buffer", max((session.output_bytes for session in sessions), default=0)
    yield "blocked_clients", sum(map(is_blocked, sessions))
    yield "tracking_clients", server.tracking.clients
    yield "pubsub_clients", sum(session.is_subscriber for session in sessions)
    yield "watching_clients", sum(session.watched_partition is not None for session in sessions)
    yield "clients_in_timeout_table", sum(map(has_time_limit, sessions))
    yield "total_watched_keys", len({key for session in sessions for key in session.watched_keys})
    waiters = server.blocked.waiters
    yield "total_blocking_keys", len({place for waiter in waiters for place in waiter.places})
    in_groups = {place for waiter in waiters if waiter.wish.group is not None for place in waiter.places}
    yield "total_blocking_keys_on_nokey", len(in_groups)  # who waits in a group is told when its key goes


def _memory(server: Shared[Session]) -> Fields:
    use = memory_use()
    dataset = max(0, use.rss_bytes - use.startup_bytes)
    for name, size in (
        ("used_memory", use.rss_bytes),
        ("used_memory_rss", use.rss_bytes),
        ("used_memory_peak", use.peak_bytes),
        ("total_system_memory", use.system_bytes),
        ("maxmemory", server.config["maxmemory"]),
    ):
        yield name, size
        yield f"{name}_human", _human(size)
    yield "used_memory_peak_perc", f"{100 * use.rss_bytes / use.peak_bytes:.2f}%"
    yield "used_memory_overhead", use.startup_bytes
    yield "used_memory_startup", use.startup_bytes
    yield "used_memory_dataset", dataset
    yield "used_memory_dataset_perc", f"{100 * dataset / use.rss_bytes:.2f}%"
    yield "allocator_allocated", use.rss_bytes
    yield "allocator_active", use.rss_bytes
    yield "allocator_resident", use.rss_bytes
    yield "allocator_muzzy", 0
    yield from _scripts(script_figures(server.pipelines))
    yield "maxmemory_policy", "noeviction"
    for name in ("allocator_frag", "allocator_rss", "rss_overhead"):
        yield f"{name}_ratio", "1.00"
        yield f"{name}_bytes", 0
    yield "mem_fragmentation_ratio", "1.00"
    yield "mem_fragmentation_bytes", 0
    yield "mem_not_counted_for_evict", 0
    yield "mem_replication_backlog", 0
    yield "mem_total_replication_buffers", 0
    yield "mem_clients_slaves", 0
    yield "mem_clients_normal", sum(map(total_bytes, server.sessions.values()))
    yield "mem_cluster_links", 0
    yield "mem_aof_buffer", sum(pipeline.answers.pending_bytes for pipeline in server.pipelines.values())
    yield "mem_overhead_db_hashtable_rehashing", 0
    yield "mem_allocator", "libc"
    yield "active_defrag_running", 0
    yield "lazyfree_pending_objects", 0
    yield "lazyfreed_objects", 0


def _scripts(figures: ScriptFigures) -> Fields:
    """Functions run in the runtimes of scripts."""
    yield "used_memory_vm_eval", figures.lua_bytes
    yield "used_memory_scripts_eval", figures.script_bytes
    yield "used_memory_vm_functions", 0
    yield "used_memory_functions", figures.library_bytes
    for name, size in (
        ("used_memory_lua", figures.lua_bytes),
        ("used_memory_vm_total", figures.lua_bytes),
        ("used_memory_scripts", figures.script_bytes + figures.library_bytes),
    ):
        yield name, size
        yield f"{name}_human", _human(size)
    yield "number_of_cached_scripts", figures.scripts
    yield "number_of_functions", figures.functions
    yield "number_of_libraries", figures.libraries


def _persistence(server: Shared[Session]) -> Fields:
    serving = server.replicas if server.is_standby else server.pipelines
    loading = any(_is_loading(pipeline.refusal(write=False)) for pipeline in serving.values())
    yield "loading", int(loading)
    yield "async_loading", 0
    for name in ("current_cow_peak", "current_cow_size", "current_cow_size_age"):
        yield name, 0
    yield "current_fork_perc", "0.00"
    yield "current_save_keys_processed", 0
    yield "current_save_keys_total", 0
    yield "rdb_changes_since_last_save", server.stats.changes_since_save
    yield "rdb_bgsave_in_progress", 0
    yield "rdb_last_save_time", now_ms() // 1000
    yield "rdb_last_bgsave_status", "ok"
    yield "rdb_last_bgsave_time_sec", -1
    yield "rdb_current_bgsave_time_sec", -1
    for name in ("rdb_saves", "rdb_last_cow_size", "rdb_last_load_keys_expired", "rdb_last_load_keys_loaded"):
        yield name, 0
    yield "aof_enabled", 1
    yield "aof_rewrite_in_progress", 0
    yield "aof_rewrite_scheduled", 0
    yield "aof_last_rewrite_time_sec", -1
    yield "aof_current_rewrite_time_sec", -1
    yield "aof_last_bgrewrite_status", "ok"
    yield "aof_rewrites", 0
    yield "aof_rewrites_consecutive_failures", 0
    yield "aof_last_write_status", "ok"
    yield "aof_last_cow_size", 0
    yield "aof_current_size", server.host.disk_bytes()
    yield "aof_base_size", 0
    for name in ("aof_pending_rewrite", "aof_buffer_length", "aof_pending_bio_fsync", "aof_delayed_fsync"):
        yield name, 0
    yield "module_fork_in_progress", 0
    yield "module_fork_last_cow_size", 0


def _stats(server: Shared[Session]) -> Fields:
    stats = server.stats
    yield "total_connections_received", stats.connections_received
    yield "total_commands_processed", server.plans.calls
    yield "instantaneous_ops_per_sec", stats.operations_per_second
    yield "total_net_input_bytes", stats.net_input_bytes
    yield "total_net_output_bytes", stats.net_output_bytes
    yield "total_net_repl_input_bytes", 0
    yield "total_net_repl_output_bytes", 0
    yield "instantaneous_input_kbps", f"{stats.input_kib_per_second:.2f}"
    yield "instantaneous_output_kbps", f"{stats.output_kib_per_second:.2f}"
    yield "instantaneous_input_repl_kbps", "0.00"
    yield "instantaneous_output_repl_kbps", "0.00"
    yield "rejected_connections", stats.rejected_connections
    for name in ("sync_full", "sync_partial_ok", "sync_partial_err"):
        yield name, 0
    yield "expired_subkeys", stats.expired_fields
    yield "expired_keys", stats.expired_keys
    yield "expired_stale_perc", "0.00"
    yield "expired_time_cap_reached_count", 0
    yield "expire_cycle_cpu_milliseconds", round(stats.expiry_seconds * 1000)
    yield "evicted_keys", 0
    yield "evicted_clients", stats.evicted_clients
    yield "evicted_scripts", script_figures(server.pipelines).evicted
    for name in ("total_eviction_exceeded_time", "current_eviction_exceeded_time"):
        yield name, 0
    yield "keyspace_hits", stats.keyspace_hits
    yield "keyspace_misses", stats.keyspace_misses
    yield "pubsub_channels", len(server.pubsub.channels.by_name)
    yield "pubsub_patterns", len(server.pubsub.patterns.by_name)
    yield "pubsubshard_channels", len(server.pubsub.shard_channels.by_name)
    for name in ("latest_fork_usec", "total_forks", "migrate_cached_sockets", "slave_expires_tracked_keys"):
        yield name, 0
    for name in ("hits", "misses", "key_hits", "key_misses"):
        yield f"active_defrag_{name}", 0
    yield "total_active_defrag_time", 0
    yield "current_active_defrag_time", 0
    yield "tracking_total_keys", len(server.tracking.table)
    yield "tracking_total_items", server.tracking.table.items
    yield "tracking_total_prefixes", len(server.tracking.broadcast)
    yield "unexpected_error_replies", 0
    yield "total_error_replies", stats.error_replies
    yield "dump_payload_sanitizations", 0
    yield "total_reads_processed", stats.reads_processed
    yield "total_writes_processed", stats.writes_processed
    yield "io_threaded_reads_processed", 0
    yield "io_threaded_writes_processed", 0
    yield "client_query_buffer_limit_disconnections", stats.query_limit_disconnections
    yield "client_output_buffer_limit_disconnections", stats.output_limit_disconnections
    yield "reply_buffer_shrinks", 0
    yield "reply_buffer_expands", 0
    yield "acl_access_denied_auth", stats.denied_auth
    yield "acl_access_denied_cmd", stats.denied_command
    yield "acl_access_denied_key", stats.denied_key
    yield "acl_access_denied_channel", stats.denied_channel
    yield "acl_access_denied_db", stats.denied_database
    if (use := stats.loop_use) is not None:
        yield "eventloop_cycles", use.turns
        yield "eventloop_duration_sum", use.busy_us
        yield "eventloop_duration_cmd_sum", round(server.plans.seconds * 1_000_000)
        yield "instantaneous_eventloop_cycles_per_sec", stats.loop_turns_per_second
        yield "instantaneous_eventloop_duration_usec", stats.turn_us


def _cpu(_server: Shared[Session]) -> Fields:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    thread = resource.getrusage(resource.RUSAGE_THREAD)
    for suffix, use in (("", own), ("_children", children), ("_main_thread", thread)):
        yield f"used_cpu_sys{suffix}", f"{use.ru_stime:.6f}"
        yield f"used_cpu_user{suffix}", f"{use.ru_utime:.6f}"


def _nothing(_server: Shared[Session]) -> Fields:
    yield from ()


def _cluster(server: Shared[Session]) -> Fields:
    yield "cluster_enabled", int(server.clustered)


def _keyspace(server: Shared[Session]) -> Fields:
    shown = server.replicas if server.is_standby else server.pipelines
    counts = key_counts(shown)
    expiring: dict[int, Expiring] = {}
    for pipeline in shown.values():
        if pipeline.owned.worker.is_open:
            for db, found in server.stats.census.of(pipeline).items():
                expiring[db] = expiring.get(db, Expiring()) + found
    for db in sorted(counts):
        if counts[db]:
            some = expiring.get(db, Expiring())
            left_ms = some.mean_left_ms(now_ms())
            yield f"db{db}", f"keys={counts[db]},expires={some.keys},avg_ttl={left_ms},subexpiry={some.hashes}"


def _slotlog(server: Shared[Session]) -> Fields:
    yield "version", server.host.version
    yield "partitions", server.partitions
    yield "partitions_owned", len(server.pipelines)
    yield "disk_bytes", server.host.disk_bytes()
    yield "pending_events", sum(pipeline.answers.pending_events for pipeline in server.pipelines.values())
    yield "pending_bytes", sum(pipeline.answers.pending_bytes for pipeline in server.pipelines.values())
    yield "lag_events", sum(server.stats.lag_events.values())
    for partition, pipeline in sorted(server.pipelines.items()):
        position = pipeline.owned.committed
        offset, clock_ms = (0, 0) if position is None else (position.next_offset, position.clock_ms)
        yield (
            f"partition{partition}",
            (
                f"state={pipeline.owned.condition},next_offset={offset},clock_ms={clock_ms},"
                f"lag_events={server.stats.lag_events.get(partition, -1)}"
            ),
        )


_SECTIONS: Final[Mapping[str, Callable[[Shared[Session]], Fields]]] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": as_master,
    "cpu": _cpu,
    "modules": _nothing,
    "commandstats": commandstats,
    "errorstats": errorstats,
    "latencystats": latencystats,
    "cluster": _cluster,
    "keyspace": _keyspace,
    "slotlog": _slotlog,
}
_TITLES: Final = {"cpu": "CPU"}
_ON_DEMAND: Final = frozenset({"commandstats", "latencystats"})
"""Left out unless they, or `all`, are asked for."""


# ---------------------------------------------------------------------- pieces


def _mode(server: Shared[Session]) -> str:
    return "cluster" if server.clustered else "standalone"


def _listeners(server: Shared[Session]) -> Iterator[tuple[str, Address, int]]:
    """What clients may connect to: kind, address as it was set, port."""
    yield "tcp", server.settings.address, server.port
    if server.settings.tls_address is not None:
        yield "tls", server.settings.tls_address, server.tls_port


def _is_loading(refusal: Exception | None) -> bool:
    return refusal is not None and str(refusal).startswith("LOADING")


def _human(size: int) -> str:
    """A size as Redis shows it: 994.30K."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{size}B" if unit == 0 else f"{value:.2f}{_UNITS[unit]}"

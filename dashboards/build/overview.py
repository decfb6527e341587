"""Overview: is it healthy, and if not, where to look."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.build.frame import Row, dashboard
from dashboards.build.panels import ONE_IS_GOOD, ZERO_IS_GOOD, graph, number
from dashboards.build.queries import each, lag_events, ours, quantiles, rate, series

# A process that is away has no series of its own; its alert has, from the first scrape that fails.
_AWAY: Final = series("ALERTS", 'alertname="SlotlogDown"')
_CPU: Final = f"rate({series('process_cpu_seconds_total')}[$__rate_interval])"

_FIRING: Final = series("ALERTS", 'alertname=~"Slotlog.+"', 'alertstate="firing"')
# SlotlogAbsent is about no instance, so the variables never choose it: the panel finds out by itself whether there is
# neither a process that answers nor one that is known to be away.
_ABSENT: Final = f"absent({series('slotlog_build_info')} or {_AWAY})"


def overview() -> Dashboard:
    """The first dashboard to open."""
    return dashboard(
        "overview",
        "Is slotlog healthy? Throughput, lag, latency, errors, disk. The other dashboards say why.",
        [_health(), _throughput(), _latency(), _errors(), _resources()],
    )


def _health() -> Row:
    return "Is it healthy?", [
        number(
            "Alerts firing",
            "Alerts of dashboards/alerts.yml that fire now; docs/runbook.md has a section for each. One more while "
            "Prometheus has no slotlog to scrape, which is SlotlogAbsent after 5 minutes.",
            "none",
            (f"sum({_FIRING} or {_ABSENT}) or vector(0)", "alerts"),
            ZERO_IS_GOOD,
        ),
        number(
            "Ready",
            "Whether every process answers 200 on /readyz: its partitions are applied and within their lag bound.",
            "bool",
            (f"min({series('slotlog_ready')} or 0 * {_AWAY})", "ready"),
            ONE_IS_GOOD,
        ),
        number(
            "Partitions set aside",
            "Partitions that are opening, waiting or stopped. /readyz and the dashboard Ingestion name them.",
            "none",
            (f"sum(1 - {series('slotlog_partition_running')})", "partitions"),
            ZERO_IS_GOOD,
        ),
        number(
            "Longest lag",
            "How long the partition that is furthest behind its log has been behind, or has not heard of it.",
            "s",
            (f"max({series('slotlog_lag_seconds')})", "lag"),
            ((None, "green"), (10, "yellow"), (60, "red")),
        ),
        number(
            "Free disk",
            "Share of the fullest data disk that is free. Applying waits at free_bytes_min.",
            "percentunit",
            (f"min({series('slotlog_disk_free_bytes')} / {series('slotlog_disk_size_bytes')})", "free"),
            ((None, "red"), (0.1, "yellow"), (0.25, "green")),
        ),
        number(
            "Processes by version",
            "Processes that answer, by slotlog's version, layout and rules. Several numbers: an upgrade is going on.",
            "none",
            (
                f"count by (version, layout, rules) ({series('slotlog_build_info')})",
                "{{version}} {{layout}} rules {{rules}}",
            ),
        ),
    ]


def _throughput() -> Row:
    return "Throughput and lag", [
        graph(
            "Events applied",
            "Events applied in a second by each process, rejected ones included.",
            "ops",
            (rate("slotlog_events_applied_total", "instance"), "{{instance}}"),
            stacked=True,
        ),
        graph(
            "Commands applied by family",
            "Commands applied in a second, those of transactions included.",
            "ops",
            (rate("slotlog_family_commands_applied_total", "family"), "{{family}}"),
            stacked=True,
        ),
        graph(
            "Commands of Redis clients",
            "Commands that Redis clients ran in a second, reads included.",
            "ops",
            (rate("slotlog_resp_commands_total", "instance"), "{{instance}}"),
            stacked=True,
        ),
        graph(
            "Lag in events",
            "Records in the log that are not applied, for each process. No line: not known of one of its partitions, "
            "as the log does not answer.",
            "short",
            (lag_events("instance"), "{{instance}}"),
        ),
        graph(
            "Lag in time",
            "Age of the last applied record of the partition that is furthest behind; 0 when none is. While the log "
            "does not answer it grows by the time since.",
            "s",
            (f"max by (instance) ({series('slotlog_lag_seconds')})", "{{instance}}"),
        ),
        graph(
            "Time to catch up",
            "For the slowest partition: lag over its shrinking in the last 5 minutes; a day: or longer, or not known.",
            "s",
            (
                f"max by (instance) ({series('partition:slotlog_lag_events:seconds_to_catch_up')})",
                "{{instance}}",
            ),
        ),
    ]


def _latency() -> Row:
    return "Latency", [
        graph(
            "From event to applied",
            "From an event's record time to its commit; each counts as the oldest of its batch.",
            "s",
            *quantiles("slotlog_event_latency_seconds"),
        ),
        graph(
            "Redis clients' writes",
            "From the request to the reply: durable in the log and applied.",
            "s",
            *quantiles("slotlog_resp_write_seconds"),
        ),
        graph(
            "Redis clients' other commands",
            "From the request to the end of what needs no log.",
            "s",
            *quantiles("slotlog_resp_request_seconds"),
        ),
    ]


def _errors() -> Row:
    return "Errors", [
        graph(
            "Events that changed nothing",
            "Rejections (the command answered with an error), dead letters (can never be applied), duplicates (the id "
            "was there before) and records that an operator skipped, in a second.",
            "ops",
            (rate("slotlog_events_rejected_total"), "rejected"),
            (rate("slotlog_events_dead_lettered_total"), "dead letters"),
            (rate("slotlog_events_duplicate_total"), "duplicates"),
            (rate("slotlog_events_skipped_total"), "skipped"),
        ),
        graph(
            "Error replies to Redis clients",
            "By their code, in a second.",
            "ops",
            (rate("slotlog_resp_errors_total", "code"), "{{code}}"),
        ),
        graph(
            "Failures of log and store",
            "Appends to the log that failed, failed flushes and compactions of RocksDB, in a second.",
            "ops",
            (rate("slotlog_log_append_errors_total", "instance"), "append {{instance}}"),
            (rate("slotlog_rocksdb_background_errors_total", "instance"), "RocksDB {{instance}}"),
        ),
    ]


def _resources() -> Row:
    return "Disk and process", [
        graph(
            "Disk used",
            "RocksDB's table files and write-ahead logs of each process.",
            "bytes",
            (f"{each('slotlog_disk_bytes', 'instance')} + {each('slotlog_wal_bytes', 'instance')}", "{{instance}}"),
            stacked=True,
        ),
        graph(
            "Disk free",
            "Free now, and in four hours if the last hour goes on.",
            "bytes",
            (each("slotlog_disk_free_bytes", "instance"), "{{instance}}"),
            (each("instance:slotlog_disk_free_bytes:predicted_4h", "instance"), "in 4 h {{instance}}"),
        ),
        graph(
            "Event loop's delay",
            "How late a timer fires, 99th percentile: while it is late, no client gets an answer.",
            "s",
            *quantiles("slotlog_event_loop_stall_seconds")[1:],
            (each("slotlog_event_loop_stall_max_seconds", "instance"), "worst in a minute {{instance}}"),
        ),
        graph(
            "CPU",
            "Cores that each process uses. One is the limit of the event loop; RocksDB's threads come on top.",
            "none",
            (f"sum by (instance) {ours(_CPU)}", "{{instance}}"),
        ),
        graph(
            "Memory",
            "Resident memory: block cache, memtables, and what Python holds.",
            "bytes",
            (f"sum by (instance) {ours(series('process_resident_memory_bytes'))}", "{{instance}}"),
        ),
        graph(
            "Open files",
            "Share of the open files and sockets that the process may have.",
            "percentunit",
            (ours(f"{series('process_open_fds')} / {series('process_max_fds')}"), "{{instance}}"),
        ),
    ]

"""Ingestion: each partition on its way through the log, and what becomes of its records."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.build.frame import Row, dashboard
from dashboards.build.panels import Panel, graph, states
from dashboards.build.queries import each, growth, highest, lag_events, mean, quantile, quantiles, rate, series

_WHERE: Final = ("instance", "partition")
_LEGEND: Final = "{{instance}} {{partition}}"
_OFFSETS: Final = series("slotlog_next_offset")
_CLOCK: Final = series("slotlog_clock_timestamp_seconds")
_CONDITIONS: Final = {0: ("set aside", "red"), 1: ("running", "green")}


def ingestion() -> Dashboard:
    """For lag, stopped partitions, dead letters."""
    return dashboard(
        "ingestion",
        "From the log into the state, partition by partition: condition, throughput, lag, outcomes, batches, log.",
        [_partitions(), _positions(), _outcomes(), _batches(), _log(), _replay()],
    )


def _partitions() -> Row:
    return "Partitions", [
        states(
            "Running",
            "Green while the partition is applied, red while it is set aside: opening, waiting or stopped.",
            "none",
            (each("slotlog_partition_running", *_WHERE), _LEGEND),
            _CONDITIONS,
        ),
        graph(
            "Partitions by condition",
            "opening: before its store is open. waiting: something outside is away, it goes on by itself. stopped: it "
            "needs an operator.",
            "none",
            (each("slotlog_partition_condition", "condition"), "{{condition}}"),
            stacked=True,
        ),
        graph(
            "Events applied",
            "Events applied in a second, rejected ones included.",
            "ops",
            (rate("slotlog_events_applied_total", *_WHERE), _LEGEND),
            stacked=True,
        ),
        graph(
            "Lag in events",
            "Records in the log that are not applied. No line: not known, as the log does not answer.",
            "short",
            (lag_events(*_WHERE), _LEGEND),
        ),
        graph(
            "Lag in time",
            "Age of the last applied record while the partition is behind, else 0. While the log does not answer it "
            "grows by the time since.",
            "s",
            (highest("slotlog_lag_seconds", *_WHERE), _LEGEND),
        ),
        graph(
            "Held up by a transaction",
            "How long a producer's open transaction has kept what is in the log from being read, and so from being "
            "applied: the lag does not count it. Above 10 s the process is not ready.",
            "s",
            (highest("slotlog_log_held_up_seconds", *_WHERE), _LEGEND),
        ),
        graph(
            "Time to catch up",
            "Lag over the speed at which it has shrunk in the last 5 minutes. A day: longer, it does not shrink, or "
            "it is not known.",
            "s",
            (highest("partition:slotlog_lag_events:seconds_to_catch_up", *_WHERE), _LEGEND),
        ),
    ]


def _positions() -> Row:
    return "Positions", [
        graph(
            "Position",
            "Offset of the first record that is not applied. A step down: the state was built again.",
            "short",
            (f"max by (instance, partition) ({_OFFSETS})", _LEGEND),
        ),
        graph(
            "Log time behind the clock",
            "Prometheus' time less the partition's log time, the highest time of its records. An idle partition falls "
            "behind; one that is ahead expires keys too early.",
            "s",
            (f"time() - max by (instance, partition) ({_CLOCK})", _LEGEND),
        ),
        graph(
            "Wall clock moved",
            "How far the wall clock of a machine was moved against the clock since its boot. Nothing is appended while "
            "it is not 0.",
            "s",
            (f"max by (instance) ({series('slotlog_wall_clock_moved_seconds')})", "{{instance}}"),
        ),
        graph(
            "Bytes applied",
            "Bytes of the records' values in a second, dead letters included.",
            "Bps",
            (rate("slotlog_events_applied_bytes_total", *_WHERE), _LEGEND),
            stacked=True,
        ),
    ]


def _outcomes() -> Row:
    return "What becomes of records", [
        graph(
            "Dead letters",
            "Records that can never be applied, in the interval of a point. `slotlog deadletters list` shows them.",
            "none",
            (growth("slotlog_events_dead_lettered_total", *_WHERE), _LEGEND),
        ),
        graph(
            "Duplicates",
            "Events in a second that were skipped, as one with their id was applied before.",
            "ops",
            (rate("slotlog_events_duplicate_total", *_WHERE), _LEGEND),
        ),
        graph(
            "Rejections",
            "Commands in a second that answered with an error, as Redis would, and changed nothing.",
            "ops",
            (rate("slotlog_events_rejected_total", *_WHERE), _LEGEND),
        ),
        graph(
            "Commands applied",
            "The ten that are applied most often, in a second.",
            "ops",
            (f"topk(10, {rate('slotlog_commands_applied_total', 'command')})", "{{command}}"),
            stacked=True,
        ),
        graph(
            "Commands rejected",
            "The ten that are rejected most often, in a second.",
            "ops",
            (f"topk(10, {rate('slotlog_commands_rejected_total', 'command')})", "{{command}}"),
            stacked=True,
        ),
        graph(
            "Skipped by operators",
            "Records that `slotlog skip` went past, in the interval of a point.",
            "none",
            (growth("slotlog_events_skipped_total", *_WHERE), _LEGEND),
        ),
    ]


def _batches() -> Row:
    return "Batches", [
        graph(
            "Records in a batch",
            "Mean and 99th percentile. At 1,000, the most, the process is catching up.",
            "short",
            (mean("slotlog_batch_records", "instance"), "mean {{instance}}"),
            (quantile(0.99, "slotlog_batch_records", "instance"), "p99 {{instance}}"),
        ),
        graph(
            "Time to apply a batch",
            "Applying and writing one batch.",
            "s",
            *quantiles("slotlog_batch_apply_seconds"),
        ),
        graph(
            "Time spent in applying",
            "Share of the process' time that goes into applying batches. At 1 it can do no more.",
            "percentunit",
            (rate("slotlog_batch_apply_seconds_sum", "instance"), "{{instance}}"),
        ),
    ]


def _log() -> Row:
    return "The log", [
        graph(
            "Time of an append",
            "Until what is appended is durable: an fsync of the embedded log, acks=all of Kafka.",
            "s",
            *quantiles("slotlog_log_append_seconds"),
        ),
        graph(
            "Records appended",
            "By this process in a second: writes of Redis clients, and ticks.",
            "ops",
            (rate("slotlog_log_appended_records_total", "instance"), "{{instance}}"),
            stacked=True,
        ),
        graph(
            "Appends that failed",
            "In the interval of a point. nothing: none of it is in the log. unknown: nobody can tell, and the client "
            "was told so.",
            "none",
            (growth("slotlog_log_append_errors_total", "outcome"), "{{outcome}}"),
        ),
        states(
            "Appends",
            "Red while the last append to the partition failed, or has not been acknowledged for 10 s: the process is "
            "not ready, and tries again every 5 s.",
            "none",
            (each("slotlog_log_append_failing", *_WHERE), _LEGEND),
            {0: ("taken", "green"), 1: ("failing", "red")},
        ),
        graph(
            "Where the log begins",
            "The first record that it still has. The newest verified snapshot must not stand before it.",
            "short",
            (highest("slotlog_log_begin_offset", *_WHERE), _LEGEND),
            (highest("slotlog_snapshot_next_offset", *_WHERE), f"snapshot {_LEGEND}"),
            (highest("slotlog_log_trim_failing", *_WHERE), f"trim failing {_LEGEND}"),
        ),
        graph(
            "Records about to age out",
            "Past half of the topic's finite retention, and in no verified snapshot.",
            "short",
            (highest("slotlog_log_aging_offsets", *_WHERE), _LEGEND),
        ),
        graph(
            "Cut off the log",
            "Offsets that the service deleted before verified snapshots, in the interval of a point.",
            "short",
            (growth("slotlog_log_trimmed_total", *_WHERE), _LEGEND),
        ),
        graph(
            "Wrong settings of the topic",
            "Settings with which a start would be refused; the log line `topic_settings` and /readyz say which.",
            "none",
            (highest("slotlog_topic_settings_wrong", "instance"), "{{instance}}"),
        ),
        graph(
            "Size of the log",
            "It grows until it is cut. Of a topic one replica; for that the user must DESCRIBE the cluster.",
            "bytes",
            (highest("slotlog_log_disk_bytes", "instance"), "{{instance}}"),
            (highest("slotlog_log_warn_bytes", "instance"), "{{instance}}: log_bytes_warn"),
        ),
        *_scrub(),
        *_changes(),
    ]


def _changes() -> list[Panel]:
    return [
        graph(
            "Changes that are told",
            "Records in the topic of changes, in the interval of a point.",
            "short",
            (growth("slotlog_changes_told_total", *_WHERE), _LEGEND),
        ),
        graph(
            "Changes behind",
            "Offsets that are applied and whose changes are not in their topic yet; 1 while the feed fails.",
            "short",
            (highest("slotlog_changes_lag_offsets", *_WHERE), _LEGEND),
            (highest("slotlog_changes_failing", *_WHERE), f"failing {_LEGEND}"),
        ),
    ]


def _scrub() -> list[Panel]:
    return [
        graph(
            "Damage in the embedded log",
            "Records and dead letters that are not what was written, as the scrub found them. No data with Kafka.",
            "none",
            (each("slotlog_log_damages", "instance"), "{{instance}}"),
        ),
        graph(
            "Scrub of the embedded log",
            "Bytes a second that are held against their checksums; nothing between two rounds, for an hour.",
            "Bps",
            (rate("slotlog_log_scrubbed_bytes_total", "instance"), "{{instance}}"),
        ),
        graph(
            "Age of the last scrub",
            "Since all of the embedded log was last held against its checksums.",
            "s",
            (f"time() - {series('slotlog_log_scrub_end_timestamp_seconds')}", "{{instance}}"),
        ),
    ]


def _replay() -> Row:
    age = f"time() - {series('slotlog_state_created_timestamp_seconds')}"
    return "Replay", [
        graph(
            "Progress of a replay",
            "Share of the events that are applied. The instance is that of node_exporter, which reads what `slotlog "
            "replay --metrics-file` writes.",
            "percentunit",
            (f"{series('slotlog_replay_done_events')} / {series('slotlog_replay_total_events')}", "{{instance}}"),
        ),
        graph(
            "Time to the end of a replay",
            "At its rate so far.",
            "s",
            (f"clamp_min({series('slotlog_replay_end_timestamp_seconds')} - time(), 0)", "{{instance}}"),
        ),
        graph(
            "Age of the states",
            "Since each partition's state directory was made, by a replay or by a first start.",
            "s",
            (age, _LEGEND),
        ),
    ]

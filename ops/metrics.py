"""Prometheus metrics, one closed list. Counters are bound to their labels once and added to once a batch.

Labels: `partition` is bounded by the settings, `command` by the registry, `column_family`, `db` and `type` by the
format. Disk use and key counts are read when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from engine.layouts.base import TYPE_NAMES
from engine.machine import Applied
from engine.store.rocks import RocksStore
from ingest.observer import Condition
from ingest.seldom import Seldom
from ingest.worker import Worker
from ops.version import VERSION

_APPLY_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_BATCH_RECORDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

# Else every counter brings a second series with the time of its birth, which nothing here is asked for.
disable_created_metrics()  # type: ignore[no-untyped-call]

logger = structlog.get_logger(__name__)


class Metrics:
    """The metrics of one process: an `ingest.observer.Observer` that also writes the log lines of what it observes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._lag_known: dict[int, int] = {}
        self._rejections = Seldom()
        counter, gauge, histogram = self._makers()
        by_partition = ["partition"]
        self._applied = counter("events_applied", "Events applied, rejected ones included.", by_partition)
        self._rejected = counter("events_rejected", "Commands that answered with an error.", by_partition)
        self._dead = counter("events_dead_lettered", "Records that can never be applied.", by_partition)
        self._duplicates = counter("events_duplicate", "Events skipped by their idempotency key.", by_partition)
        self._skipped = counter("events_skipped", "Records that an operator decided to go past.", by_partition)
        self._bytes = counter("event_bytes_applied", "Bytes of the applied records' values.", by_partition)
        self._commands = counter("commands_applied", "Commands applied, those of transactions included.", ["command"])
        self._rejected_commands = counter("commands_rejected", "Commands that answered with an error.", ["command"])
        self._lag_events = gauge("lag_events", "Records in the log that are not applied.", by_partition)
        self._lag_seconds = gauge("lag_seconds", "Age of the last applied record while behind, else 0.", by_partition)
        self._running = gauge(
            "partition_running", "1 while the partition is applied, 0 while it is set aside.", by_partition
        )
        self._batch = histogram("batch_records", "Records in a batch.", _BATCH_RECORDS)
        self._seconds = histogram("batch_apply_seconds", "Time to apply and write a batch.", _APPLY_SECONDS)
        gauge("build_info", "1, labelled with the version.", ["version"]).labels(VERSION).set(1)

    def watch(self, workers: Mapping[int, Worker]) -> None:
        """Let scrapes read key counts and disk use of these workers."""
        self.registry.register(_StateCollector(workers))
        for partition in workers:
            for metric in (self._applied, self._rejected, self._dead, self._duplicates, self._skipped):
                metric.labels(str(partition))

    def exposition(self) -> bytes:
        """What `/metrics` answers."""
        return generate_latest(self.registry)

    def lag_of(self, partition: int) -> int | None:
        """The lag that was last reported, in events; None before the first report."""
        return self._lag_known.get(partition)

    # ------------------------------------------------------------------ ingest.observer.Observer

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Count one batch."""
        label = str(partition)
        dead = len(applied.dead_letters)
        self._applied.labels(label).inc(applied.records - dead - applied.duplicates - applied.skipped)
        self._bytes.labels(label).inc(value_bytes)
        for metric, amount in (
            (self._rejected, applied.rejected),
            (self._dead, dead),
            (self._duplicates, applied.duplicates),
            (self._skipped, applied.skipped),
        ):
            if amount:
                metric.labels(label).inc(amount)
        for name, amount in applied.rejected_commands.items():
            self._rejected_commands.labels(name.decode()).inc(amount)
        for name, amount in applied.commands.items():
            self._commands.labels(name.decode()).inc(amount)
        self._batch.observe(applied.records)
        self._seconds.observe(seconds)
        logger.debug("batch", partition=partition, next_offset=applied.next_offset, records=applied.records)
        for offset, reason in applied.dead_letters[:1]:
            logger.warning("dead_letters", partition=partition, first_offset=offset, first_reason=reason, count=dead)
        if applied.rejected and (count := self._rejections.count(applied.rejected)):
            offset, command, message = applied.rejections[0]
            logger.info(
                "rejected",
                partition=partition,
                first_offset=offset,
                first_command=command,
                first_error=message,
                count=count,
            )

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Say that a partition was set aside or goes on."""
        self._running.labels(str(partition)).set(condition is Condition.RUNNING)
        log = logger.info if condition is Condition.RUNNING else logger.error
        log("partition", partition=partition, condition=str(condition), reason=reason)

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """Set the lag."""
        self._lag_known[partition] = events
        self._lag_events.labels(str(partition)).set(events)
        self._lag_seconds.labels(str(partition)).set(seconds)

    def _makers(self) -> tuple[Callable[..., Counter], Callable[..., Gauge], Callable[..., Histogram]]:
        registry = self.registry

        def counter(name: str, text: str, labels: list[str]) -> Counter:
            return Counter(f"slotlog_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, labels: list[str]) -> Gauge:
            return Gauge(f"slotlog_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"slotlog_{name}", text, buckets=buckets, registry=registry)

        return counter, gauge, histogram


class _StateCollector(Collector):
    """Reads the open partitions at each scrape: nothing is kept up to date that nobody looks at."""

    def __init__(self, workers: Mapping[int, Worker]) -> None:
        self._workers = workers

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Keys by database and type, offsets and clocks, disk use by column family."""
        keys = GaugeMetricFamily(
            "slotlog_keys", "Keys, due ones included until they are cleaned up.", labels=["partition", "db", "type"]
        )
        offsets = GaugeMetricFamily("slotlog_next_offset", "First record not applied.", labels=["partition"])
        clocks = GaugeMetricFamily(
            "slotlog_clock_timestamp_seconds", "Log time of the partition.", labels=["partition"]
        )
        disk = GaugeMetricFamily(
            "slotlog_disk_bytes", "Bytes of RocksDB's files.", labels=["partition", "column_family"]
        )
        wal = GaugeMetricFamily("slotlog_wal_bytes", "Bytes of RocksDB's write-ahead logs.", labels=["partition"])
        for partition, worker in self._workers.items():
            if not worker.is_open:
                continue
            label, machine = str(partition), worker.machine
            for (db, type_code), count in machine.key_counts.items():
                keys.add_metric([label, str(db), TYPE_NAMES[type_code]], count)
            offsets.add_metric([label], machine.position.next_offset)
            clocks.add_metric([label], machine.position.clock_ms / 1000)
            if isinstance(worker.store, RocksStore):
                wal.add_metric([label], worker.store.wal_bytes())
                for column_family, size in worker.store.disk_bytes().items():
                    disk.add_metric([label, column_family], size)
        yield from (keys, offsets, clocks, disk, wal)

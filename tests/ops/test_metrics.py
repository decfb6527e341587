"""`/metrics`: complete, well formed, and of bounded size whatever events come."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from engine.registry import SPECS
from ingest.events import encode
from ingest.log import Entry, open_log
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, metric, wait_for_offset, wait_until

EVENTS = [
    *(encode("SET", ["a", str(number)]) for number in range(5)),
    encode("RPUSH", ["list", "x"]),
    encode("incr", ["list"]),  # a rejection
    encode("INCR", ["n"], id="same"),
    encode("INCR", ["n"], id="same"),  # a duplicate
    encode("EXEC", [["SET", "b", "1"], ["SADD", "s", "m"]]),
    b"\xc1",  # dead letters
    encode("NOSUCH", ["a"]),
]

EXPECTED = {
    "slotlog_events_applied": "counter",
    "slotlog_events_rejected": "counter",
    "slotlog_events_dead_lettered": "counter",
    "slotlog_events_duplicate": "counter",
    "slotlog_events_skipped": "counter",
    "slotlog_event_bytes_applied": "counter",
    "slotlog_commands_applied": "counter",
    "slotlog_commands_rejected": "counter",
    "slotlog_lag_events": "gauge",
    "slotlog_lag_seconds": "gauge",
    "slotlog_partition_running": "gauge",
    "slotlog_next_offset": "gauge",
    "slotlog_clock_timestamp_seconds": "gauge",
    "slotlog_keys": "gauge",
    "slotlog_disk_bytes": "gauge",
    "slotlog_wal_bytes": "gauge",
    "slotlog_batch_records": "histogram",
    "slotlog_batch_apply_seconds": "histogram",
    "slotlog_build_info": "gauge",
}


async def _append(data: Path) -> None:
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic="slotlog", partitions=1)
    await log.start()
    await log.append([Entry(0, b"\0\0", value) for value in EVENTS])
    await log.close()


@pytest.fixture(scope="module")
def exposition(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a service says of itself that has applied EVENTS."""
    data = tmp_path_factory.mktemp("metrics")
    asyncio.run(_append(data))
    with ServiceProcess(["--data", str(data), "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        wait_for_offset(service, len(EVENTS))
        wait_until(lambda: metric(service, "slotlog_lag_events") == {'partition="0"': 0.0}, "the lag to be known")
        return get(service, "/metrics").text


@pytest.fixture(scope="module")
def families(exposition: str) -> dict[str, Metric]:
    """The same, parsed."""
    return {family.name: family for family in text_string_to_metric_families(exposition)}


def values(family: Metric) -> dict[tuple[str, ...], float]:
    """Label values -> value."""
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_every_metric_is_there(families: dict[str, Metric]) -> None:
    """The list of metrics, each with its type and a help text, and no other."""
    assert {name: family.type for name, family in families.items()} == EXPECTED
    assert [] == [name for name, family in families.items() if not family.documentation]


def test_outcomes_are_counted(families: dict[str, Metric]) -> None:
    """Every record counts once: applied, dead-lettered or duplicate; rejected ones are applied as well."""
    counted = {name: values(families[f"slotlog_events_{name}"]) for name in ("applied", "dead_lettered", "duplicate")}

    assert {"applied": {("0",): 9.0}, "dead_lettered": {("0",): 2.0}, "duplicate": {("0",): 1.0}} == counted
    assert {("0",): 1.0} == values(families["slotlog_events_rejected"])
    assert {("SET",): 6.0, ("RPUSH",): 1.0, ("INCR",): 2.0, ("SADD",): 1.0} == values(
        families["slotlog_commands_applied"]
    )
    assert {("0", "0", "string"): 3.0, ("0", "0", "list"): 1.0, ("0", "0", "set"): 1.0} == values(
        families["slotlog_keys"]
    )
    assert {("0",): 0.0} == values(families["slotlog_lag_events"])


def test_histograms_see_less_than_a_millisecond(families: dict[str, Metric]) -> None:
    """Applying a batch may take 0.1 ms, so there are buckets that small."""
    buckets = [sample.labels["le"] for sample in families["slotlog_batch_apply_seconds"].samples if sample.labels]

    assert {"0.0001", "0.00025", "0.0005", "0.001"} <= set(buckets)


def test_labels_are_bounded(families: dict[str, Metric]) -> None:
    """No label has a value that an event could make up."""
    samples = [sample for family in families.values() for sample in family.samples]
    labels: dict[str, set[str]] = {}
    for sample in samples:
        for name, value in sample.labels.items():
            labels.setdefault(name, set()).add(value)

    assert {"partition", "command", "column_family", "db", "type", "le", "version"} == labels.keys()
    assert labels["command"] <= {name.decode() for name in SPECS}
    assert {"0"} == labels["partition"]


def test_exposition_is_well_formed(exposition: str) -> None:
    """`promtool check metrics` finds nothing, where it is installed; the client library's parser has read it anyway."""
    promtool = shutil.which("promtool")
    checked = (
        subprocess.run([promtool, "check", "metrics"], input=exposition, capture_output=True, text=True, check=False)
        if promtool
        else None
    )

    assert exposition.endswith("\n")
    assert checked is None or (0, "", "") == (checked.returncode, checked.stdout, checked.stderr)

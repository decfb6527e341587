"""`/metrics`: complete, well formed, and of bounded size whatever events come."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from ops.metrics import CATALOG, MetricKind
from slotlog.events import encode
from slotlog.log import Entry, open_log
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

NOT_THERE = {"slotlog_oldest_grave_timestamp_seconds"}
"""What has no value in a service in which nothing died."""


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
    with ServiceProcess(["--data", str(data), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        wait_for_offset(service, len(EVENTS))
        port = next(line["port"] for line in service.seen if line["event"] == "resp")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(b"PING\r\nGET b\r\n")
            assert b"+PONG\r\n$1\r\n1\r\n" == client.recv(100)
        wait_until(lambda: metric(service, "slotlog_lag_events") == {'partition="0"': 0.0}, "the lag to be known")
        return get(service, "/metrics").text


@pytest.fixture(scope="module")
def families(exposition: str) -> dict[str, Metric]:
    """The same, parsed."""
    return {family.name: family for family in text_string_to_metric_families(exposition)}


def values(family: Metric) -> dict[tuple[str, ...], float]:
    """Label values -> value."""
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_the_list_is_closed(families: dict[str, Metric]) -> None:
    """What is exposed is what the catalog has, each with its kind and its help, and nothing else."""
    expected = {
        each.name.removesuffix("_total"): (str(each.kind), each.help)
        for each in CATALOG
        if each.needs != "replay" and each.name not in NOT_THERE
    }

    assert {name: (family.type, family.documentation) for name, family in families.items()} == expected


def test_labels_are_those_of_the_list(families: dict[str, Metric]) -> None:
    """Each metric has the labels that the catalog gives it, and no more series than its bound."""
    for each in CATALOG:
        family = families.get(each.name.removesuffix("_total"))
        samples = family.samples if family is not None else []
        allowed = {*each.labels, "le"} if each.kind is MetricKind.HISTOGRAM else {*each.labels}

        assert all(sample.labels.keys() <= allowed for sample in samples), each.name
        assert len(samples) <= each.series_max(1), each.name


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
    assert {("0", "string"): 8.0, ("0", "list"): 1.0, ("0", "set"): 1.0} == values(
        families["slotlog_family_commands_applied"]
    )
    assert {("0",): 0.0} == values(families["slotlog_lag_events"])


def test_histograms_see_less_than_a_millisecond(families: dict[str, Metric]) -> None:
    """Applying a batch may take 0.1 ms, so there are buckets that small."""
    buckets = [sample.labels["le"] for sample in families["slotlog_batch_apply_seconds"].samples if sample.labels]

    assert {"0.0001", "0.00025", "0.0005", "0.001"} <= set(buckets)


def test_latency_is_that_of_the_oldest_event_of_a_batch(families: dict[str, Metric]) -> None:
    """Every event of the batch counts, whatever became of it, and they were written before the service began."""
    samples = {sample.name: sample.value for sample in families["slotlog_event_latency_seconds"].samples}

    assert len(EVENTS) == samples["slotlog_event_latency_seconds_count"]
    assert 0 < samples["slotlog_event_latency_seconds_sum"]


def test_clients_are_counted(families: dict[str, Metric]) -> None:
    """Commands by name, reads that found their key, bytes in and out, and the time from request to reply."""
    assert {("PING",): 1.0, ("GET",): 1.0} == values(families["slotlog_resp_commands"])
    assert {(): 1.0} == values(families["slotlog_resp_keyspace_hits"])
    assert ({(): 13.0}, {(): 14.0}) == (
        values(families["slotlog_resp_received_bytes"]),
        values(families["slotlog_resp_sent_bytes"]),
    )
    samples = {sample.name: sample.value for sample in families["slotlog_resp_request_seconds"].samples}
    assert 2.0 == samples["slotlog_resp_request_seconds_count"]


def test_state_is_ready_and_running(families: dict[str, Metric]) -> None:
    """A partition is in one condition at a time."""
    assert {(): 1.0} == values(families["slotlog_ready"])
    assert {("0", "running"): 1.0, ("0", "opening"): 0.0, ("0", "waiting"): 0.0, ("0", "stopped"): 0.0} == values(
        families["slotlog_partition_condition"]
    )


def test_exposition_is_well_formed(exposition: str) -> None:
    """`promtool check metrics` finds nothing."""
    promtool = shutil.which("promtool")
    assert promtool is not None, "apt-get install prometheus"
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=exposition, capture_output=True, text=True, check=False
    )

    assert (0, "", "") == (checked.returncode, checked.stdout, checked.stderr)

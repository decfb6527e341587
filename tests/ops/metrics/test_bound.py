"""The number of series has a bound that no client can move, and none contains client data."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from ops.metrics import CATALOG, LABELS, Metric, MetricKind
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get

CANARY = "canary4711"
UNITS = ("bytes", "seconds", "info", "ratio")


def hostile(number: int) -> list[list[str]]:
    """Commands of a client that wants to be seen, none of them twice."""
    word = f'{CANARY}{number}"}}\n'
    return [
        [word, word],
        [word.upper(), word],
        ["SET", word, word],
        ["HSET", f"{{{word}}}h", word, word],
        ["INCR", word],
        ["CONFIG", word],
        [f"CLIENT|{word}"],
        ["CLIENT", "SETNAME", f"{CANARY}{number}"],
        ["CLIENT", "SETINFO", "LIB-NAME", f"{CANARY}{number}"],
        ["AUTH", word, word],
        ["PUBLISH", word, word],
        ["SUBSCRIBE", word],
        ["UNSUBSCRIBE", word],
        ["SELECT", str(number)],
        ["EXEC"],
        ["BLPOP", word, "0.001"],
    ]


def send(port: int, commands: list[list[str]]) -> None:
    """Send all of them, and read until the last is answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        for command in [*commands, ["ECHO", "the-end"]]:
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in command]
            client.sendall(f"*{len(command)}\r\n{''.join(parts)}".encode())
        seen = b""
        while b"the-end" not in seen:
            seen += client.recv(65536)


def series(exposition: str) -> set[str]:
    """What stands before the values."""
    return {line.rpartition(" ")[0] for line in exposition.splitlines() if not line.startswith("#")}


def test_hostile_clients_make_no_series(tmp_path: Path) -> None:
    """After a first round of every command no further names, keys or errors add a series, and none shows a word."""
    address = "127.0.0.1:0"
    quiet = {"SLOTLOG_LOG_SCRUB_BYTES_PER_S": "0"}  # the end of its first round would be a series more
    with ServiceProcess(["--data", str(tmp_path), "--http", address, "--resp", address], quiet) as service:
        service.wait_for("started")
        port = next(line["port"] for line in service.seen if line["event"] == "resp")
        send(port, hostile(0))
        before = series(get(service, "/metrics").text)
        for number in range(1, 60):
            send(port, hostile(number))
        exposition = get(service, "/metrics").text

    assert before == series(exposition)
    assert CANARY.casefold() not in exposition.casefold()
    assert len(before) <= sum(metric.series_max(1) for metric in CATALOG)
    values = dict(line.rpartition(" ")[::2] for line in exposition.splitlines())
    applied = float(values['slotlog_events_applied_total{partition="0"}'])
    assert 0 < applied == float(values["slotlog_event_latency_seconds_count"])
    assert applied <= float(values["slotlog_resp_write_seconds_count"])


def test_the_bound_is_that_of_the_labels() -> None:
    """Each label is in the list with its bound; the product of them, and of partitions, bounds a metric."""
    assert set(LABELS) == {label for metric in CATALOG for label in metric.labels}
    assert [] == [name for name, label in LABELS.items() if not label.bound]
    assert ["partition"] == [name for name, label in LABELS.items() if not label.values_max]
    by_name = {metric.name: metric for metric in CATALOG}
    assert 64 * 4 == by_name["slotlog_partition_condition"].series_max(64)
    assert len(by_name["slotlog_batch_records"].buckets) + 3 == by_name["slotlog_batch_records"].series_max(64)


@pytest.mark.parametrize("metric", CATALOG, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    """https://prometheus.io/docs/practices/naming/: prefix, lower case, base units as suffix, `_total` for counters."""
    base = metric.name.removesuffix("_total")

    assert re.fullmatch(r"(slotlog|process|python_gc)_[a-z0-9_]+", metric.name)
    assert (metric.kind is MetricKind.COUNTER) == metric.name.endswith("_total")
    assert not re.search(r"_(ms|milliseconds|us|kb|mb|minutes|hours|percent|age)(_|$)", base)
    if metric.unit in UNITS:
        assert base.endswith(f"_{metric.unit}"), metric.unit
    assert metric.help.endswith(".")
    assert (metric.kind is MetricKind.HISTOGRAM) == bool(metric.buckets)
    assert list(metric.buckets) == sorted(set(metric.buckets))


def test_names_are_unique() -> None:
    """No metric stands twice in the list, and no series of a histogram is another metric."""
    names = [name for metric in CATALOG for name in metric.series_names]

    assert len(names) == len(set(names))

"""The metrics of several processes as one text."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from ops.serving.processes.exposition import joined

FIRST = b"""# HELP slotlog_ready 1 while `/readyz` answers 200.
# TYPE slotlog_ready gauge
slotlog_ready 1
# HELP slotlog_next_offset First record not applied.
# TYPE slotlog_next_offset gauge
slotlog_next_offset{partition="0"} 7
# HELP slotlog_disk_free_bytes Bytes free on the disk of the data directory.
# TYPE slotlog_disk_free_bytes gauge
slotlog_disk_free_bytes 100
"""
SECOND = b"""# HELP slotlog_next_offset First record not applied.
# TYPE slotlog_next_offset gauge
slotlog_next_offset{partition="1"} 9
# HELP slotlog_disk_free_bytes Bytes free on the disk of the data directory.
# TYPE slotlog_disk_free_bytes gauge
slotlog_disk_free_bytes 99
# HELP slotlog_peers_connected Those of them to which a link is up.
# TYPE slotlog_peers_connected gauge
slotlog_peers_connected 1
"""


def samples(text: bytes) -> dict[tuple[str, str], float]:
    """Every sample as Prometheus reads it: name, labels, value."""
    return {
        (sample.name, ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_each_series_has_the_number_of_its_process() -> None:
    """Each process' series are labelled, each family is there once, and the room on the disk as one series."""
    text = joined({0: FIRST, 1: SECOND})

    assert {
        ("slotlog_ready", "process=0"): 1,
        ("slotlog_next_offset", "partition=0,process=0"): 7,
        ("slotlog_next_offset", "partition=1,process=1"): 9,
        ("slotlog_disk_free_bytes", ""): 100,
        ("slotlog_peers_connected", "process=1"): 1,
    } == samples(text)
    assert 1 == text.count(b"# HELP slotlog_next_offset ") == text.count(b"# TYPE slotlog_next_offset ")


def test_a_process_that_is_away_is_not_ready() -> None:
    """Of a process that does not answer there is one series, by which the alert on readiness fires."""
    assert 0 == samples(joined({0: FIRST, 1: None}))["slotlog_ready", "process=1"]
    assert {("slotlog_ready", "process=0"): 0} == samples(joined({0: None}))

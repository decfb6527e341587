"""A service whose engine has a bug that leaves something impossible: it says so, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotlog.events import encode
from slotlog.log import Entry, open_log
from tests.faulty import POISON, REASON, plant_bug
from tests.ops.metrics.test_sources import scraped
from tests.ops.serving.test_health import served


async def test_the_service_says_why_it_has_stopped_and_goes_on_when_it_is_mended(tmp_path: Path) -> None:
    """`/readyz` is 503 with offset and reason, the metric says that the partition stands; then all is applied once."""
    (tmp_path / "data").mkdir()
    log = open_log(f"sqlite:///{tmp_path / 'data' / 'log.sqlite3'}", topic="slotlog", partitions=1)
    await log.start()
    events = [encode("INCR", ["n"]), encode("SET", ["bad", POISON]), encode("INCR", ["n"])]
    await log.append([Entry(0, None, each) for each in events])
    await log.close()
    with pytest.MonkeyPatch.context() as patch:
        plant_bug(patch)
        async with served(tmp_path) as it:
            stopped = await it.until("/readyz", 503)
            while stopped["partitions"][0]["condition"] != "stopped":
                stopped = await it.until("/readyz", 503)
            live, _ = await it.get("/livez")
            values = await scraped(it.service.metrics)
            patch.undo()
            await it.until("/readyz", 200)
            machine = it.service.consumer.partitions[0].worker.machine
            applied = machine.position.next_offset, machine.read(b"GET", [b"n"]), machine.read(b"GET", [b"bad"])

    assert f"offset 1 (SET) cannot be applied: {REASON}" == stopped["partitions"][0]["reason"]
    assert (200, 0.0) == (live, values['slotlog_partition_running{partition="0"}'])
    assert (3, b"2", POISON) == applied

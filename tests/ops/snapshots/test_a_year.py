"""A year of flights, the month twelve times, with snapshots and trimming: log and state level off.

`make nightly` takes all flights of twelve months; `make test` FLIGHT_MONTHS=4 and one flight in FLIGHT_EVERY=60.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver
from ops.config import load_settings
from ops.demo.flights import Flight, FlightEvent, events, read_flights
from ops.state.opening.directories import home_of, prepare_data, store_opener
from slotlog.log import open_log
from slotlog.producer import Producer
from tests.ops.verbs import succeed

MONTHS = int(os.environ.get("FLIGHT_MONTHS", "4"))
EVERY = int(os.environ.get("FLIGHT_EVERY", "60"))
MONTH_MS = 31 * 24 * 3600 * 1000


class Month(NamedTuple):
    """The sizes after a month: bytes of the log's file and of the state's, records in the log, and keys."""

    log_bytes: int
    state_bytes: int
    records: int
    keys: int


def shifted(flights: list[Flight], month: int) -> list[FlightEvent]:
    """The events of a month, which begins with an empty table of delays, as the board shows those of one month."""
    later = [
        each._replace(name=f"{month}+{each.name}", scheduled_ms=each.scheduled_ms + month * MONTH_MS)
        for each in flights
    ]
    stream = list(events(later))
    return [FlightEvent(stream[0].time_ms, "DEL", ["delays"], None), *stream]


async def live(data: Path, stream: list[FlightEvent]) -> None:
    """Send the events, and apply them to the state that is there."""
    settings = load_settings(data=data)
    log = open_log(settings.log_url, topic=settings.topic, partitions=1)
    await log.start()
    quiet = NullObserver()
    worker = Worker(home_of(settings, 0), log, store_opener(settings, data), None, quiet)
    consumer = Consumer(log, {0: worker}, quiet)
    try:
        async with Producer(log) as producer:
            for event in stream:
                await producer.send(event.name, *event.args, id=event.event_id, time_ms=event.time_ms)
        end = await log.end_offset(0)
        await consumer.open()
        await consumer.run_to({0: end}, lambda: None)
    finally:
        consumer.close()
        await log.close()


def facts(*words: object) -> Any:
    """What a verb says in JSON."""
    return json.loads(succeed(*words, "--json"))


def keep(data: Path) -> Month:
    """What a service does by schedule: clean, take a snapshot, delete older ones, cut the log."""
    succeed("clean", "--now", "--data", data)
    (taken,) = facts("snapshot", "--data", data)["snapshots"]
    succeed("snapshots", "collect", "--data", data)
    (cut,) = facts("trim", "--data", data)["partitions"]
    log_bytes = sum(path.stat().st_size for path in data.glob("log.sqlite3*"))
    return Month(log_bytes, taken["bytes"], taken["next_offset"] - cut["trimmed_to"], taken["keys"])


@pytest.mark.timeout(7200 if MONTHS * 60 > EVERY * 4 else 300)
def test_log_and_state_level_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second month on neither grows; what is restored has counted every flight of the year."""
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__KEEP", "1")
    data, flights = tmp_path / "data", list(read_flights())[::EVERY]
    prepare_data(load_settings(data=data))
    months = []
    for month in range(MONTHS):
        asyncio.run(live(data, shifted(flights, month)))
        months.append(keep(data))
    succeed("restore", "--to", tmp_path / "restored")
    flown = Counter(each.carrier for each in flights if each.delay_minutes is not None)
    read = {each: succeed("query", "--data", tmp_path / "restored", "GET", f"departed:{each}") for each in flown}
    first, last = months[1], months[-1]

    assert {carrier: f'"{MONTHS * count}"\n' for carrier, count in flown.items()} == read
    assert {1} == {each.records for each in months}
    assert {first.keys} == {each.keys for each in months[1:]}
    assert last.log_bytes < 1.1 * first.log_bytes, months
    assert last.state_bytes < 1.2 * first.state_bytes, months
    assert facts("digest", "--data", data)["digest"] == facts("digest", "--data", tmp_path / "restored")["digest"]

"""Fills an embedded log for reads in the past, and a store of snapshots beside it.

An event sets one field of one of 5,000 hashes of 10 fields, so that the state is as large after any number of events.
A few, spread over all of the log, set fields of two more, 100 times each: these are asked for. `data-EVENTS` has the
log and a state, `snapshots-EVENTS` a verified snapshot of each 100,000 events, the last one 50,000 before the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver
from ops.config import Settings, load_settings
from ops.progress import progress
from ops.state.opening.directories import home_of, prepare_data, store_opener
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import slot
from tests.ops.verbs import succeed

TOUCHES: Final = 100
ASKED: Final = (b"asked:0", b"asked:1")
START_MS: Final = 1_700_000_000_000
_HASHES: Final = 5_000
FIELDS: Final = 10
_AT_ONCE: Final = 5_000
_FILLED: Final = "filled"
"""A file in the data directory: everything is there."""


async def filled(directory: Path, events: int, snapshot_every: int) -> Settings:
    """The settings of a log with so many events; made, unless `directory` has it."""
    store = directory / f"snapshots-{events}"
    settings = load_settings(data=directory / f"data-{events}", snapshots={"url": str(store)})
    if (settings.data / _FILLED).exists():
        return settings
    prepare_data(settings)
    log = open_log(settings.log_url, topic=settings.topic, partitions=1)
    await log.start()
    try:
        entries = _entries(events)
        with progress("append", events, "events") as advance:
            while some := list(islice(entries, _AT_ONCE)):
                await log.append(some)
                advance(await log.end_offset(0))
    finally:
        await log.close()
    for end in range(events - snapshot_every // 2, 0, -snapshot_every)[::-1]:
        await _apply(settings, end)
        succeed("snapshot", "--data", settings.data, "--to", store)
    (settings.data / _FILLED).touch()
    return settings


def _entries(events: int) -> Iterator[Entry]:
    random, every = Random(1), events // (TOUCHES * len(ASKED))
    for number in range(events):
        key = b"hash:%d" % random.randrange(_HASHES)
        if number % every == 0:
            key = ASKED[number // every % len(ASKED)]
        args = [key, b"field %d" % random.randrange(FIELDS), b"value %d" % number]
        yield Entry(0, slot(key).to_bytes(2, "big"), encode("HSET", args), START_MS + number)


async def _apply(settings: Settings, end: int) -> None:
    log = open_log(settings.log_url, topic=settings.topic, partitions=1, create=False)
    await log.start()
    observer = NullObserver()
    worker = Worker(home_of(settings, 0), log, store_opener(settings, settings.data), None, observer)
    consumer = Consumer(log, {0: worker}, observer)
    try:
        await consumer.open()
        await consumer.run_to({0: end})
    finally:
        consumer.close()
        await log.close()

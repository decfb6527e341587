"""Measures `slotlog serve --processes 2` beside Quix Streams in one process: HSETs from a topic of two partitions.

    quix_hset_two    HSET of one field to one of 10,000 hashes of 20 fields: the events of `quix_hset`, 5 times as many

All events are in the topic before the clock starts. Ours runs from the last look at the service's metrics at which so
few were applied that a process may not have begun, to the last one at which some were left: starting is no part of it,
as joining its group is none of Quix Streams'. Both keep a write-ahead log or changelog, and share the cores with the
broker.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.applying import quix
from benchmarks.applying.sources import chunks
from benchmarks.applying.workloads import SEED, Event, Size, hset
from benchmarks.measure import Line
from benchmarks.resp.processes import catching_up_rate
from slotlog.log import Entry, KafkaSettings, open_log
from slotlog.shared.slots import partition_of

NAME: Final = "quix_hset_two"
PARTITIONS: Final = 2
_TIMES: Final = 5


async def compare(size: Size, bootstrap: str) -> Line:
    """Both in turn, `size.pairs` times.

    Raises:
        RuntimeError: Quix Streams failed, or counted other new fields.
    """
    size = replace(size, events=_TIMES * size.events)
    url, topic = f"kafka://{bootstrap}", f"bench-{secrets.token_hex(4)}"
    fields = await _fill(size, url, topic)
    ours, theirs = [], []
    for _ in range(size.pairs):
        ours.append(catching_up_rate(2, PARTITIONS, size.events, url, topic))
        with TemporaryDirectory(prefix="slotlog-bench-") as directory:
            report = await quix.run(bootstrap, topic, size.events, Path(directory) / "quix")
        if report["new_fields"] != fields:
            raise RuntimeError(f"Quix Streams saw {report['new_fields']} new fields, and there are {fields}")
        theirs.append(size.events / report["seconds"][0])
    ratios = [mine / rival for mine, rival in zip(ours, theirs, strict=True)]
    figures = {
        "per_second": round(median(ours)),
        "floor_per_second": round(median(theirs)),
        "ratio": round(median(ratios), 3),
        "events": size.events,
        "ratios": [round(ratio, 3) for ratio in ratios],
    }
    return Line(NAME, figures)


async def _fill(size: Size, url: str, topic: str) -> int:
    """Append the events to a new topic. Returns how many different fields they have."""
    log = open_log(url, topic=topic, partitions=PARTITIONS, kafka=KafkaSettings(replicas=1))
    fields: set[tuple[bytes, bytes]] = set()

    def entry(event: Event) -> Entry:
        fields.add((event.args[0], event.args[1]))
        key = event.key()
        return Entry(partition_of(int.from_bytes(key), PARTITIONS), key, event.value(), event.time_ms)

    await log.start()
    try:
        for chunk in chunks(map(entry, islice(hset(size, Random(SEED)), size.events))):
            await log.append(chunk)
    finally:
        await log.close()
    return len(fields)

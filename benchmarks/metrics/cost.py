"""Measures what metrics cost: a scrape, and counting on the hot path of worker and RESP server.

metrics_counting      counting by itself: a batch of 1,000 commands, and what one read from a socket asked for
metrics_scrape_N      a scrape of N partitions with a thousand keys each, and how long it held the event loop at once
metrics_hset          the worker from the embedded log, with metrics and without
metrics_CMD_DEPTH     over RESP, slotlog and `benchmarks.metrics.unmeasured`
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter
from typing import Any, Final

from benchmarks.applying.sources import Source, open_embedded
from benchmarks.applying.workloads import START_MS, Size, before, measured
from benchmarks.measure import Result, Seconds, Stopwatch
from benchmarks.resp.commands import RespSize, fill, measure
from engine.apply.records import Applied
from ingest.applying.batches.worker import Worker
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.reporting.observer import NullObserver, Observer
from ops.config import Settings
from ops.logging import configure_logging
from ops.metrics import Metrics, Watched
from ops.state.opening.directories import home_of, shared_memory, store_opener
from slotlog.distribution import REQUEST_SECONDS, Distribution
from slotlog.events import encode
from slotlog.log import LogRecord, open_log
from slotlog.shared.slots import partition_of, slot
from tests.real.process import free_ports
from tests.wire.servers import RespServer, slotlog

PARTITIONS: Final = (1, 64)
_KEYS: Final = 1000
_SCRAPES: Final = 20
_COUNTED: Final = 1000
_COMMANDS: Final = ("get", "set")
_DEPTHS: Final = (1, 16)


@dataclass(frozen=True, slots=True)
class ScrapeResult:
    """One line of output: scrapes of so many partitions.

    Attributes:
        series: lines with a value.
        bytes: of the text.
        seconds, cpu_seconds: of each scrape.
        held_seconds: the longest that each held the event loop without a break.
    """

    partitions: int
    series: int
    bytes: int
    seconds: list[float]
    cpu_seconds: list[float]
    held_seconds: list[float]

    def line(self) -> str:
        """The result as JSON."""
        return json.dumps(
            {
                "name": f"metrics_scrape_{self.partitions}",
                "ms": round(median(self.seconds) * 1000, 1),
                "cpu_ms": round(median(self.cpu_seconds) * 1000, 1),
                "held_ms": round(median(self.held_seconds) * 1000, 1),
                "series": self.series,
                "bytes": self.bytes,
            }
        )


@dataclass(frozen=True, slots=True)
class CountResult:
    """One line of output: what counting costs by itself."""

    batch_seconds: float
    read_seconds: float

    def line(self) -> str:
        """The result as JSON."""
        batch_us, read_us = (round(seconds * 1e6, 2) for seconds in (self.batch_seconds, self.read_seconds))
        return json.dumps({"name": "metrics_counting", "batch_us": batch_us, "read_us": read_us})


async def run_metrics(
    size: Size, resp_size: RespSize, partitions: Sequence[int] = PARTITIONS
) -> AsyncIterator[CountResult | ScrapeResult | Result]:
    """All of it; scrapes of so many `partitions`."""
    configure_logging("error")  # what `Metrics` says of a partition is no result
    yield _counting()
    for number in partitions:
        with TemporaryDirectory(prefix="slotlog-bench-") as directory:
            yield await _scrape(Path(directory), number)
    yield await _worker(size)
    for result in _over_resp(replace(resp_size, commands=_COMMANDS, depths=_DEPTHS)):
        yield result


def _counting() -> CountResult:
    """Of each the median of some rounds."""
    metrics, requests = Metrics(), Distribution(REQUEST_SECONDS)
    applied = Applied(_COUNTED)
    applied.records, applied.first_time_ms = _COUNTED, START_MS
    applied.commands[b"HSET"] = _COUNTED
    batches, reads = [], []
    for _ in range(_SCRAPES):
        watch = Stopwatch()
        for _ in range(_COUNTED):
            metrics.applied(0, applied, 100 * _COUNTED, 0.005)
        batches.append(watch.read()[0] / _COUNTED)
        watch = Stopwatch()
        for _ in range(_COUNTED):
            requests.add(monotonic(), 16)
        reads.append(watch.read()[0] / _COUNTED)
    return CountResult(median(batches), median(reads))


# ---------------------------------------------------------------------- scrapes


async def _scrape(directory: Path, partitions: int) -> ScrapeResult:
    settings = Settings(data=directory, partitions=partitions)
    log = open_log(f"sqlite:///{directory / 'log'}", topic=settings.topic, partitions=partitions)
    metrics = Metrics()
    memory = shared_memory(settings)
    opener = store_opener(settings, directory, memory)
    workers = {each: Worker(home_of(settings, each), log, opener, None, metrics) for each in range(partitions)}
    metrics.watch(
        Watched(settings, {each: OwnedPartition(worker) for each, worker in workers.items()}, log, memory, None, _ready)
    )
    await log.start()
    try:
        for worker in workers.values():
            worker.open()
            records = _records(worker.partition, partitions)
            await worker.apply(records, 0, len(records))
            worker.store.flush_all()
            metrics.lag(worker.partition, 0, 0.0)
        scrapes = [await _timed(metrics) for _ in range(_SCRAPES)]
    finally:
        for worker in workers.values():
            worker.close()
        await log.close()
    seconds, held, texts = zip(*scrapes, strict=True)
    series = sum(not line.startswith(b"#") for line in texts[-1].splitlines())
    walls, cpus = zip(*seconds, strict=True)
    return ScrapeResult(partitions, series, len(texts[-1]), list(walls), list(cpus), list(held))


async def _timed(metrics: Metrics) -> tuple[Seconds, float, bytes]:
    """How long a scrape took, how long it held the loop at once, and its text."""
    held = 0.0

    async def look() -> None:
        nonlocal held
        before = perf_counter()
        while True:
            await asyncio.sleep(0)
            now = perf_counter()
            held, before = max(held, now - before), now

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    watch = Stopwatch()
    text = await metrics.exposition()
    seconds = watch.read()
    await asyncio.sleep(0)
    looking.cancel()
    with suppress(asyncio.CancelledError):
        await looking
    return seconds, held, text


async def _ready() -> dict[str, Any]:
    return {"ready": True}


def _records(partition: int, partitions: int) -> list[LogRecord]:
    """Keys of one partition, of several families."""
    tag = next(tag for number in count() if partition_of(slot(tag := b"%d" % number), partitions) == partition)
    key = slot(tag).to_bytes(2, "big")
    shapes = (("SET", ["1"]), ("HSET", ["field", "1"]), ("ZADD", ["1", "member"]), ("RPUSH", ["1"]), ("SADD", ["1"]))
    names = [f"{{{tag.decode()}}}{number}" for number in range(_KEYS)]
    values = [encode(command, [name, *args]) for name, (command, args) in zip(names, cycle(shapes), strict=False)]
    return [(offset, START_MS + offset, key, value) for offset, value in enumerate(values)]


# ---------------------------------------------------------------------- hot path


async def _worker(size: Size) -> Result:
    """Ours is with metrics, the floor without."""
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        scratch = Path(directory)
        async with open_embedded(scratch, before("hset", size), measured("hset", size)) as source:
            pairs = []
            for number in range(size.pairs + 1):
                sides: list[Observer] = [Metrics(), NullObserver()]
                ours, theirs = [await _pass(scratch / f"{number}-{at}", source, side) for at, side in enumerate(sides)]
                pairs.append((ours, theirs))
            return Result("metrics_hset", source.end - source.start, pairs[1:])  # the first has warmed up


async def _pass(state: Path, source: Source, observer: Observer) -> Seconds:
    gc.collect()
    seconds = await source.apply(state, source.end, observer)
    shutil.rmtree(state)
    return seconds


def _over_resp(size: RespSize) -> Iterator[Result]:
    with ExitStack() as stack:
        homes = [Path(stack.enter_context(TemporaryDirectory(prefix="slotlog-bench-"))) for _ in range(2)]
        servers = [slotlog(homes[0]), _unmeasured(homes[1])]
        for server in servers:
            stack.enter_context(server)
            fill(server, size.keys)
        for command in size.commands:
            for depth in size.depths:
                requests = size.requests if depth > 1 else size.requests // 4
                pairs = [_pair(servers, command, depth, requests, size.keys, number) for number in range(size.pairs)]
                yield Result(f"metrics_{command}_{depth}", requests, pairs)


def _pair(
    servers: Sequence[RespServer], command: str, depth: int, requests: int, keys: int, number: int
) -> tuple[Seconds, Seconds]:
    """A run of each, which one first by turns: the first may leave a cold or a busy machine to the second."""
    order = (0, 1) if number % 2 else (1, 0)
    runs = {at: measure(servers[at], command, depth, requests, keys) for at in order}
    ours, theirs = [Seconds(requests / runs[at].per_second, requests * runs[at].cpu_us / 1e6) for at in (0, 1)]
    return ours, theirs


def _unmeasured(directory: Path) -> RespServer:
    (port,) = free_ports(1)
    options = ["--data", str(directory / "data"), "--http", "", "--resp", f"127.0.0.1:{port}"]
    command = [sys.executable, "-m", "benchmarks.metrics.unmeasured", "serve", *options]
    return RespServer("slotlog without metrics", command, directory, port)

"""Measures a service of two processes beside one of a single process, on the same log and machine.

processes_hset_kafka    how fast each catches up with HSETs in a topic of four partitions: 100,000 fields, 1,000 hashes
processes_set_16_…      SET of redis-benchmark by 16 in a pipeline, on 50 connections, with either log; with two
                        processes in its cluster mode; and how long an append took, in which processes that share
                        an embedded log wait for each other

Load generator and broker take their part of the same cores.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Final

from benchmarks.applying.sources import EMBEDDED, KAFKA, running_broker
from benchmarks.resp.commands import CLIENTS, LoadError
from slotlog.events import encode
from slotlog.log import Entry, KafkaSettings, open_log
from slotlog.shared.slots import partition_of, slot
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, metric, wait_until
from tests.real.process import free_row

PARTITIONS: Final = 4
PROCESSES: Final = (1, 2)
_DEPTH: Final = 16
_HASHES: Final = 1000
_FIELDS: Final = 100
_AT_ONCE: Final = 1000
_RUN_SECONDS_MAX: Final = 300
_SAMPLE_SECONDS: Final = 0.1
_BEGUN: Final = 0.1
"""Part of the events after which all processes have begun."""


@dataclass(frozen=True, slots=True)
class ProcessesSize:
    """How much is measured.

    Attributes:
        events: in the topic.
        requests: of one run of redis-benchmark.
        pairs: runs of each service.
    """

    events: int
    requests: int
    pairs: int


PROCESSES_LARGE: Final = ProcessesSize(events=1_000_000, requests=200_000, pairs=5)
PROCESSES_SMOKE: Final = ProcessesSize(events=4_000, requests=4_000, pairs=1)


@dataclass(frozen=True, slots=True)
class ProcessesResult:
    """One line of output.

    Attributes:
        name: what was measured.
        rates: a second, by the number of processes, in their turns.
        append_ms: how long an append took to be durable, as a mean, by the number of processes; empty: nothing was
            appended.
        load: of the machine when it began: processes that ran or wanted to, as a mean of the last minute.
    """

    name: str
    rates: dict[int, list[float]]
    load: float
    append_ms: dict[int, float] = field(default_factory=dict)

    def line(self) -> str:
        """The result as JSON: medians, and the median of the ratios of the pairs."""
        one, two = (self.rates[number] for number in PROCESSES)
        ratios = [theirs / ours for ours, theirs in zip(one, two, strict=True)]
        names = dict(zip(PROCESSES, ("append_ms", "two_append_ms"), strict=True))
        return json.dumps(
            {
                "name": self.name,
                "per_second": round(median(one)),
                "two_per_second": round(median(two)),
                "two_ratio": round(median(ratios), 3),
                "ratios": [round(ratio, 3) for ratio in ratios],
                **{names[number]: round(ms, 2) for number, ms in self.append_ms.items()},
                "cores": os.cpu_count(),
                "load": self.load,
            }
        )


async def run_processes(size: ProcessesSize, sources: Sequence[str]) -> AsyncIterator[ProcessesResult]:
    """Measure all three, as far as `sources` has their logs.

    Raises:
        LoadError: redis-benchmark met an error.
    """
    if EMBEDDED in sources:
        yield _sets(size, EMBEDDED, "")
    if KAFKA in sources:
        async with running_broker() as bootstrap:
            url = f"kafka://{bootstrap}"
            yield _sets(size, KAFKA, url)
            topic = f"bench-{secrets.token_hex(4)}"
            await _fill(url, topic, size.events)
            yield _catching_up(size, url, topic)


# ---------------------------------------------------------------------- clients


def _sets(size: ProcessesSize, source: str, log_url: str) -> ProcessesResult:
    load, rates = _load(), {number: list[float]() for number in PROCESSES}
    with ExitStack() as stack:
        servers = {number: stack.enter_context(_served(number, log_url)) for number in PROCESSES}
        for _ in range(size.pairs):
            for number, (_, port) in servers.items():
                rates[number].append(_set_rate(port, number, size.requests))
        append_ms = {number: _append_ms(service) for number, (service, _) in servers.items()}
    return ProcessesResult(f"processes_set_{_DEPTH}_{source}", rates, load, append_ms)


def _append_ms(service: ServiceProcess) -> float:
    """The mean time that an append of the service took to be durable: other processes' commits are part of it."""
    seconds, appends = (metric(service, f"slotlog_log_append_seconds_{what}") for what in ("sum", "count"))
    return sum(seconds.values()) / sum(appends.values()) * 1000


@contextmanager
def _served(processes: int, log_url: str) -> Iterator[tuple[ServiceProcess, int]]:
    """A service on a log of its own, and the port of its first process."""
    port = free_row(processes)
    topic = f"bench-{secrets.token_hex(4)}"
    with TemporaryDirectory(prefix="slotlog-bench-") as data:
        options = [*_options(data, processes, log_url, topic), "--resp", f"127.0.0.1:{port}"]
        with ServiceProcess(options, _ENVIRONMENT) as service:
            service.wait_for("http")
            wait_until(lambda: get(service, "/readyz").status == 200, "the service to be ready")
            yield service, port
            service.terminate()


def _set_rate(port: int, processes: int, requests: int) -> float:
    """SETs a second.

    Raises:
        LoadError: redis-benchmark met an error.
    """
    options = ["-p", port, "-c", CLIENTS, "-P", _DEPTH, "-n", requests, "-r", 100_000, "-t", "set", "--csv"]
    options += ["--cluster"] if processes > 1 else []  # it refuses a cluster of one
    done = subprocess.run(
        ["redis-benchmark", *map(str, options)], capture_output=True, text=True, check=False, timeout=_RUN_SECONDS_MAX
    )
    rows = [line for line in done.stdout.splitlines() if line.startswith('"SET"')]
    if done.returncode != 0 or not rows:
        raise LoadError(f"redis-benchmark ended with {done.returncode}: {done.stderr or done.stdout}")
    return float(rows[0].split(",")[1].strip('"'))


# ---------------------------------------------------------------------- catching up


async def _fill(url: str, topic: str, events: int) -> None:
    """Append HSETs to all partitions of a new topic."""
    log = open_log(url, topic=topic, partitions=PARTITIONS, kafka=KafkaSettings(replicas=1))
    await log.start()
    chosen = random.Random(0)
    try:
        for begin in range(0, events, _AT_ONCE):
            await log.append([_hset(chosen) for _ in range(min(_AT_ONCE, events - begin))])
    finally:
        await log.close()


def _hset(chosen: random.Random) -> Entry:
    key = b"hash:%d" % chosen.randrange(_HASHES)
    value = encode("HSET", [key, b"field:%d" % chosen.randrange(_FIELDS), b"%016d" % chosen.randrange(1 << 32)])
    number = slot(key)
    return Entry(partition_of(number, PARTITIONS), number.to_bytes(2, "big"), value)


def _catching_up(size: ProcessesSize, url: str, topic: str) -> ProcessesResult:
    load, rates = _load(), {number: list[float]() for number in PROCESSES}
    for _ in range(size.pairs):
        for number in PROCESSES:
            rates[number].append(catching_up_rate(number, PARTITIONS, size.events, url, topic))
    return ProcessesResult("processes_hset_kafka", rates, load)


def catching_up_rate(processes: int, partitions: int, events: int, url: str, topic: str) -> float:
    """Events that a service applies in a second while it catches up, by looks at its metrics."""
    with TemporaryDirectory(prefix="slotlog-bench-") as data:
        options = [*_options(data, processes, url, topic, partitions), "--resp", ""]
        with ServiceProcess(options, _ENVIRONMENT) as service:
            service.wait_for("http")
            looks = [(perf_counter(), 0.0)]
            while looks[-1][1] < events:
                sleep(_SAMPLE_SECONDS)
                applied = sum(metric(service, "slotlog_next_offset").values())
                looks.append((perf_counter(), applied))
            service.terminate()
    return rate_between(looks, events)


def rate_between(looks: Sequence[tuple[float, float]], events: int) -> float:
    """Events a second between two looks, each with its time in seconds and how many events were applied by then.

    From the last one at which so few were applied that not all processes may have begun, to the last one at which some
    were left: when a look finds all of them applied, they may have been so for up to `_SAMPLE_SECONDS`.
    """
    began, before = [look for look in looks if look[1] <= _BEGUN * events][-1]
    now, applied = [look for look in looks if look[1] < events][-1]
    if applied == before:  # a smoke run, done before the next look
        now, applied = looks[-1]
    return (applied - before) / (now - began)


# ---------------------------------------------------------------------- both

_ENVIRONMENT: Final = {"SLOTLOG_LOG_LEVEL": "info", "SLOTLOG_KAFKA__REPLICAS": "1"}


def _options(data: str, processes: int, log_url: str, topic: str, partitions: int = PARTITIONS) -> list[str]:
    options = ["--data", str(Path(data) / "state"), "--topic", topic, "--partitions", str(partitions)]
    options += ["--processes", str(processes), "--http", "127.0.0.1:0"]
    return [*options, "--log", log_url] if log_url else options


def _load() -> float:
    return round(os.getloadavg()[0], 1)

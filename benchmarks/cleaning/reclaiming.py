"""Measures SET over RESP while dead collections are reclaimed, and without.

The server holds sets of 1,000 members. In each pair redis-benchmark sends its SETs first while nothing is to be
cleaned; then the sets are deleted, and once their reclaim has begun it sends as many again, which have to end before
the reclaim does. The ratio is that of the p99 of both, the median over the pairs. `reclaimed` says how many elements
went during the runs beside it.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

from benchmarks.resp.commands import LoadError, Run, measure
from tests.real.process import free_ports
from tests.wire.servers import RespServer, slotlog

MEMBERS: Final = 1000
_KEYS: Final = 1000
_PIPELINE: Final = 20
_WAIT_SECONDS_MAX: Final = 600.0
_RECLAIMED: Final = re.compile(r"^slotlog_reclaimed_records_total\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReclaimingSize:
    """How much is measured: SETs of a run, pairs of runs, and elements reclaimed in each pair."""

    requests: int
    pairs: int
    elements: int


RECLAIMING_LARGE: Final = ReclaimingSize(requests=10_000, pairs=5, elements=1_000_000)
RECLAIMING_SMOKE: Final = ReclaimingSize(requests=200, pairs=1, elements=200_000)


@dataclass(frozen=True, slots=True)
class ReclaimingResult:
    """One line of output."""

    size: ReclaimingSize
    without: list[Run]
    beside: list[Run]
    reclaimed: int
    load: float

    def line(self) -> str:
        """The result as JSON; times in ms."""
        pairs = list(zip(self.without, self.beside, strict=True))
        return json.dumps(
            {
                "name": "reclaim_beside",
                "p99_ratio": round(median(beside.p99_ms / without.p99_ms for without, beside in pairs), 2),
                "p99_ratios": [round(beside.p99_ms / without.p99_ms, 2) for without, beside in pairs],
                "p99_ms": round(median(run.p99_ms for run in self.beside), 2),
                "p99_without_ms": round(median(run.p99_ms for run in self.without), 2),
                "per_second": round(median(run.per_second for run in self.beside)),
                "per_second_without": round(median(run.per_second for run in self.without)),
                "elements": self.size.elements * self.size.pairs,
                "reclaimed": self.reclaimed,
                "requests": self.size.requests,
                "load": self.load,
            }
        )


async def run_reclaiming(size: ReclaimingSize) -> AsyncIterator[ReclaimingResult]:
    """Measure it, on the embedded log.

    Raises:
        LoadError: redis-benchmark failed, or the reclaim was over before it was measured.
    """
    load = round(os.getloadavg()[0], 1)
    (port,) = free_ports(1)
    with (
        TemporaryDirectory(prefix="slotlog-bench-") as directory,
        slotlog(Path(directory), options=["--http", f"127.0.0.1:{port}"]) as server,
    ):
        runs = [_pair(server, port, size, number) for number in range(size.pairs)]
    without, beside, reclaimed = zip(*runs, strict=True)
    yield ReclaimingResult(size, list(without), list(beside), sum(reclaimed), load)


def _pair(server: RespServer, port: int, size: ReclaimingSize, number: int) -> tuple[Run, Run, int]:
    names = [b"dead:%d:%d" % (number, at) for at in range(size.elements // MEMBERS)]
    with closing(server.connect()) as connection:
        members = [b"member:%012d" % at for at in range(MEMBERS)]
        for at in range(0, len(names), _PIPELINE):
            connection.pipeline([[b"SADD", name, *members] for name in names[at : at + _PIPELINE]])
        without = measure(server, "set", 1, size.requests, _KEYS)
        before = _reclaimed(port)
        connection.call("DEL", *names)
        began = _wait(port, before + 1)
        beside = measure(server, "set", 1, size.requests, _KEYS)
        during = _reclaimed(port) - began
        if not 0 < during < before + size.elements - began:
            raise LoadError(f"{during} elements were reclaimed during the run: take fewer --events, or more elements")
        _wait(port, before + size.elements)
    return without, beside, during


def _wait(port: int, reclaimed: int) -> int:
    """Wait until so many elements are reclaimed; returns how many are."""
    until = monotonic() + _WAIT_SECONDS_MAX
    while (found := _reclaimed(port)) < reclaimed:
        if monotonic() > until:
            raise LoadError(f"{found} elements are reclaimed, {reclaimed} were to be")
        sleep(0.02)
    return found


def _reclaimed(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        return sum(int(float(value)) for value in _RECLAIMED.findall(response.read().decode()))

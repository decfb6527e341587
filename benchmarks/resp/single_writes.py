"""Measures single writes of 50 clients that wait for each reply: slotlog, a floor and valkey-server, in turns.

The floor is what a Python server can be at best, `benchmarks.resp.floor_server`: its event loop and one fdatasync for a
group of writes, and nothing else. All three answer a write when it is on disk.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.resp import floor_server
from benchmarks.resp.commands import Run, measure
from tests.real.process import free_ports
from tests.wire.servers import RespServer, slotlog, valkey

_OURS, _FLOOR, _VALKEY = "slotlog", "floor", "valkey"
WRITES: Final = ("set", "hset", "incr", "lpush", "zadd")


@dataclass(frozen=True, slots=True)
class SingleSize:
    """How much is measured.

    Attributes:
        requests: of a run.
        pairs: runs of each server.
        keys: how many keys, fields and members the commands choose from.
        commands: some of `WRITES`.
    """

    requests: int
    pairs: int
    keys: int
    commands: Sequence[str] = WRITES


SINGLE_LARGE: Final = SingleSize(requests=40_000, pairs=5, keys=100_000)
SINGLE_SMOKE: Final = SingleSize(requests=500, pairs=1, keys=1_000, commands=("set", "zadd"))


@dataclass(frozen=True, slots=True)
class SingleResult:
    """One line of output: a command.

    Attributes:
        command: which.
        runs: by server, in their turns.
        load: of the machine when it began.
    """

    command: str
    runs: dict[str, list[Run]]
    load: float

    def line(self) -> str:
        """The result as JSON: medians of the runs; a ratio is the median over the pairs, by valkey-server's."""
        shown: dict[str, object] = {"name": f"single_{self.command}"}
        for server, runs in self.runs.items():
            prefix = "" if server == _OURS else f"{server}_"
            shown[f"{prefix}per_second"] = round(median(run.per_second for run in runs))
            for field in ("p50_ms", "p99_ms", "cpu_us"):
                shown[prefix + field] = round(median(getattr(run, field) for run in runs), 2)
            if server != _VALKEY:
                pairs = zip(runs, self.runs[_VALKEY], strict=True)
                shown[f"{prefix}p99_ratio"] = round(median(run.p99_ms / its.p99_ms for run, its in pairs), 2)
        return json.dumps({**shown, "pairs": len(self.runs[_OURS]), "load": self.load})


async def run_single(size: SingleSize) -> AsyncIterator[SingleResult]:
    """Measure each write.

    Raises:
        LoadError: redis-benchmark met an error, or a server did less than it was asked.
    """
    with _servers() as servers:
        for command in size.commands:
            load = round(os.getloadavg()[0], 1)
            runs: dict[str, list[Run]] = {name: [] for name in servers}
            for _ in range(size.pairs):
                for name, server in servers.items():
                    runs[name].append(measure(server, command, 1, size.requests, size.keys))
            yield SingleResult(command, runs, load)


@contextmanager
def _servers() -> Iterator[dict[str, RespServer]]:
    with ExitStack() as stack:
        ours, floor, theirs = (Path(stack.enter_context(TemporaryDirectory(prefix="slotlog-bench-"))) for _ in range(3))
        servers = {_OURS: slotlog(ours), _FLOOR: started_floor(floor), _VALKEY: valkey(theirs)}
        for server in servers.values():
            stack.enter_context(server)
        yield servers


def started_floor(directory: Path) -> RespServer:
    """The floor, with its file in `directory`."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", floor_server.__name__, str(port), str(directory / "writes")]
    return RespServer("floor", command, directory, port)

"""Measures commands over RESP with redis-benchmark: slotlog beside valkey-server with its append-only file.

    command  set get hset hget incr lpush zadd, as redis-benchmark has them: 3-byte values, 100,000 keys, fields or
             members, one hash, one list, one sorted set; what is read was filled before; and the reads of collections
             of `benchmarks.resp.reads`
    depth    1, 16 or 64 commands in one pipeline, on each of 50 connections
    rival    valkey-server with `appendonly yes`: `always` answers a write when it is on disk, as slotlog does;
             `everysec` answers at once and may lose the last second

The servers run side by side in their own processes and take turns, A B C A B C, so that noise meets all of them.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from benchmarks.applying.sources import EMBEDDED, KAFKA, running_broker
from benchmarks.resp.reads import READS, WHOLE, filling
from tests.real.oracle import Connection
from tests.wire.servers import RespServer, slotlog, valkey

CLIENTS: Final = 50
DEPTHS: Final = (1, 16, 64)
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "set": ("-t", "set"),
    "get": ("-t", "get"),
    "hset": ("-t", "hset"),
    "hget": ("HGET", "myhash", "element:__rand_int__"),  # the one that redis-benchmark has no test of its own for
    "incr": ("-t", "incr"),
    "lpush": ("-t", "lpush"),
    "zadd": ("-t", "zadd"),
    **READS,
}
"""Options of redis-benchmark by command."""

_RIVALS: Final = ("always", "everysec")
_FILL_AT_ONCE: Final = 1000
_RUN_SECONDS_MAX: Final = 120


class MissingLoadGeneratorError(RuntimeError):
    """redis-benchmark is not there."""


class LoadError(RuntimeError):
    """redis-benchmark met an error, or a server did less than it was asked."""


@dataclass(frozen=True, slots=True)
class RespSize:
    """How much is measured.

    Attributes:
        requests: of one run when pipelined; a quarter of it when not, and of reads of whole collections.
        pairs: runs of each server.
        keys: how many keys, fields and members the commands choose from.
        commands, depths: some of `COMMANDS` and `DEPTHS`.
    """

    requests: int
    pairs: int
    keys: int
    commands: Sequence[str] = tuple(COMMANDS)
    depths: Sequence[int] = DEPTHS


RESP_LARGE: Final = RespSize(requests=60_000, pairs=3, keys=100_000)
RESP_SMOKE: Final = RespSize(requests=4_000, pairs=1, keys=1_000)  # fewer may take less than a millisecond


class Run(NamedTuple):
    """One run of redis-benchmark.

    Attributes:
        per_second: requests answered.
        p50_ms, p99_ms: of the time from a request's sending to its reply; a pipeline counts as one.
        cpu_us: the server's CPU time by request, in µs, from its own INFO.
    """

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class RespResult:
    """One line of output: a command at a depth.

    Attributes:
        name: such as `resp_set_16_embedded`.
        requests: of each run.
        runs: by server, the first of them slotlog, in their turns.
        load: of the machine when it began: processes that ran or wanted to, as a mean of the last minute.
    """

    name: str
    requests: int
    runs: dict[str, list[Run]]
    load: float

    def line(self) -> str:
        """The result as JSON: medians of the runs; a ratio is the median over the pairs of ours by theirs."""
        (_, ours), *rivals = self.runs.items()
        shown: dict[str, Any] = {"name": self.name, **_medians(ours)}
        for rival, theirs in rivals:
            pairs = list(zip(ours, theirs, strict=True))
            shown[f"{rival}_ratio"] = round(median(mine.per_second / its.per_second for mine, its in pairs), 3)
            shown[f"{rival}_p99_ratio"] = round(median(mine.p99_ms / its.p99_ms for mine, its in pairs), 2)
            shown |= {f"{rival}_{field}": value for field, value in _medians(theirs).items()}
        return json.dumps({**shown, "requests": self.requests, "pairs": len(ours), "load": self.load})


def _medians(runs: Sequence[Run]) -> dict[str, float]:
    per_second, p50_ms, p99_ms, cpu_us = (median(values) for values in zip(*runs, strict=True))
    return {
        "per_second": round(per_second),
        "p50_ms": round(p50_ms, 2),
        "p99_ms": round(p99_ms, 2),
        "cpu_us": round(cpu_us, 1),
    }


async def run_resp(size: RespSize, sources: Sequence[str]) -> AsyncIterator[RespResult]:
    """Measure every command at every depth, with the embedded log and with Kafka, as far as `sources` has them.

    Raises:
        MissingLoadGeneratorError, LoadError: see there.
    """
    if shutil.which("redis-benchmark") is None:
        raise MissingLoadGeneratorError("redis-benchmark is missing: apt-get install redis-tools")
    if EMBEDDED in sources:
        for result in _beside_rivals(size, EMBEDDED, ""):
            yield result
    if KAFKA in sources:
        async with running_broker() as bootstrap:
            for result in _beside_rivals(size, KAFKA, f"kafka://{bootstrap}"):
                yield result


def _beside_rivals(size: RespSize, source: str, log_url: str) -> Iterator[RespResult]:
    with _servers(log_url) as servers:
        for server in servers.values():
            fill(server, size.keys)
            if not READS.keys().isdisjoint(size.commands):
                _fill_collections(server, size.keys)
        for command in size.commands:
            for depth in size.depths:
                requests = size.requests if depth > 1 and command not in WHOLE else size.requests // 4
                load = round(os.getloadavg()[0], 1)
                runs: dict[str, list[Run]] = {name: [] for name in servers}
                for _ in range(size.pairs):
                    for name, server in servers.items():
                        runs[name].append(measure(server, command, depth, requests, size.keys))
                yield RespResult(f"resp_{command}_{depth}_{source}", requests, runs, load)


@contextmanager
def _servers(log_url: str) -> Iterator[dict[str, RespServer]]:
    """slotlog, then its rivals, all running."""
    with ExitStack() as stack:
        homes = {}
        for name in ("slotlog", *_RIVALS):
            # Part of the topic's name, so that runs on one broker do not meet.
            prefix = f"slotlog-bench-{secrets.token_hex(4)}-{name}-"
            homes[name] = Path(stack.enter_context(TemporaryDirectory(prefix=prefix)))
        servers = {"slotlog": slotlog(homes["slotlog"], log_url)}
        servers |= {rival: valkey(homes[rival], appendfsync=rival) for rival in _RIVALS}
        for server in servers.values():
            stack.enter_context(server)
        yield servers


def fill(server: RespServer, keys: int) -> None:
    """Give the server every key and every field that will be read."""
    names = [b"%012d" % number for number in range(keys)]
    connection = server.connect()
    try:
        for at in range(0, keys, _FILL_AT_ONCE):
            part = names[at : at + _FILL_AT_ONCE]
            connection.call("MSET", *(word for name in part for word in (b"key:" + name, b"VXK")))
            connection.call("HSET", "myhash", *(word for name in part for word in (b"element:" + name, b"VXK")))
    finally:
        connection.close()


def _fill_collections(server: RespServer, members: int) -> None:
    connection = server.connect()
    try:
        for command in filling(members):
            connection.call(*command)
    finally:
        connection.close()


def measure(
    server: RespServer,
    command: str,
    depth: int,
    requests: int,
    keys: int,
    own: Sequence[str] = (),
    asked: Sequence[str] = (),
) -> Run:
    """Let redis-benchmark send `requests` of a command, with options of its `own`; it is one of COMMANDS, or `asked`.

    Raises:
        LoadError: it met an error, or the server did not do them all.
    """
    host, port = server.address
    options = ["-h", host, "-p", port, "-c", CLIENTS, "-P", depth, "-n", requests, "-r", keys, "--csv"]
    connection = server.connect()
    try:
        cpu_before, calls_before = cpu_seconds(connection), _calls(connection, command)
        done = subprocess.run(
            ["redis-benchmark", *map(str, options), *own, *(asked or COMMANDS[command])],
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_SECONDS_MAX,
        )
        cpu_spent, calls = cpu_seconds(connection) - cpu_before, _calls(connection, command) - calls_before
    finally:
        connection.close()
    if done.returncode != 0:
        raise LoadError(f"redis-benchmark ended with {done.returncode}: {done.stderr or done.stdout}")
    if calls < requests:
        raise LoadError(f"the server did {calls} of {requests} {command}")
    row = next(iter(csv.DictReader(done.stdout.splitlines())))
    return Run(
        float(row["rps"]), float(row["p50_latency_ms"]), float(row["p99_latency_ms"]), cpu_spent / requests * 1e6
    )


def cpu_seconds(connection: Connection) -> float:
    """The CPU time that a server has taken since its start, in its own words."""
    info = _info(connection, "cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def rss_kib(connection: Connection) -> int:
    """The resident memory of a server's process on this machine, in KiB."""
    status = Path(f"/proc/{_info(connection, 'server')['process_id']}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def _calls(connection: Connection, command: str) -> int:
    """How many the server says it has done, without failures."""
    shown = _info(connection, "commandstats").get(f"cmdstat_{command}", "calls=0")
    counts = dict(pair.split("=") for pair in shown.split(","))
    return int(counts["calls"]) - int(counts.get("failed_calls", 0))


def _info(connection: Connection, section: str) -> dict[str, str]:
    lines = connection.call("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)

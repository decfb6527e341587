"""Measures commands on large values: over RESP, beside valkey-server, and the engine alone.

    zadd         ZADD of a member that is there with another score, sorted sets of 1,000 to 1,000,000 members
    zrank        ZRANK of any member
    zrange       ZRANGE of 10 members by index, in the middle
    zcount       ZCOUNT of any range of scores
    zlimit       ZRANGEBYSCORE of 10 members behind a LIMIT offset in the middle
    zpopmin      ZPOPMIN of one member; what was popped is put back, untimed
    hget         HGET of any field, hashes of as many fields
    hset         HSET of a field that is there
    hgetall      HGETALL of 100,000 fields
    lrange       LRANGE of 100,000 elements
    sinter       SINTER of two sets of 100,000 members, half of them in both
    setbit       SETBIT of any bit of a bitmap of 64 MiB
    copy         COPY of the hash
    sunionstore  SUNIONSTORE of the two sets
    sort         SORT of the list BY keys that are not there, 10 of it
    pfcount      PFCOUNT of 1,000 keys, all of them one dense HyperLogLog
    bitop        BITOP NOT of the bitmap

One client sends one command at a time, then 16 at a time (commands with large replies: only one at a time). The servers
take turns, A B A B, and have to give equal replies. The rival is valkey-server with `appendonly yes` and `appendfsync
always`: like slotlog it answers a write when it is on disk. `engine` is a machine on RocksDB, in this process, reading
one by one and writing in batches of 100, so that growth does not hide behind the cost of a socket.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, NamedTuple

from stamina import retry_context

from benchmarks.applying.sources import EMBEDDED, ENGINE
from benchmarks.applying.subject import open_machine, open_store
from benchmarks.applying.workloads import START_MS
from benchmarks.measure import Stopwatch
from benchmarks.resp.commands import LoadError, cpu_seconds
from benchmarks.resp.data_works import PIPELINED, POPS, Command, DataSize, Work, drawn, filling, kinds, put_back
from engine.apply.machine import Machine, Record
from engine.commands.registry import SPECS
from engine.errors import StoreBusyError
from tests.real.oracle import Connection, request
from tests.wire.servers import slotlog, valkey

Turn = Callable[[Work, int], tuple[int, dict[str, "Cost"]]]
"""A run of a row in a round: how many commands, and what one took, by whom."""

_ENGINE_BATCH: Final = 100
_RECEIVED_AT_ONCE: Final = 1 << 18
_REPLY_SECONDS_MAX: Final = 60
_BUSY_SECONDS_MAX: Final = 30.0


class Cost(NamedTuple):
    """What one command took, in µs: until its reply was there, and of the CPU time of the server or of this process."""

    us: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class DataResult:
    """One line of output.

    Attributes:
        name: such as `data_zrank_1000_16_embedded`, or `data_zrank_1000_engine`.
        commands: of each run.
        runs: by whom, slotlog or the engine first: what a command took, in their turns.
        smallest: the same of the row with the smallest size; empty where there is one size.
        load: of the machine when it ended: processes that ran or wanted to, as a mean of the last minute.
    """

    name: str
    commands: int
    runs: dict[str, list[Cost]]
    smallest: dict[str, list[Cost]] = field(default_factory=dict)
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))

    def line(self) -> str:
        """The result as JSON: medians. `ratio` is ours by theirs as rates, `growth` is by the smallest size's time."""
        shown: dict[str, Any] = {"name": self.name}
        for who, prefix in zip(self.runs, ("", "valkey_"), strict=False):
            usual = Cost(*map(median, zip(*self.runs[who], strict=True)))
            shown |= {f"{prefix}{name}": round(us, 1) for name, us in usual._asdict().items()}
            if self.smallest:
                pairs = list(zip(self.runs[who], self.smallest[who], strict=True))
                shown[f"{prefix}growth"] = round(median(cost.us / least.us for cost, least in pairs), 2)
                shown[f"{prefix}cpu_growth"] = round(median(cost.cpu_us / least.cpu_us for cost, least in pairs), 2)
        if len(self.runs) > 1:
            pairs = list(zip(*self.runs.values(), strict=True))
            shown["ratio"] = round(median(theirs.us / ours.us for ours, theirs in pairs), 4)
            shown["cpu_ratio"] = round(median(theirs.cpu_us / ours.cpu_us for ours, theirs in pairs), 4)
        pairs_count = len(next(iter(self.runs.values())))
        return json.dumps(
            {**shown, **self.figures(), "commands": self.commands, "pairs": pairs_count, "load": self.load}
        )

    def figures(self) -> dict[str, float]:
        """More of the line, of kinds of it."""
        return {}


class Client:
    """One blocking connection that counts lines instead of parsing replies: no reply here has one in a value."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, _REPLY_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._info = Connection(address)

    def ask(self, data: bytes, lines: int) -> bytes:
        """Send requests and return their replies, which have so many lines.

        Raises:
            LoadError: fewer came in time, or one is an error.
        """
        self._socket.sendall(data)
        received: list[bytes] = []
        while lines > 0:
            try:
                part = self._socket.recv(_RECEIVED_AT_ONCE)
            except TimeoutError:
                part = b""
            if not part or (not received and part.startswith(b"-")):
                raise LoadError(f"no whole reply: {b''.join([*received, part])[:200]!r} to {data[:100]!r}")
            lines -= part.count(b"\n")
            received.append(part)
        return b"".join(received)

    def run(self, commands: Sequence[Command], depth: int, lines: int, seconds: float) -> tuple[Cost, list[bytes]]:
        """Send `commands`, `depth` at a time, until all or the time are over; what one took, and the replies."""
        groups = [commands[at : at + depth] for at in range(0, len(commands), depth)]
        pipelines = [(b"".join(map(request, group)), lines * len(group)) for group in groups]
        replies: list[bytes] = []
        ask = self.ask
        cpu_before = cpu_seconds(self._info)
        start = perf_counter()
        for data, expected in pipelines:
            replies.append(ask(data, expected))
            if perf_counter() - start > seconds:
                break
        took = perf_counter() - start
        cpu = cpu_seconds(self._info) - cpu_before
        done = sum(map(len, groups[: len(replies)]))
        return Cost(took / done * 1e6, cpu / done * 1e6), replies

    def close(self) -> None:
        """Close the connection."""
        self._info.close()
        self._socket.close()


async def run_data(size: DataSize, sources: Sequence[str], rows: str = "") -> AsyncIterator[DataResult]:
    """Measure on the embedded log, and in the engine, as far as `sources` has them.

    `rows`: the kinds whose names contain one of these words (all).

    Raises:
        LoadError: a server refused something, or the two gave different replies.
    """
    if EMBEDDED in sources:
        for result in _beside_rival(size, wanted(size, rows)):
            yield result
    if ENGINE in sources:
        for result in _engine(size, wanted(size, rows)):
            yield result


def wanted(size: DataSize, rows: str) -> list[list[Work]]:
    """The rows by kind, those whose kind contains one of the words in `rows`."""
    return [kind for kind in kinds(size) if any(word in kind[0].kind for word in rows.split(","))]


def _beside_rival(size: DataSize, works: list[list[Work]]) -> Iterator[DataResult]:
    with ExitStack() as stack:
        homes = [Path(stack.enter_context(TemporaryDirectory(prefix="slotlog-bench-"))) for _ in range(2)]
        clients = {}
        for who, server in (("slotlog", slotlog(homes[0])), ("valkey", valkey(homes[1]))):
            stack.enter_context(server)
            clients[who] = stack.enter_context(closing(Client(server.address)))
            commands = filling(size, works)
            while part := list(islice(commands, PIPELINED)):
                clients[who].ask(b"".join(map(request, part)), len(part))
        for kind in works:
            for depth in kind[0].depths:
                turn = partial(_turn, clients, depth, size.seconds)
                yield from _results(kind, f"{depth}_{EMBEDDED}", size.pairs, turn)


def _results(kind: Sequence[Work], suffix: str, pairs: int, turn: Turn) -> Iterator[DataResult]:
    """All rows of one kind. Each has a run in every round, so what else the machine does meets all sizes alike."""
    rounds = [[turn(work, round_) for work in kind] for round_ in range(pairs)]
    for at, work in enumerate(kind):
        counts, costs = zip(*(turns[at] for turns in rounds), strict=True)
        runs = {who: [cost[who] for cost in costs] for who in costs[0]}
        smallest = {who: [turns[0][1][who] for turns in rounds] for who in runs} if len(kind) > 1 else {}
        yield DataResult(f"data_{work.name}_{suffix}", min(counts), runs, smallest)


def _turn(
    clients: dict[str, Client], depth: int, seconds: float, work: Work, round_: int
) -> tuple[int, dict[str, Cost]]:
    """Both servers, one after the other, with the same commands."""
    commands = drawn(work, round_)
    costs: dict[str, Cost] = {}
    said: list[list[bytes]] = []
    for who, client in clients.items():
        costs[who], replies = client.run(commands, depth, work.lines, seconds)
        said.append(replies)
        commands = commands[: len(replies) * depth]  # the second one does what the first one had time for
        seconds = float("inf")
    lines = [sorted(b"".join(replies).split(b"\r\n")) for replies in said]
    if lines[0] != lines[1] or any(line.startswith(b"-") for line in lines[0]):
        raise LoadError(f"{work.name}: other replies than valkey-server's, or errors")
    if work.kind == POPS:
        words = b"".join(said[0]).split(b"\r\n")
        for client in clients.values():
            client.ask(request(put_back(work, list(zip(words[2::5], words[4::5], strict=True)))), 1)
    return len(commands), costs


class Engine:
    """A machine on RocksDB that is given commands: each the next record, or a read."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def write(self, commands: Sequence[Command]) -> list[Any]:
        """Apply and commit one batch; returns the replies."""
        machine = self._machine
        start = machine.next_offset
        records: list[Record] = [
            (offset, START_MS, name, args, 0, None, None) for offset, (name, *args) in enumerate(commands, start)
        ]
        replies: list[Any] = []
        while records:
            applied = machine.apply(records, machine.next_offset, waiting=range(start, start + len(commands)))
            for attempt in retry_context(StoreBusyError, attempts=None, timeout=_BUSY_SECONDS_MAX, wait_max=1.0):
                with attempt:  # filled as fast as it goes, RocksDB may fall behind with compactions
                    machine.commit(b"fingerprint")
            replies += applied.outcomes.values()
            records = records[applied.records :]
        return replies

    def read(self, command: Command) -> Any:
        """The reply of a read."""
        name, *args = command
        return self._machine.read(name, args)

    def do(self, commands: Sequence[Command]) -> list[Any]:
        """Read one by one, or write in one batch; all of them are of one name."""
        return self.write(commands) if SPECS[commands[0][0]].write else list(map(self.read, commands))

    def run(self, commands: Sequence[Command], seconds: float) -> tuple[Cost, list[Any]]:
        """As many as the time allows; what one took, and the replies."""
        step = _ENGINE_BATCH if SPECS[commands[0][0]].write else 1
        replies: list[Any] = []
        watch = Stopwatch()
        for at in range(0, len(commands), step):
            replies += self.do(commands[at : at + step])
            if watch.read().wall > seconds:
                break
        wall, cpu = watch.read()
        return Cost(wall / len(replies) * 1e6, cpu / len(replies) * 1e6), replies


def _engine(size: DataSize, works: list[list[Work]]) -> Iterator[DataResult]:
    with (
        TemporaryDirectory(prefix="slotlog-bench-") as directory,
        closing(open_store(Path(directory) / "state")) as store,
    ):
        engine = Engine(open_machine(store))
        for command in filling(size, works):
            engine.write([command])
        for kind in works:
            yield from _results(kind, ENGINE, size.pairs, partial(_engine_turn, engine, size.seconds))


def _engine_turn(engine: Engine, seconds: float, work: Work, round_: int) -> tuple[int, dict[str, Cost]]:
    cost, replies = engine.run(drawn(work, round_), seconds)
    if work.kind == POPS:
        engine.write([put_back(work, [(member, b"%d" % score) for member, score in replies])])
    return len(replies), {ENGINE: cost}

"""Measures commands on streams over RESP: slotlog beside valkey-server, and beside its own HSET.

    streams_hset         HSET of one field, as redis-benchmark has it, in the same run
    streams_xadd         XADD of one field to a short stream
    streams_xadd_…       the same to a stream of so many entries, of a group that has them all pending
    streams_xreadgroup   XREADGROUP of one new entry
    streams_xack_…       XACK of one of so many pending entries, drawn at random
    streams_trim_…       XTRIM of so many entries, while another client writes

50 clients send 16 commands in a pipeline, by redis-benchmark. `ratio` is the rate by valkey-server's, `hset_ratio` the
rate by HSET's of the same server and round. valkey-server has `appendfsync always`: like slotlog it answers a write
when it is on disk. Of `streams_trim_…`, `ms` is the time of the command, `wait_ms` the longest that another client
waited for one of its SETs, from the command on until a second behind its end, and `wait_cpu_ms` for how long the
server's main thread ran meanwhile; `idle_wait_ms` is the longest in a second without the command.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import sleep
from typing import Final, NamedTuple

from benchmarks.resp.commands import LoadError, Run, fill, measure
from benchmarks.resp.data import Client
from benchmarks.resp.held import NOTHING, Clock, Taken
from benchmarks.resp.two_servers import Figures, two_servers
from tests.real.oracle import Connection, request
from tests.wire.servers import RespServer

DEPTH: Final = 16
_AT_ONCE: Final = 1000
_LINES_OF_AN_ENTRY: Final = 8
_LINES_BEFORE_ENTRIES: Final = 5
_AFTERWARDS_S: Final = 1.0
_PAUSE_S: Final = 0.0005


@dataclass(frozen=True, slots=True)
class StreamsSize:
    """How much is measured.

    Attributes:
        entries: of the long stream, all of them pending.
        requests: of a run.
        rounds: runs of each row, whose medians count.
        fields: how many fields HSET chooses from.
        growing: lengths of streams in the engine alone.
        commands: of each of its runs.
    """

    entries: int
    requests: int
    rounds: int
    fields: int
    growing: Sequence[int]
    commands: int


STREAMS_LARGE: Final = StreamsSize(1_000_000, 60_000, 3, 100_000, (1_000, 1_000_000), 500)
STREAMS_SMOKE: Final = StreamsSize(2_000, 4_000, 1, 100, (100, 1_000), 40)


class _Row(NamedTuple):
    """A command by its row, and the words that redis-benchmark is given."""

    name: str
    command: str
    words: Sequence[str]


async def run_rates(size: StreamsSize) -> AsyncIterator[Figures]:
    """Measure both servers in turns.

    Raises:
        LoadError: a server met an error.
    """
    with two_servers() as servers:
        for server in servers.values():
            fill(server, size.fields)
            fill_stream(server, size.entries)
        rows = _rows(size)
        runs: list[dict[str, dict[str, Run]]] = [
            {prefix: _round(server, rows, size) for prefix, server in servers.items()} for _ in range(size.rounds)
        ]
        for row in rows:
            yield Figures(f"streams_{row.name}", _figures(row.name, runs))
        trims = {prefix: trim(server) for prefix, server in servers.items()}
        figures = {f"{prefix}{name}": value for prefix, found in trims.items() for name, value in found.items()}
        yield Figures(f"streams_trim_{size.entries}", figures)


def _rows(size: StreamsSize) -> list[_Row]:
    read = ("XREADGROUP", "GROUP", "group", "consumer", "COUNT", "1", "STREAMS", "short", ">")
    return [
        _Row("hset", "hset", ()),
        _Row("xadd", "xadd", ("XADD", "short", "*", "field", "VXK")),
        _Row(f"xadd_{size.entries}", "xadd", ("XADD", "long", "*", "field", "VXK")),
        _Row("xreadgroup", "xreadgroup", read),
        _Row(f"xack_{size.entries}", "xack", ("XACK", "long", "group", "__rand_int__-0")),
    ]


def _round(server: RespServer, rows: Sequence[_Row], size: StreamsSize) -> dict[str, Run]:
    """One run of each row. What XREADGROUP reads is what XADD has added before, to a new stream."""
    with closing(server.connect()) as connection:
        connection.call("DEL", "short")
        connection.call("XGROUP", "CREATE", "short", "group", "$", "MKSTREAM")
    runs = {}
    for name, command, words in rows:
        keys = size.entries if words else size.fields
        runs[name] = measure(server, command, DEPTH, size.requests, keys, asked=words)
    return runs


def _figures(name: str, rounds: Sequence[Mapping[str, Mapping[str, Run]]]) -> dict[str, float]:
    """Medians of a row, and of its ratios in each round."""
    found: dict[str, float] = {}
    for prefix in rounds[0]:
        runs = [servers[prefix] for servers in rounds]
        found[f"{prefix}per_second"] = round(median(run[name].per_second for run in runs))
        found[f"{prefix}p99_ms"] = round(median(run[name].p99_ms for run in runs), 2)
        found[f"{prefix}cpu_us"] = round(median(run[name].cpu_us for run in runs), 1)
        found[f"{prefix}hset_ratio"] = round(median(run[name].per_second / run["hset"].per_second for run in runs), 3)
    ours, theirs = rounds[0]
    ratios = (servers[ours][name].per_second / servers[theirs][name].per_second for servers in rounds)
    return found | {"ratio": round(median(ratios), 3)}


def fill_stream(server: RespServer, entries: int) -> None:
    """Make the long stream, whose ids are 1-0 and so on, and give all of it to a consumer."""
    with closing(Client(server.address)) as client:
        client.ask(request(["XGROUP", "CREATE", "long", "group", "0", "MKSTREAM"]), 1)
        for start in range(1, entries + 1, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, entries + 1))
            adds = b"".join(request(["XADD", "long", f"{number}-0", "field", "VXK"]) for number in numbers)
            client.ask(adds, 2 * len(numbers))
            read = "XREADGROUP", "GROUP", "group", "consumer", "COUNT", str(len(numbers)), "STREAMS", "long", ">"
            client.ask(request(read), _LINES_BEFORE_ENTRIES + _LINES_OF_AN_ENTRY * len(numbers))


def trim(server: RespServer) -> dict[str, float]:
    """Delete all entries of the long stream while another client writes.

    Raises:
        LoadError: there are none, or some are left.
    """
    with closing(server.connect()) as connection:
        clock = Clock(connection)
        with _writing(server, clock) as idle:
            sleep(_AFTERWARDS_S)
        with _writing(server, clock) as waits:
            taken = clock.time(partial(_delete_all, connection))
            sleep(_AFTERWARDS_S)
    longest = max(waits, key=lambda wait: wait.seconds)
    return {
        "ms": round(taken.seconds * 1000, 2),
        "cpu_ms": round(taken.cpu * 1000, 2),
        "wait_ms": round(longest.seconds * 1000, 2),
        "wait_cpu_ms": round(max(wait.cpu for wait in waits) * 1000, 2),
        "idle_wait_ms": round(max(wait.seconds for wait in idle) * 1000, 2),
    }


def _delete_all(connection: Connection) -> None:
    length = connection.call("XLEN", "long")
    if not connection.call("XTRIM", "long", "MAXLEN", "0") == length > 0:
        raise LoadError("XTRIM did not delete all entries")


@contextmanager
def _writing(server: RespServer, clock: Clock) -> Iterator[list[Taken]]:
    """Let another client write meanwhile, one SET after the other; its waits."""
    waits = [NOTHING]
    over = threading.Event()
    with closing(server.connect()) as connection:
        connection.call("SET", "other", "0")  # it is served from now on

        def write() -> None:
            while not over.wait(_PAUSE_S):
                waits.append(clock.time(partial(connection.call, "SET", "other", "1")))

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield waits
        finally:
            over.set()
            thread.join()

"""Measures what client-side caching costs a server, by CPU time a command, beside valkey-server and beside none.

caching_get    GET without tracking, and where all of redis-benchmark's clients track (`tracked_…`)
caching_set    SET while nobody tracks; while a client hears of keys that nobody writes (`watched_…`); while one hears
               of every key (`told_…`)
"""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.resp.commands import fill, measure
from benchmarks.resp.two_servers import Figures, two_servers
from tests.real.oracle import request
from tests.wire.servers import RespServer

_DEPTH: Final = 16
_MESSAGES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CachingSize:
    """How much is measured.

    Attributes:
        requests: of a run, from 50 clients in pipelines of 16.
        rounds: runs of each figure.
        keys: how many keys the commands choose from.
    """

    requests: int
    rounds: int
    keys: int


CACHING_LARGE: Final = CachingSize(requests=60_000, rounds=3, keys=10_000)
CACHING_SMOKE: Final = CachingSize(requests=4_000, rounds=1, keys=100)


async def run_caching(size: CachingSize) -> AsyncIterator[Figures]:
    """Measure both servers in turns.

    Raises:
        LoadError: redis-benchmark met an error.
    """
    with two_servers() as servers:
        for server in servers.values():
            fill(server, size.keys)
        yield Figures("caching_get", _figures(servers, size, "get", {"us": (), "tracked_us": ()}))
        told = {"us": (), "watched_us": ("PREFIX", "nobody:"), "told_us": ("PREFIX", "key:")}
        yield Figures("caching_set", _figures(servers, size, "set", told))


def _figures(
    servers: dict[str, RespServer], size: CachingSize, command: str, kinds: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    runs: dict[str, list[float]] = {}
    for _ in range(size.rounds):
        for prefix, server in servers.items():
            for kind, options in kinds.items():
                own = ["--enable-tracking"] if kind == "tracked_us" else []
                with _hearing(server, options):
                    run = measure(server, command, _DEPTH, size.requests, size.keys, own)
                runs.setdefault(prefix + kind, []).append(run.cpu_us)
    return {name: round(median(values), 1) for name, values in runs.items()}


@contextmanager
def _hearing(server: RespServer, options: Sequence[str]) -> Iterator[None]:
    """A client that is told of some keys and reads what comes; without options nobody."""
    if not options:
        yield
        return
    with socket.create_connection(server.address) as hearing:
        hearing.sendall(request(["HELLO", "3"]) + request(["CLIENT", "TRACKING", "ON", "BCAST", *options]))
        reader = threading.Thread(target=_read, args=(hearing,))
        reader.start()
        yield
        hearing.shutdown(socket.SHUT_RDWR)
        reader.join()


def _read(hearing: socket.socket) -> None:
    while hearing.recv(_MESSAGES):
        pass

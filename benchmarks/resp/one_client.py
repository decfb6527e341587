"""Measures how much one client can slow others down, beside valkey-server.

client_memory    how much a server grows for a client that sends INCR and N GETs of 1 MB behind it, and reads nothing
client_ping      another client's PING while one sends INCR and N LRANGEs of all of a list behind it, and reads them
"""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from benchmarks.resp.commands import rss_kib
from benchmarks.resp.two_servers import Figures, two_servers
from tests.real.oracle import request
from tests.wire.servers import RespServer

_MIB: Final = 1 << 20
_DEAF_PINGS: Final = 200  # so long the server may grow for the client that reads nothing
_RPUSH_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class ClientSize:
    """How much is asked for.

    Attributes:
        gets: of 1 MiB each.
        lranges: of `elements` elements each.
    """

    gets: int
    lranges: int
    elements: int


CLIENT_LARGE: Final = ClientSize(gets=1000, lranges=300, elements=100_000)
CLIENT_SMOKE: Final = ClientSize(gets=40, lranges=5, elements=2_000)


async def run_clients(size: ClientSize) -> AsyncIterator[Figures]:
    """Measure both, one server after the other."""
    with two_servers() as servers:
        for name, measure in (("client_memory", _memory), ("client_ping", _ping)):
            figures: dict[str, float] = {}
            for prefix, server in servers.items():
                figures |= {prefix + figure: value for figure, value in measure(server, size).items()}
            yield Figures(name, figures)


def _memory(server: RespServer, size: ClientSize) -> dict[str, float]:
    with closing(server.connect()) as other, closing(socket.create_connection(server.address)) as deaf:
        other.call("SET", "large", b"x" * _MIB)
        before = most = rss_kib(other)
        deaf.sendall(request(["INCR", "n"]) + request(["GET", "large"]) * size.gets)
        for _ in range(_DEAF_PINGS):
            other.call("PING")
            most = max(most, rss_kib(other))
    return {"grown_mib": (most - before) // 1024, "asked_mib": size.gets}


def _ping(server: RespServer, size: ClientSize) -> dict[str, float]:
    with closing(server.connect()) as other, closing(socket.create_connection(server.address)) as busy:
        elements = [b"%d" % number for number in range(size.elements)]
        for start in range(0, size.elements, _RPUSH_AT_ONCE):
            other.call("RPUSH", "list", *elements[start : start + _RPUSH_AT_ONCE])
        other.call("SET", "n", "0")
        expected = len(b":1\r\n") + size.lranges * len(request(elements))
        done = threading.Event()

        def read_all() -> None:
            busy.sendall(request(["INCR", "n"]) + request(["LRANGE", "list", "0", "-1"]) * size.lranges)
            left = expected
            while left:
                left -= len(busy.recv(min(left, _MIB)))
            done.set()

        reading = threading.Thread(target=read_all)
        began = perf_counter()
        reading.start()
        seconds: list[float] = []
        while not done.is_set() or not seconds:
            sent = perf_counter()
            other.call("PING")
            seconds.append(perf_counter() - sent)
            done.wait(0.001)
        reading.join()
        took = perf_counter() - began
    seconds.sort()
    return {
        "p99_ms": round(seconds[int(len(seconds) * 0.99)] * 1000, 2),
        "max_ms": round(seconds[-1] * 1000, 2),
        "all_ms": round(took * 1000),
        "pings": len(seconds),
    }

"""Measures how long commands over very many elements delay other clients, beside valkey-server.

    {"name": "held_sort", "ms": …, "cpu_ms": …, "ping_ms": …, "ping_cpu_ms": …, "livez_ms": …, "livez_cpu_ms": …,
     "valkey_ms": …, …, "runs": …}

`ms` is the time of the command, the median of its runs; `ping_ms` and `livez_ms` are the longest answers of all runs to
a PING of another client, and to `/livez`, asked one after the other meanwhile. `cpu` has the CPU time of the server's
main thread, in which its event loop runs, meanwhile: what others waited for the command, and not for other work of the
machine. `held_nothing` is the same beside a client that sleeps: what the machine does by itself.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Final, NamedTuple

from benchmarks.resp.commands import LoadError
from benchmarks.resp.held_works import HeldSize, Words, Work, cluster_filling, cluster_works, filling, works
from tests.real.oracle import Connection, ErrorReply, cluster_options, request
from tests.real.process import free_ports
from tests.wire.servers import RespServer, slotlog, valkey

_MARK: Final = b"the end of what was asked"
_PAUSE_SECONDS: Final = 0.001
_REPLY_SECONDS_MAX: Final = 600.0
_NOTHING_SECONDS: Final = 1.0
_LIVEZ: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
_MIB: Final = 1 << 20
_LIVE: Final = b'{"live": true}'


@dataclass(frozen=True, slots=True)
class HeldResult:
    """One line of output, figures in ms.

    Attributes:
        figures: of slotlog, and those of valkey-server by the same names with `valkey_` before.
    """

    name: str
    runs: int
    figures: dict[str, float]

    def line(self) -> str:
        """The result as JSON."""
        return json.dumps({"name": self.name, **self.figures, "runs": self.runs})


@dataclass(frozen=True, slots=True)
class _Side:
    """One server.

    Attributes:
        http: its port of `/livez`; 0: it has none.
    """

    prefix: str
    server: RespServer
    http: int


class Taken(NamedTuple):
    """How long something took, and for how long the server's main thread ran meanwhile."""

    seconds: float
    cpu: float


NOTHING: Final = Taken(0.0, 0.0)


class Clock:
    """Tells how long things take, and what a server does meanwhile."""

    def __init__(self, connection: Connection) -> None:
        found = re.search(rb"process_id:(\d+)", connection.call("INFO", "server"))
        assert found is not None
        number = int(found[1])
        self._path = Path(f"/proc/{number}/task/{number}/schedstat")

    def time(self, work: Callable[[], None]) -> Taken:
        """Do it."""
        cpu, began = self._cpu_seconds(), perf_counter()
        work()
        seconds = perf_counter() - began
        return Taken(seconds, self._cpu_seconds() - cpu)

    def _cpu_seconds(self) -> float:
        return int(self._path.read_text().split()[0]) / 1e9


async def run_held(size: HeldSize, only: str = "") -> AsyncIterator[HeldResult]:
    """Measure each command on one server, then on the other; in `only` are words, of which its name must contain one.

    Raises:
        LoadError: a command was refused.
    """
    for clustered, fill, each in ((False, filling, works(size)), (True, cluster_filling, cluster_works(size))):
        wanted = [work for work in each if any(word in work.name for word in only.split(","))]
        if not wanted:
            continue
        with _sides(clustered=clustered) as sides:
            for side in sides:
                _fill(side.server, fill(size))
            if not clustered:
                yield _measured("nothing", sides, None, 1)
            for work in wanted:
                yield _measured(work.name, sides, work, size.runs)


@contextmanager
def _sides(*, clustered: bool) -> Iterator[list[_Side]]:
    with ExitStack() as stack:
        http, bus = free_ports(2)
        ours, theirs = (Path(stack.enter_context(TemporaryDirectory(prefix="slotlog-bench-"))) for _ in range(2))
        options = ["--http", f"127.0.0.1:{http}", *(["--partitions", "2"] if clustered else [])]
        debug = {"SLOTLOG_REDIS__DEBUG_COMMANDS": "1"}
        slot = stack.enter_context(slotlog(ours, options=options, environment=debug))
        rival = valkey(theirs, options=["--enable-debug-command", "yes", *(cluster_options(bus) if clustered else [])])
        stack.enter_context(rival)
        if clustered:
            with closing(rival.connect()) as connection:
                connection.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                while b"cluster_state:ok" not in connection.call("CLUSTER", "INFO"):
                    sleep(_PAUSE_SECONDS)
        yield [_Side("", slot, http), _Side("valkey_", rival, 0)]


def _fill(server: RespServer, commands: Iterable[Words]) -> None:
    with closing(server.connect()) as connection:
        for command in commands:
            _accepted(connection.call(*command), command[0])


def _accepted(reply: object, name: str) -> None:
    if isinstance(reply, ErrorReply):
        raise LoadError(f"{name}: {reply.text!r}")


def _measured(name: str, sides: list[_Side], work: Work | None, runs: int) -> HeldResult:
    figures: dict[str, float] = {}
    for side in sides:
        taken: list[Taken] = []
        longest = {"ping": NOTHING, "livez": NOTHING} if side.http else {"ping": NOTHING}
        with closing(side.server.connect()) as connection, closing(_socket(side.server.address)) as busy:
            clock = Clock(connection)
            for _ in range(runs):
                for command in work.before if work is not None else ():
                    _accepted(connection.call(*command), command[0])
                data = work.requests(connection) + request(["ECHO", _MARK]) if work is not None else b""
                with _others(side, clock, longest):
                    taken.append(clock.time(partial(_ask, busy, data)))
        command_taken = Taken(median(each.seconds for each in taken), median(each.cpu for each in taken))
        for what, each in (("", command_taken), *((f"{other}_", longest[other]) for other in longest)):
            figures[f"{side.prefix}{what}ms"] = round(each.seconds * 1000, 2)
            figures[f"{side.prefix}{what}cpu_ms"] = round(each.cpu * 1000, 2)
    return HeldResult(f"held_{name}", runs, figures)


def _ask(busy: socket.socket, data: bytes) -> None:
    """Send a command and read its reply, or with none wait for a second.

    Raises:
        LoadError: it was refused.
    """
    if not data:
        sleep(_NOTHING_SECONDS)
        return
    sending = threading.Thread(target=busy.sendall, args=(data,))  # a reply may begin before all is sent
    sending.start()
    end, buffer = b"%b\r\n" % _MARK, bytearray(_MIB)
    tail = b""
    while not tail.endswith(end):
        count = busy.recv_into(buffer)
        if not count or (not tail and buffer.startswith(b"-")):
            raise LoadError(f"{data[:60]!r}: {bytes(buffer[: min(count, 200)])!r}")
        tail = (tail + buffer[max(0, count - len(end)) : count])[-len(end) :]
    sending.join()


@contextmanager
def _others(side: _Side, clock: Clock, longest: dict[str, Taken]) -> Iterator[None]:
    """Ask for PING and `/livez` meanwhile; the longest answers of each go into `longest`."""
    with ExitStack() as stack:
        asked = {"ping": (side.server.address, request(["PING"]), b"+PONG\r\n")}
        if side.http:
            asked["livez"] = (("127.0.0.1", side.http), _LIVEZ, _LIVE)
        over = threading.Event()
        threads = []
        for name, (address, question, answer) in asked.items():
            connection = stack.enter_context(closing(_socket(address)))
            ask = partial(_answered, connection, question, answer)
            ask()  # it is served from now on
            threads.append(threading.Thread(target=_repeat, args=(ask, over, clock, name, longest)))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _repeat(ask: Callable[[], None], over: threading.Event, clock: Clock, name: str, longest: dict[str, Taken]) -> None:
    while not over.is_set():
        taken = clock.time(ask)
        longest[name] = Taken(max(taken.seconds, longest[name].seconds), max(taken.cpu, longest[name].cpu))
        over.wait(_PAUSE_SECONDS)


def _answered(connection: socket.socket, question: bytes, answer: bytes) -> None:
    connection.sendall(question)
    received = b""
    while not received.endswith(answer):
        part = connection.recv(4096)
        if not part:
            raise LoadError(f"no answer to {question!r}: {received!r}")
        received += part


def _socket(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, _REPLY_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return connection

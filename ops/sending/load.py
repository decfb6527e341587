"""Generates traffic for a running service: Redis clients that read and write all types.

For looking at dashboards and for trying a deployment, not for measuring: that is `make bench`. Commands are drawn at
random, at a steady rate; keys crowd at the low numbers, get a time to live, are overwritten and deleted. A few writes
are refused and a few carry an idempotency key that was there before, so that those panels show something too.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from ops.addresses import parse_address
from ops.progress import Advance
from slotlog.shared.slots import slot

Address = tuple[str, int]
Command = tuple[str, ...]

_PAUSE_SECONDS: Final = 0.05
_PIPELINE_BLOCKS_MAX: Final = 256
_RETRY_SECONDS: Final = 0.5
_LATENCIES_KEPT: Final = 10_000
_LINE_BYTES_MAX: Final = 64 * 1024

_MIX: Final[tuple[tuple[float, tuple[str, ...]], ...]] = (
    (25, ("GET string:{n}",)),
    (15, ("SET string:{n} v{m} EX {ttl}",)),
    (8, ("INCR counter:{n}",)),
    (8, ("HSET hash:{n} f{m} v{m}",)),
    (6, ("HGETALL hash:{n}",)),
    (3, ("HEXPIRE hash:{n} {ttl} FIELDS 1 f{m}",)),
    (3, ("EXPIRE hash:{n} {ttl}",)),
    (5, ("SADD set:{n} m{m}",)),
    (3, ("SPOP set:{n}",)),
    (6, ("ZADD zset:{n} {m} m{m}",)),
    (4, ("ZRANGE zset:{n} 0 9 WITHSCORES",)),
    (3, ("MULTI", "LPUSH list:{n} v{m}", "LTRIM list:{n} 0 99", "EXEC")),
    (3, ("LRANGE list:{n} 0 9",)),
    (2, ("DEL zset:{n}",)),
    (1, ("SLOTLOG ONCE load-{n} INCR once:{n}",)),
    (1, ("SET text:{n} v{m} EX {ttl}", "INCR text:{n}")),  # the second one is refused
)
"""Weight, and the commands of a block, which go out together. The first word that ends with `:{n}` is its key."""

_WEIGHTS: Final = [weight for weight, _ in _MIX]
_VALUES: Final = 50
_TTL_SECONDS: Final = (5, 300)


@dataclass(slots=True)
class Traffic:
    """Counts of the traffic that was sent.

    Attributes:
        sent, answered: commands, those in transactions included; a lost connection makes the difference.
        errors: error replies by their first word.
        seconds: how long it went on.
        latencies_seconds: of the last pipelines.
        failure: why the service could not be reached last; empty when it could.
    """

    sent: int = 0
    answered: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    latencies_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES_KEPT))
    failure: str = ""

    def latency_seconds(self, quantile: float) -> float:
        """Of a pipeline from its first byte to its last reply; 0 when there was none."""
        ordered = sorted(self.latencies_seconds)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] if ordered else 0.0


class LoadConnection:
    """One connection, RESP2: commands out, replies in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, commands: Sequence[Command]) -> None:
        """Write a pipeline."""
        self._writer.write(b"".join(map(_request, commands)))

    async def reply(self) -> Any:
        """The next reply: int, bytes, None or list; an error is a CommandRefused in its place.

        Raises:
            ConnectionError, asyncio.IncompleteReadError: the connection is gone.
        """
        line = await self._reader.readuntil(b"\r\n")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return CommandRefused(rest.decode(errors="replace"))
        if kind == b"+":
            return rest
        if kind not in {b":", b"$", b"*"}:
            raise ConnectionError("what answers there does not speak Redis' protocol")
        number = int(rest)
        if kind == b":":
            return number
        if number < 0:
            return None
        if kind == b"$":
            return (await self._reader.readexactly(number + 2))[:-2]
        return [await self.reply() for _ in range(number)]

    async def ask(self, *command: str) -> Any:
        """One command and its reply."""
        self.send([command])
        return await self.reply()

    def close(self) -> None:
        """Close it."""
        self._writer.close()


class CommandRefused(Exception):  # noqa: N818 - a reply
    """An error reply."""


def _request(command: Command) -> bytes:
    words = [word.encode() for word in command]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


async def connect(address: Address, password: str) -> LoadConnection:
    """A connection to a worker that has applied its log.

    Raises:
        OSError: it cannot be reached, refuses the password, or is loading.
    """
    connection = LoadConnection(*await asyncio.open_connection(*address, limit=_LINE_BYTES_MAX))
    commands: list[Command] = [("AUTH", password), ("PING",)] if password else [("PING",)]
    try:
        for command in commands:
            reply = await connection.ask(*command)
            if isinstance(reply, CommandRefused):
                raise OSError(f"{address[0]}:{address[1]} answers {reply}")  # noqa: TRY301 - closed like every failure
    except BaseException:
        connection.close()
        raise
    return connection


class Nodes:
    """Connections of one client to the workers that own the slots."""

    def __init__(self, address: Address, password: str) -> None:
        self._address = address
        self._password = password
        self._ranges: list[tuple[int, int, Address]] = []
        self._connections: dict[Address, LoadConnection] = {}

    async def open(self) -> None:
        """Ask one worker who owns what, and connect to all of them.

        Raises:
            OSError, asyncio.IncompleteReadError: one of them cannot be reached, or is loading.
        """
        first = self._connections[self._address] = await connect(self._address, self._password)
        slots = await first.ask("CLUSTER", "SLOTS")
        if isinstance(slots, CommandRefused):  # a standalone service
            slots = [[0, 16383, [b"", self._address[1]]]]
        self._ranges = [
            (low, high, (node[0].decode() if node[0] else self._address[0], node[1])) for low, high, node, *_ in slots
        ]
        for _, _, address in self._ranges:
            if address not in self._connections:
                self._connections[address] = await connect(address, self._password)

    def owner_of(self, key: str) -> LoadConnection:
        """The connection to the worker that has `key`."""
        number = slot(key.encode())
        address = next((at for low, high, at in self._ranges if low <= number <= high), self._address)
        return self._connections[address]

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


class Generator:
    """Sends traffic to the cluster that `address` is part of.

    Args:
        address: HOST:PORT of one worker.
        rate: commands a second, all clients together.
        clients: how many send at the same time.
        keys: how many of each type there are at most.
        password: of the default user; empty for none.
    """

    def __init__(self, address: str, *, rate: float, clients: int, keys: int, password: str = "") -> None:
        self.traffic = Traffic()
        self._address = parse_address(address)
        self._rate = rate
        self._clients = clients
        self._keys = keys
        self._password = password

    async def run(self, stop: asyncio.Event, seconds: float, advance: Advance) -> None:
        """Send for so many seconds (0: without end), or until `stop`; `advance` is told of the commands sent."""
        began = monotonic()
        clients = [asyncio.create_task(self._client(number)) for number in range(self._clients)]
        try:
            while not stop.is_set() and not (seconds and monotonic() - began >= seconds):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE_SECONDS):
                        await stop.wait()
                advance(self.traffic.sent)
                for client in clients:
                    if client.done():
                        client.result()  # a bug: it ends with its exception alone
        finally:
            self.traffic.seconds = monotonic() - began
            for client in clients:
                client.cancel()
            await asyncio.wait(clients)

    async def _client(self, number: int) -> None:
        """One client for ever; it connects again when its connections are lost."""
        draws = random.Random(number)  # noqa: S311 - no secret: which key is next
        while True:
            nodes = Nodes(self._address, self._password)
            try:
                await nodes.open()
                self.traffic.failure = ""
                await self._send(nodes, draws)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.traffic.failure = f"{error}; is that where `slotlog serve` has its --resp?"
                await asyncio.sleep(_RETRY_SECONDS)
            finally:
                nodes.close()

    async def _send(self, nodes: Nodes, draws: random.Random) -> None:
        began, share, sent = monotonic(), self._rate / self._clients, 0
        while True:
            due = int((monotonic() - began) * share) - sent
            if due <= 0:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            pipelines: dict[LoadConnection, list[Command]] = {}
            for _ in range(min(due, _PIPELINE_BLOCKS_MAX)):
                key, block = self._draw(draws)
                pipelines.setdefault(nodes.owner_of(key), []).extend(block)
            sent += sum(map(len, pipelines.values()))
            await self._exchange(pipelines)

    async def _exchange(self, pipelines: dict[LoadConnection, list[Command]]) -> None:
        began = monotonic()
        for connection, commands in pipelines.items():
            connection.send(commands)
            self.traffic.sent += len(commands)
        for connection, commands in pipelines.items():
            for _ in commands:
                reply = await connection.reply()
                self.traffic.answered += 1
                if isinstance(reply, CommandRefused):
                    self.traffic.errors[str(reply).partition(" ")[0]] += 1
        self.traffic.latencies_seconds.append(monotonic() - began)

    def _draw(self, draws: random.Random) -> tuple[str, list[Command]]:
        """A key, and the commands on it."""
        _, lines = draws.choices(_MIX, _WEIGHTS)[0]
        n = int(self._keys * draws.random() ** 3)
        words = {"n": n, "m": draws.randrange(_VALUES), "ttl": draws.randint(*_TTL_SECONDS)}
        block = [tuple(line.format_map(words).split()) for line in lines]
        key = next(word for line in lines for word in line.split() if word.endswith(":{n}"))
        return key.format_map(words), block

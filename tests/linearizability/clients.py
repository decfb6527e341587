"""Concurrent clients that write and read a few keys and record the replies, while their server is killed.

Keys, all after the prefix of the history: registers `r…` (strings of digits), lists `l…`, sets `s…`, streams `x…`, each
with one group of as many consumers as there are clients.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import closing
from time import monotonic_ns
from typing import Any, Final, NamedTuple

from tests.linearizability.history import Operation
from tests.real.oracle import Connection, ErrorReply, NullArray, SimpleString
from tests.wire.client import Client
from tests.wire.servers import RespServer

CLIENTS: Final = 8
_DEPTH_MAX: Final = 4
_REFUSALS: Final = b"LOADING ", b"CLUSTERDOWN ", b"MOVED ", b"UNBLOCKED "
_KEYS: Final = ("r0", "r1", "r2", "l0", "l1", "s0", "x0")
_MEMBERS: Final = 4
_RECONNECT_S: Final = 0.02
_SECONDS_MAX: Final = 60

_SWAP: Final = "if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then return redis.call('SET', KEYS[1], ARGV[2]) end"
_LIBRARY: Final = f"#!lua name=swap\nredis.register_function('swap', function(KEYS, ARGV) {_SWAP} end)"

_READS: Final = frozenset({"GET", "LLEN", "LRANGE", "SISMEMBER", "SCARD", "XLEN", "XRANGE", "XPENDING"})
_COMMANDS: Final = {
    "r": ("GET", "GET", "GET", "SET", "SET", "GETSET", "INCR", "INCR", "APPEND", "DEL", *("CAS",) * 4, *("SWAP",) * 2),
    "l": ("RPUSH", "RPUSH", "LPUSH", "LPOP", "RPOP", "BLPOP", "LLEN", "LRANGE"),
    "s": ("SADD", "SADD", "SREM", "SISMEMBER", "SISMEMBER", "SCARD"),
    "x": ("XADD", "XADD", "XREADGROUP", "XREADGROUP", "XACK", "XACK", "XPENDING", "XPENDING", "XLEN", "XRANGE"),
}


_OF_STREAMS: Final = frozenset(_COMMANDS["x"])
_ACKNOWLEDGED_OF: Final = 20
"""XACK is sent for one of so many entries that were given last."""


class Request(NamedTuple):
    """An operation that is about to be sent: what the checker calls it, and what goes over the wire."""

    key: str
    command: str
    args: tuple[str, ...]
    wire: tuple[bytes | str | float, ...]


class Recorder:
    """The clients of one history.

    Args:
        addresses: of the server, or of all workers of a group.
        prefix: of the history's keys, which no other history may use.
        operations: about how many to record.
        seed: of all that is random here.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], prefix: str, operations: int, seed: int) -> None:
        self.history: list[Operation] = []
        self._addresses = addresses
        self._prefix = prefix
        self._operations = operations
        self._seed = seed
        self._values = iter(range(10, 10**9))
        self._grown = asyncio.Event()
        self._seen: dict[str, str] = {}
        self._given: dict[str, list[tuple[str, bytes]]] = {}  # value and id of what groups have given

    async def run(self) -> None:
        """Run all clients until the history is long enough.

        Raises:
            TimeoutError: it takes longer than a minute.
        """
        async with asyncio.timeout(_SECONDS_MAX), asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                tasks.create_task(self._run(random.Random(f"{self._seed}.{number}")))

    async def reached(self, operations: int) -> None:
        """Wait until so many operations are recorded."""
        while len(self.history) < operations:
            self._grown.clear()
            await self._grown.wait()

    async def _run(self, choose: random.Random) -> None:
        address = choose.choice(self._addresses)
        while len(self.history) < self._operations:
            try:
                client = await Client.connect(address)
            except ConnectionError:
                await asyncio.sleep(_RECONNECT_S)
                address = choose.choice(self._addresses)
                continue
            try:
                while len(self.history) < self._operations:
                    await self._turn(client, choose)
            except MovedError as moved:
                address = moved.address
            except ConnectionError:
                pass
            finally:
                client.close()

    async def _turn(self, client: Client, choose: random.Random) -> None:
        requests = [self._choose(choose) for _ in range(choose.randint(1, _DEPTH_MAX))]
        if requests[0].wire[0] == "CAS":
            await self._compare_and_set(client, requests[0])
        else:
            await self._send(client, [request for request in requests if request.wire[0] != "CAS"])

    def _choose(self, choose: random.Random) -> Request:
        key = choose.choice(_KEYS)
        command = choose.choice(_COMMANDS[key[0]])
        name = f"{self._prefix}:{key}"
        args: tuple[str, ...] = ()
        if command in {"SET", "GETSET", "RPUSH", "LPUSH", "CAS", "SWAP"}:
            args = (str(next(self._values)),)
        elif command == "APPEND":
            args = (str(choose.randint(1, 9)),)  # no leading 0, which INCR would refuse
        elif command in {"SADD", "SREM", "SISMEMBER"}:
            args = (str(choose.randrange(_MEMBERS)),)
        if command in _OF_STREAMS:
            return self._on_stream(name, command, choose)
        if command == "SWAP":  # a script or a function, for what somebody has just seen
            args = (self._seen.get(name, ""), *args)
            return Request(name, "CAS", args, (*choose.choice((("EVAL", _SWAP), ("FCALL", "swap"))), 1, name, *args))
        if command == "BLPOP":  # at its end a list was empty when it began, as it is for an LPOP that finds nothing
            return Request(name, "LPOP", (), ("BLPOP", name, 0.01))
        return Request(name, command, args, (command, name, *((0, -1) if command == "LRANGE" else args)))

    def _on_stream(self, name: str, command: str, choose: random.Random) -> Request:
        given = self._given.get(name, [])
        if command == "XACK" and given:  # perhaps once more
            value, entry_id = choose.choice(given[-_ACKNOWLEDGED_OF:])
            return Request(name, command, (value,), (command, name, "crew", entry_id))
        if command == "XREADGROUP":
            how = choose.choice(((), ("BLOCK", 10)))
            words = (command, "GROUP", "crew", f"c{choose.randrange(CLIENTS)}", "COUNT", 1, *how, "STREAMS", name, ">")
            return Request(name, command, (), words)
        if command in _READS:
            rest = {"XLEN": (), "XRANGE": ("-", "+"), "XPENDING": ("crew",)}[command]
            return Request(name, command, (), (command, name, *rest))
        value = str(next(self._values))
        return Request(name, "XADD", (value,), ("XADD", name, "*", "value", value))

    async def _send(self, client: Client, requests: Sequence[Request]) -> list[Any]:
        """Send all in one write, and record each."""
        called = monotonic_ns()
        client.send(*(request.wire for request in requests))
        replies: list[Any] = []
        try:
            for request in requests:
                replies.append(await client.reply())
                self._record(request, called, replies[-1])
        except ConnectionError:
            for request in requests[len(replies) :]:
                self._record_unknown(request, called)
            raise
        for reply in replies:
            _follow(reply)
        return replies

    async def _compare_and_set(self, client: Client, request: Request) -> None:
        """WATCH, GET, and in a transaction SET: an exchange of what was read, at the moment of EXEC, or nothing."""
        watched = await client.call("WATCH", request.key)
        _follow(watched)
        if _is_refused(watched):
            return
        assert SimpleString(b"OK") == watched
        (read,) = await self._send(client, [Request(request.key, "GET", (), ("GET", request.key))])
        swap = Request(request.key, "CAS", (_text(read) or "", *request.args), ())
        called = monotonic_ns()
        client.send(("MULTI",), ("SET", request.key, *request.args), ("EXEC",))
        try:
            replies = [await client.reply() for _ in range(3)]
        except ConnectionError:
            self._record_unknown(swap, called)
            raise
        _follow(replies[1])
        if _is_refused(replies[1]):
            return  # and EXEC is
        assert [SimpleString(b"OK"), SimpleString(b"QUEUED")] == replies[:2]
        if not isinstance(replies[2], NullArray):  # else another client was faster
            exchanged = replies[2] if isinstance(replies[2], ErrorReply) else replies[2][0]
            self._record(swap, called, exchanged)

    def _record(self, request: Request, called: int, reply: Any) -> None:
        if isinstance(reply, ErrorReply) and reply.text.startswith(b"UNKNOWNOUTCOME "):
            self._record_unknown(request, called)
            return
        if _is_refused(reply):
            return
        if request.wire[:1] == ("BLPOP",) and isinstance(reply, list):
            reply = reply[1]
        key, command, args, _ = request
        if command in _OF_STREAMS:
            reply = self._of_stream(request, reply)
        if command == "GET":
            self._seen[key] = _text(reply) or ""
        self.history.append(Operation(key, command, args, _text(reply), called, monotonic_ns()))
        self._grown.set()

    def _of_stream(self, request: Request, reply: Any) -> Any:
        """A reply as the checker has it: without ids."""
        if isinstance(reply, ErrorReply | NullArray) or reply is None:
            return reply
        if request.command == "XADD":
            return b"OK"
        if request.command == "XPENDING":
            return reply[0]
        if request.command == "XRANGE":
            return [fields[1] for _, fields in reply]
        if request.command == "XREADGROUP":
            (((_, ((entry_id, (_, value)),)),)) = reply
            self._given.setdefault(request.key, []).append((value.decode(), entry_id))
            return value
        return reply

    def _record_unknown(self, request: Request, called: int) -> None:
        if request.command not in _READS:  # one without a reply says nothing
            self.history.append(Operation(request.key, request.command, request.args, None, called, None))


class MovedError(Exception):
    """Another worker owns the keys, at this address."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address)
        self.address = address


def _follow(reply: Any) -> None:
    """Raise MovedError where a reply says so."""
    if isinstance(reply, ErrorReply) and reply.text.startswith(b"MOVED "):
        host, _, port = reply.text.split()[2].decode().rpartition(":")
        raise MovedError((host, int(port)))


def _is_refused(reply: Any) -> bool:
    """Whether the server did nothing, since it is not up yet, or does not own the key."""
    return isinstance(reply, ErrorReply) and reply.text.startswith(_REFUSALS)


def _text(reply: Any) -> str | None:
    """A reply in the checker's notation. An error is its text, which explains nothing that a model would do."""
    if reply is None or isinstance(reply, NullArray):
        return None
    if isinstance(reply, ErrorReply | SimpleString):
        return reply.text.decode()
    if isinstance(reply, list):
        return ",".join(element.decode() for element in reply)
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def prepare(connection: Connection, prefix: str) -> None:
    """Make what the clients of a history take for granted, where its keys are."""
    assert connection.call("FUNCTION", "LOAD", "REPLACE", _LIBRARY) == b"swap"
    for key in _KEYS:
        if key.startswith("x"):
            connection.call("XGROUP", "CREATE", f"{prefix}:{key}", "crew", "0", "MKSTREAM")


async def recorded(server: RespServer, prefix: str, operations: int, seed: int, *, kills: int) -> list[Operation]:
    """The history of clients whose server is killed and started again `kills` times meanwhile."""
    with closing(server.connect()) as connection:
        prepare(connection, prefix)
    recorder = Recorder([server.address], prefix, operations, seed)
    choose = random.Random(seed)
    moments = sorted(choose.randrange(operations) for _ in range(kills))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(recorder.run())
        for moment in moments:
            await recorder.reached(moment)
            server.kill()
            await asyncio.to_thread(server.start)
    return recorder.history

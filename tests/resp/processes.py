"""A slotlog server as a process of its own, to be asked what the oracle is asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.oracle import Connection
from tests.real.process import free_ports
from tests.wire.servers import RespServer, slotlog


@contextmanager
def serving(directory: Path, options: Sequence[str] = (), **environment: str) -> Iterator[RespServer]:
    """`slotlog serve` on the embedded log in `directory`, with these settings as environment variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with slotlog(directory, options=options) as server:
            yield server


def replies(connection: Connection, commands: Sequence[str], protocol: str) -> list[tuple[str, Any]]:
    """Each command with its reply, in RESP2 or RESP3."""
    connection.call("HELLO", protocol)
    return [(command, connection.call(*command.split())) for command in commands]


@contextmanager
def two_workers(directory: Path) -> Iterator[tuple[RespServer, RespServer]]:
    """Two workers of one embedded log of four partitions, each with half of them."""
    ports = free_ports(2)
    peers = f"0-1=127.0.0.1:{ports[0]},2-3=127.0.0.1:{ports[1]}"
    servers = []
    for own, port in zip(("0-1", "2-3"), ports, strict=True):
        home = directory / f"worker-{own}"
        home.mkdir()
        options = ["--data", str(home / "data"), "--log", f"sqlite:///{directory / 'log.sqlite3'}", "--http", ""]
        options += ["--partitions", "4", "--own", own, "--peers", peers, "--resp", f"127.0.0.1:{port}"]
        command = [sys.executable, "-m", "ops.cli", "serve", *options]
        servers.append(RespServer(f"slotlog {own}", command, home, port))
    with servers[0], servers[1]:
        yield servers[0], servers[1]

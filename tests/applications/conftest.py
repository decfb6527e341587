"""The servers that the applications meet: each test runs on the oracle, which proves the test, and on slotlog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.applications.outages import Outages
from tests.clients.conftest import STANDALONE
from tests.wire.servers import slotlog, valkey


class Server(NamedTuple):
    """A running standalone server."""

    name: str
    """Oracle or slotlog."""

    port: int

    def url(self, db: int) -> str:
        """What an application is told."""
        return f"redis://127.0.0.1:{self.port}/{db}"


@pytest.fixture(scope="session", params=STANDALONE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Tests share it: each has a database of its own."""
    with STANDALONE[request.param](tmp_path_factory.mktemp("applications")) as [port]:
        yield Server(request.param, port)


OUTAGES = ["oracle", "slotlog", *["killed oracle"] * bool(os.environ.get("OUTAGE_KILLED_ORACLE"))]
"""The variable asks for what the library does when valkey-server itself is killed, with every write on disk."""


@pytest.fixture(scope="session", params=OUTAGES)
def outages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outages]:
    """A server that dies, but for the oracle, while programs work. Tests share it: each empties it."""
    directory = tmp_path_factory.mktemp("outages")
    kills = request.param != "oracle"
    with slotlog(directory) if request.param == "slotlog" else valkey(directory, durable=kills) as server:
        yield Outages(request.param, server, kills=kills)

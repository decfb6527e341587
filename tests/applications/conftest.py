"""The servers that the applications meet: each test runs on the oracle, which proves the test, and on slotlog."""

from __future__ import annotations

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


@pytest.fixture(scope="session", params=["oracle", "slotlog"])
def outages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outages]:
    """A server that dies, but for the oracle, while programs work. Tests share it: each empties it."""
    directory = tmp_path_factory.mktemp("outages")
    is_oracle = request.param == "oracle"
    with valkey(directory, durable=False) if is_oracle else slotlog(directory) as server:
        yield Outages(request.param, server, kills=not is_oracle)

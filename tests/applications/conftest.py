"""The servers that the applications meet: each test runs on the oracle, which proves the test, and on slotlog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.clients.conftest import STANDALONE


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

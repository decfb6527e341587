"""The servers of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.real.oracle import Oracle
from tests.wire.campaign import Servers
from tests.wire.servers import slotlog


@pytest.fixture
def restored_oracle(oracle_server: Oracle) -> Iterator[Oracle]:
    """The oracle, whose settings are put back afterwards."""
    with closing(oracle_server.connect()) as connection:
        before = connection.call("CONFIG", "GET", "*max-listpack*")
        yield oracle_server
        connection.call("CONFIG", "SET", *before)


@pytest.fixture(scope="session")
def slotlog_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Where a slotlog of the session listens."""
    with slotlog(tmp_path_factory.mktemp("wire")) as server:
        yield server.address


@pytest.fixture
def servers(slotlog_address: tuple[str, int], restored_oracle: Oracle) -> Servers:
    """Both sides: slotlog and the oracle."""
    return Servers(slotlog_address, restored_oracle.path)


@pytest.fixture
def second_oracle() -> Iterator[Oracle]:
    """Another oracle, in the place of slotlog where the comparison itself is tested."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as directory, Oracle(Path(directory)) as server:
        yield server

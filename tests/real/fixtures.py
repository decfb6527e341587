"""Fixtures for the real servers. A server that cannot start is an error of the test, never a skip."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.broker import KafkaBroker, make_archive
from tests.real.object_store import ObjectStore
from tests.real.oracle import Connection, Oracle

RUNNING_BROKER_VARIABLE = "SLOTLOG_TEST_KAFKA"


@contextmanager
def session_broker(directory: Path) -> Iterator[str]:
    """HOST:PORT of the broker that SLOTLOG_TEST_KAFKA names, else of one started with its data in `directory`."""
    running = os.environ.get(RUNNING_BROKER_VARIABLE)
    if running:
        yield running
        return
    make_archive()  # for this broker, and for those of single tests
    with KafkaBroker(directory) as broker:
        yield broker.bootstrap
    shutil.rmtree(directory)  # pytest would keep the data of three sessions


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the broker of the session. Topics are each test's own: give them names of their own."""
    with session_broker(tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A running broker of this test alone, to be stopped and killed at will."""
    with KafkaBroker(tmp_path) as broker:
        yield broker
    shutil.rmtree(tmp_path)


@pytest.fixture
def index_server() -> Iterator[Oracle]:
    """A running valkey-server of this test alone that keeps every command, to have an index, and to be killed."""
    options = ["--appendonly", "yes", "--appendfsync", "always"]
    with tempfile.TemporaryDirectory(prefix="index-") as directory, Oracle(Path(directory), options) as server:
        yield server


@pytest.fixture
def object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A running S3 server of this test alone, which the environment leads to."""
    directory = tmp_path / "s3"
    directory.mkdir()
    with ObjectStore(directory) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def oracle_server() -> Iterator[Oracle]:
    """The valkey-server of the session."""
    # Not in pytest's directory: the path of a Unix socket has to be short.
    with tempfile.TemporaryDirectory(prefix="oracle-") as directory, Oracle(Path(directory)) as server:
        yield server


@pytest.fixture
def oracle(oracle_server: Oracle) -> Iterator[Connection]:
    """A new connection to an empty oracle, RESP2, database 0."""
    connection = oracle_server.connect()
    connection.call("FLUSHALL")
    connection.call("FUNCTION", "FLUSH")
    yield connection
    connection.close()

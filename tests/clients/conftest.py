"""The servers that the clients meet: each test runs on the oracle, which proves the test, and on slotlog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.servers import Started, oracle_cluster, slotlog_cluster, standalone_oracle, standalone_slotlog

STANDALONE: dict[str, Started] = {"oracle": standalone_oracle, "slotlog": standalone_slotlog}
CLUSTER: dict[str, Started] = {"oracle": oracle_cluster, "slotlog": slotlog_cluster}


@pytest.fixture(scope="session", params=STANDALONE)
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a standalone server. Tests share it: each has keys of its own, or a database of its own."""
    with STANDALONE[request.param](tmp_path_factory.mktemp("standalone")) as [running]:
        yield running


@pytest.fixture(scope="session", params=CLUSTER)
def cluster_ports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """Of the two nodes of a cluster. Tests share them: each has keys of its own."""
    with CLUSTER[request.param](tmp_path_factory.mktemp("cluster")) as running:
        yield running

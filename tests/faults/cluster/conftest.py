"""Shared by the tests of workers on three brokers: the brokers, and the workers on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.rig import LARGE, Rig
from tests.real.cluster import KafkaCluster

if not LARGE:
    collect_ignore = ["test_one_by_one.py"]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers, which all tests of this folder share: each mends what it has broken."""
    with KafkaCluster(tmp_path_factory.mktemp("brokers")) as running:
        yield running


@pytest.fixture(scope="package")
def rig(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Three workers on them, until `test_replayed.py` ends them."""
    with ExitStack() as stack:
        yield Rig(cluster, tmp_path_factory.mktemp("rig"), 3, stack)

"""Shared by tests of faults: logs of either kind, workers on three brokers, and what a night has alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.rig import Rig, running_rig

if "GROUP_FAULTS" not in os.environ:  # they take minutes: `make nightly` has them
    collect_ignore = ["test_cluster.py", "test_cluster_faults.py"]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Three workers on three brokers."""
    with running_rig(tmp_path_factory.mktemp("rig")) as running:
        yield running


@pytest.fixture(params=["sqlite", "kafka"])
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty embedded log, and a real broker, on which a test's topics need names of their own."""
    if request.param == "kafka":
        return f"kafka://{request.getfixturevalue('kafka_bootstrap')}"
    return f"sqlite:///{tmp_path / 'log.sqlite3'}"

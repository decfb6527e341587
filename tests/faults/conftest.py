"""Shared by tests of faults: logs of either kind."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "kafka"])
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty embedded log, and a real broker, on which a test's topics need names of their own."""
    if request.param == "kafka":
        return f"kafka://{request.getfixturevalue('kafka_bootstrap')}"
    return f"sqlite:///{tmp_path / 'log.sqlite3'}"

"""The fixtures of the tests of the write pipeline."""

from __future__ import annotations

import pytest

from resp.writes import company


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group waits for nobody, but for what a turn of the event loop has brought."""
    monkeypatch.setattr(company, "PATIENCE_SECONDS", 0.0)

"""Sidekiq through a kill of its server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.applications.outages import Outages, again, ruby


@pytest.mark.timeout(200)
def test_sidekiq(outages: Outages, tmp_path: Path) -> None:
    """At most what a thread or the scheduler was just given is lost, and done when sent again."""
    done = outages.run(ruby("sidekiq_jobs.rb"), outages.prepare(tmp_path), kill_at=[25])

    assert (0, 6) == (done.report["left"], done.report["retried"])
    assert done.report["lost"] <= 3 * done.outages
    assert again(60, done) == sorted(map(int, done.work))

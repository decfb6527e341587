"""The benchmark of failover runs, and prints what it should."""

from __future__ import annotations

import json

import pytest

from benchmarks.group.failover import FAILOVER_SMOKE, run_failover


async def test_failover_is_timed(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line with a standby and one without: seconds to the first write and read, beside the session time-out."""
    monkeypatch.setenv("SLOTLOG_TEST_KAFKA", kafka_bootstrap)
    lines = [json.loads(result.line()) async for result in run_failover(FAILOVER_SMOKE)]

    assert ["failover_standby", "failover_alone"] == [line["name"] for line in lines]
    for line in lines:
        assert FAILOVER_SMOKE.session_seconds == line["session_s"]
        assert line["write_s"] > 0
        assert line["read_s"] > 0

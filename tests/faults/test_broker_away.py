"""A service names a broker that went away, resumes when it is back, and can be stopped meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, succeed, wait_for_offset, wait_until, write_lines
from tests.real.broker import KafkaBroker


@pytest.mark.timeout(180)
def test_service_outlives_its_broker(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """Without a broker /readyz names it; after its return events are applied; SIGTERM ends it at any time."""
    events = write_lines(tmp_path / "events", [{"cmd": "INCR", "args": ["n"]}] * 3)
    options = ["--data", str(tmp_path / "state"), "--log", f"kafka://{own_broker.bootstrap}", "--topic", "away"]
    succeed("produce", events, *options)
    with ServiceProcess([*options, "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        wait_for_offset(service, 3)
        own_broker.kill()
        wait_until(lambda: get(service, "/readyz").json["partitions"][0]["condition"] == "waiting", "it to be missed")
        away = get(service, "/readyz")
        own_broker.start()
        succeed("produce", events, *options)
        wait_for_offset(service, 6)
        wait_until(lambda: get(service, "/readyz").status == 200, "it to be ready again")
        own_broker.kill()
        assert 0 == service.terminate()

    assert 503 == away.status
    assert f"Kafka at {own_broker.bootstrap}" in away.json["partitions"][0]["reason"]
    assert '"6"\n' == succeed("query", *options, "GET", "n")

"""A loss of power, which only what was synced outlives: each acknowledged write is there."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.faults.failing import LossyDisk
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run
from tests.real.oracle import Connection
from tests.real.process import free_ports

LOSSES: Final = int(os.environ.get("POWER_LOSSES", "2"))
"""How often the power is lost; the variable asks for more of them for a night."""

LOG: Final = "log.sqlite3"
WRITES: Final = 40
UNANSWERED: Final = 20


@pytest.mark.timeout(1800)
def test_acknowledged_writes_outlive_a_loss_of_power(tmp_path: Path) -> None:
    """The embedded log falls back to what was synced, while the state keeps all that it was given.

    A write is there if it was acknowledged, and at most once if it was under way; the state is that of the log.
    """
    disk, data = LossyDisk(tmp_path, LOG), tmp_path / "data"
    (port,) = free_ports(1)
    words = ["--data", str(data), "--resp", f"127.0.0.1:{port}", "--http", ""]
    written: list[bytes] = []
    for loss in range(LOSSES):
        with ServiceProcess(words, disk.environment) as service:
            service.wait_for("started")
            with closing(Connection(("127.0.0.1", port))) as client:
                there = client.call("LRANGE", "list", 0, -1)
                assert written == there[: len(written)]
                assert [*dict.fromkeys(there)] == there
                written = there
                for number in range(WRITES):
                    value = b"%d:%d" % (loss, number)
                    assert len(written) + 1 == client.call("RPUSH", "list", value)
                    written.append(value)
                for number in range(UNANSWERED):
                    client.send("RPUSH", "list", f"{loss}:unanswered:{number}")
                service.kill()
        disk.lose_power(data)
    for verb in (("check",), ("check", "--log"), ("replay", "--to", tmp_path / "again")):
        result = run(*verb, "--data", data)
        assert (0, "") == (result.exit_code, "" if result.exit_code == 0 else result.output)

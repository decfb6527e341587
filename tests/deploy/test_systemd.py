"""deploy/systemd/slotlog.service, and what the service tells systemd: a socket of the test stands for it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ops.serving.systemd import pause_seconds
from tests.deploy.files import ROOT
from tests.faults.service import ServiceProcess
from tests.ops.verbs import succeed, write_lines

UNIT: Final = (ROOT / "deploy/systemd/slotlog.service").read_text()
INCR: Final = {"cmd": "INCR", "args": ["n"]}


class Manager:
    """The end of the notification socket that systemd has."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(60)

    def message(self) -> dict[str, str]:
        """The next one, its assignments by name."""
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().splitlines())

    def message_with(self, name: str) -> list[dict[str, str]]:
        """All up to the first one with that assignment."""
        messages = [self.message()]
        while name not in messages[-1]:
            messages.append(self.message())
        return messages

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """Of this test alone."""
    manager = Manager(tmp_path / "n")
    yield manager
    manager.close()


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """systemd-analyze finds every directive known and well-formed, and the sandbox a tight one."""
    # The user and the program are of the machine that the unit is installed on.
    unit = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT, flags=re.MULTILINE)
    path = tmp_path / "slotlog.service"
    path.write_text(unit)
    verified = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    sandbox = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (verified.returncode, verified.stderr)
    assert sandbox.returncode == 0, sandbox.stdout[-200:]


def test_the_unit_starts_the_program(tmp_path: Path) -> None:
    """What ExecStart gives the program is taken, with the settings file that the unit names."""
    words = re.search(r"^ExecStart=/opt/slotlog/bin/slotlog serve (.*)$", UNIT, re.MULTILINE)
    named = dict(re.findall(r"(SLOTLOG_\w+)=(\S+)", re.search(r"^Environment=(.*)$", UNIT, re.MULTILINE)[1]))  # type: ignore[index]
    assert words is not None
    settings = tmp_path / named["SLOTLOG_CONFIG"].lstrip("/")
    settings.parent.mkdir(parents=True)
    settings.write_text('http = "127.0.0.1:0"\nresp = "127.0.0.1:0"\ntopic = "of-the-file"\n')
    environment = {name: str(tmp_path / value.lstrip("/")) for name, value in named.items()}
    with ServiceProcess(words[1].split(), environment) as service:
        started = service.wait_for("started")
        assert service.terminate() == 0

    assert ("of-the-file", str(tmp_path / "var/lib/slotlog")) == (started["topic"], started["data"])


def test_a_service_says_when_it_is_ready_and_that_it_lives(manager: Manager, tmp_path: Path) -> None:
    """READY comes once everything is applied, with more time asked for until then; then WATCHDOG; last STOPPING."""
    data = tmp_path / "data"
    succeed("produce", write_lines(tmp_path / "events", [INCR] * 3000), "--data", data)
    environment = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "400000"}
    options = ["--data", str(data), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
    with ServiceProcess(options, environment | {"SLOTLOG_LAG_EVENTS_READY_MAX": "0"}) as service:
        *before, ready = manager.message_with("READY")
        alive = [manager.message() for _ in range(3)]
        applied = json.loads(succeed("digest", "--data", data, "--json"))["partitions"][0]["next_offset"]
        assert service.terminate() == 0
        *_, last = manager.message_with("STOPPING")

    assert before != []
    assert {message["EXTEND_TIMEOUT_USEC"] for message in before} == {"60000000"}
    assert {message["STATUS"].partition(",")[0] for message in before} == {"catching up with 1 of 1 partition"}
    assert (ready["STATUS"], applied) == ("1 partition applied", 3000)
    assert [("WATCHDOG" in message, "EXTEND_TIMEOUT_USEC" in message) for message in alive] == [(True, False)] * 3
    assert last == {"STOPPING": "1"}


def test_several_processes_speak_with_one_voice(manager: Manager, tmp_path: Path) -> None:
    """Of a service of two processes systemd hears once all are ready, and of their partitions together."""
    options = ["--data", str(tmp_path), "--http", "", "--resp", "", "--partitions", "2", "--processes", "2"]
    with ServiceProcess(options, {"NOTIFY_SOCKET": manager.path}) as service:
        *before, ready = manager.message_with("READY")
        assert service.terminate() == 0
        *after, last = manager.message_with("STOPPING")

    assert ready["STATUS"] == "2 partitions applied"
    assert [message for message in (*before, *after) if "1 partition applied" in message["STATUS"]] == []
    assert last == {"STOPPING": "1"}


@pytest.mark.damaging
def test_a_partition_that_is_stopped_does_not_hold_up_the_start(manager: Manager, tmp_path: Path) -> None:
    """Where time mends nothing the start is over, and the status says which partition it is and why."""
    data = tmp_path / "data"
    options = ["--data", str(data), "--http", "", "--resp", ""]
    succeed("produce", write_lines(tmp_path / "events", [INCR]), "--data", data)
    with ServiceProcess(options) as service:
        service.wait_for("started")
        assert service.terminate() == 0
    (manifest,) = (data / "0").glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20])
    with ServiceProcess(options, {"NOTIFY_SOCKET": manager.path}) as service:
        *_, ready = manager.message_with("READY")
        assert service.terminate() == 0

    assert ready["STATUS"].startswith("partition 0 is stopped: ")
    assert "is damaged (Corruption: " in ready["STATUS"]
    assert "…/" in ready["STATUS"]  # UTF-8 arrives whole


def test_it_speaks_twice_in_the_time_of_the_watchdog() -> None:
    """Half of WatchdogSec, at most a second, is the pause; a watchdog of another process is not ours."""
    assert pause_seconds({"WATCHDOG_USEC": "120000000"}, 7) == 1
    assert pause_seconds({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "7"}, 7) == 0.25
    assert pause_seconds({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "8"}, 7) == 1
    assert pause_seconds({}, os.getpid()) == 1

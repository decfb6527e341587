"""deploy/local/kafka: it keeps to the process that it has started, waits for it, and says why there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.files import ROOT
from tests.real.process import free_ports


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script in a directory of its own, with a port where nothing listens, and without jars."""
    folder = tmp_path / "deploy" / "local"
    folder.mkdir(parents=True)
    properties = (ROOT / "deploy/local/kafka.properties").read_text()
    (port,) = free_ports(1)
    (folder / "kafka.properties").write_text(properties.replace(":9092", f":{port}"))
    return Path(shutil.copy(ROOT / "deploy/local/kafka", folder))


@pytest.fixture
def stranger(tmp_path: Path, script: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose number stands in the file that a broker which was killed has left."""
    (tmp_path / ".data").mkdir()
    with subprocess.Popen(["sleep", "600"], cwd=script.parent) as process:
        (tmp_path / ".data" / "kafka.pid").write_text(f"{process.pid}\n")
        yield process
        process.kill()


def test_stop_ends_nobody_elses_process(script: Path, stranger: subprocess.Popen[bytes]) -> None:
    """Where the number is another process's by now, `stop` has nothing to do."""
    done = subprocess.run([script, "stop"], capture_output=True, text=True, timeout=60, check=False)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert stranger.poll() is None


@pytest.mark.usefixtures("stranger")
def test_start_takes_nobody_else_for_the_broker(script: Path) -> None:
    """Where the number is another process's by now, `start` starts a broker, and does not say that there is one."""
    done = subprocess.run([script, "start"], capture_output=True, text=True, timeout=60, check=False)

    assert (1, "kafka: there are no jars; type: make kafka\n") == (done.returncode, done.stderr)


def test_stop_without_a_file_is_no_error(script: Path) -> None:
    """A number whose process is gone, and no number, are both a broker that does not run."""
    subprocess.run([script, "stop"], check=True, timeout=60)
    data = script.parents[2] / ".data"
    data.mkdir()
    gone = subprocess.Popen(["true"])
    gone.wait()
    (data / "kafka.pid").write_text(f"{gone.pid}\n")
    done = subprocess.run([script, "stop"], capture_output=True, text=True, timeout=60, check=False)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


# In place of Java: the formatting does what the test says, the broker as well.
_JAVA: Final = """#!/bin/sh
case "$*" in
*StorageTool*) exec {python} -c "$FORMAT" "$@" ;;
*) exec {python} -c "$BROKER" "$@" ;;
esac
"""
_LISTENS: Final = """
import re, socket, sys, time
time.sleep({seconds})
port = re.search(r"^advertised.*:([0-9]+)$", open(sys.argv[-1]).read(), re.M)[1]
listener = socket.create_server(("127.0.0.1", int(port)))
while True:
    listener.accept()
"""


def start(script: Path, broker: str, formatting: str = "", seconds: int = 60) -> subprocess.CompletedProcess[str]:
    """`start` with another Java."""
    root = script.parents[2]
    (root / "bin").mkdir(exist_ok=True)
    java = root / "bin" / "java"
    java.write_text(_JAVA.format(python=sys.executable))
    java.chmod(0o700)
    (root / ".cache" / "kafka").mkdir(parents=True, exist_ok=True)
    (root / ".cache" / "kafka" / "kafka.jar").touch()
    environment = {
        **os.environ,
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        "FORMAT": formatting,
        "BROKER": broker,
        "KAFKA_START_SECONDS": str(seconds),
    }
    return subprocess.run([script, "start"], capture_output=True, text=True, env=environment, timeout=90, check=False)


def test_start_waits_until_it_answers(script: Path) -> None:
    """A broker that takes its time is waited for; `start` leaves it alone then, and `stop` ends it."""
    first = start(script, _LISTENS.format(seconds=1))
    number = (script.parents[2] / ".data" / "kafka.pid").read_text()
    second = start(script, "raise AssertionError")
    same = (script.parents[2] / ".data" / "kafka.pid").read_text()
    stopped = subprocess.run([script, "stop"], capture_output=True, text=True, timeout=60, check=False)

    assert ["kafka: it listens on"] * 2 == [each.stdout.rpartition(" ")[0] for each in (first, second)]
    assert (0, 0, number) == (first.returncode, second.returncode, same)
    assert (0, "") == (stopped.returncode, stopped.stderr)
    assert not (script.parents[2] / ".data" / "kafka.pid").exists()


@pytest.mark.parametrize(
    ("formatting", "broker", "seconds", "reason"),
    [
        ("", "raise SystemExit('no room')", 60, "it ended at its start"),
        ("raise SystemExit('no room')", "", 60, "it could not make its directories"),
        (
            "print('no room')",
            "import time; time.sleep(600)",
            1,
            "it gave no answer on 127.0.0.1:{port} in 1 s, and was killed",
        ),
    ],
)
def test_start_says_why_there_is_no_broker(
    script: Path, formatting: str, broker: str, seconds: int, reason: str
) -> None:
    """A broker that ends, cannot be formatted or never answers: what it said last stands in the error, none is left."""
    data = script.parents[2] / ".data"
    data.mkdir()
    (data / "kafka.log").write_text("of an earlier start\n")
    done = start(script, broker, formatting, seconds)
    (port,) = re.findall(r"^advertised.*:(\d+)$", (script.parent / "kafka.properties").read_text(), re.MULTILINE)

    expected = f"kafka: {reason.format(port=port)}; the end of .data/kafka.log:\nno room\n"
    assert (1, expected) == (done.returncode, done.stderr)
    assert not (data / "kafka.pid").exists()

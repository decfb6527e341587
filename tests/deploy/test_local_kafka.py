"""deploy/local/kafka: it keeps to the process that it has started."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

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
    done = subprocess.run([script, "stop"], capture_output=True, text=True, timeout=30, check=False)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert stranger.poll() is None


@pytest.mark.usefixtures("stranger")
def test_start_takes_nobody_else_for_the_broker(script: Path) -> None:
    """Where the number is another process's by now, `start` starts a broker, and does not say that there is one."""
    done = subprocess.run([script, "start"], capture_output=True, text=True, timeout=30, check=False)

    assert (1, "kafka: there are no jars; type: make kafka\n") == (done.returncode, done.stderr)


def test_stop_without_a_file_is_no_error(script: Path) -> None:
    """A number whose process is gone, and no number, are both a broker that does not run."""
    subprocess.run([script, "stop"], check=True, timeout=30)
    data = script.parents[2] / ".data"
    data.mkdir()
    gone = subprocess.Popen(["true"])
    gone.wait()
    (data / "kafka.pid").write_text(f"{gone.pid}\n")
    done = subprocess.run([script, "stop"], capture_output=True, text=True, timeout=30, check=False)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)

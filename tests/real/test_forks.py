"""Programs that are forked off a process which has imported them end as those do that are started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.faults.clocks import ShiftedClock
from tests.faults.service import ServiceProcess
from tests.real import forks

WORDS = [sys.executable, "-m", "ops.cli"]


def forked(words: list[str], directory: Path, environment: Mapping[str, str] = os.environ) -> tuple[int, str, str]:
    """Exit code and output of a program that `forks` has started."""
    out, error = directory / "out", directory / "error"
    with out.open("wb") as stdout, error.open("wb") as stderr:
        process = forks.start([*WORDS, *words], environment, stdout=stdout.fileno(), stderr=stderr.fileno())
    code = process.wait(60)
    assert type(process) is forks._Forked
    return code, out.read_text(), error.read_text()


@pytest.mark.parametrize(
    "words", [["version"], ["serve", "--nonsense"], ["digest", "--data", "/nowhere"], ["nonsense"]]
)
def test_an_end_is_that_of_a_process(words: list[str], tmp_path: Path) -> None:
    """Code, output and error are the same: all of it is written, although the program takes nothing apart."""
    alone = subprocess.run([*WORDS, *words], capture_output=True, text=True, check=False)

    assert (alone.returncode, alone.stdout, alone.stderr) == forked(words, tmp_path)


def test_a_library_is_loaded_before_the_programs(tmp_path: Path) -> None:
    """With a preloaded library they are forked, too; a program goes on and ends when another library is wanted."""
    clocks = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        clocks.append(ShiftedClock(tmp_path / name))
    one, other = ({**os.environ, **clock.environment} for clock in clocks)
    options = ["--data", str(tmp_path / "data"), "--http", "127.0.0.1:0"]
    clocks[0].set(10**12)
    with ServiceProcess(options, clocks[0].environment) as service:
        said = service.wait_for("started")
        for environment in (one, one, other):
            assert 0 == forked(["version"], tmp_path, environment)[0]
        assert 0 == service.terminate()
    for clock in clocks:
        clock.close()

    assert "2058" <= said["timestamp"]

"""Runs tests of states on Python alone, without the compiled hot path on which all other sessions run.

    python -m tests.python_alone          a small dose (make test)
    python -m tests.python_alone --all    all of them (make nightly)

The tests in `tests/engine/native/` compare the two; these show that each is right by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.layouts.__main__ import DOSE

ROOT: Final = Path(__file__).parents[1]

SETTING: Final = {"SLOTLOG_NATIVE": "false"}

SOME: Final = (
    "tests/engine/apply",
    "tests/engine/batch",
    "tests/engine/types",
    "tests/golden",
    "tests/differential/test_replies.py",
    "tests/ingest/applying",
    "tests/simulation/test_simulation.py::test_seeds_hold",
)
ALL: Final = ("tests/engine", "tests/golden", "tests/differential", "tests/ingest", "tests/simulation", "tests/faults")


def main(words: Sequence[str]) -> int:
    """Run them; returns the exit code."""
    everything = "--all" in words
    command = [sys.executable, "-m", "pytest", "-o", "cache_dir=.cache/pytest-python", *(ALL if everything else SOME)]
    variables = {**os.environ, **SETTING, **({} if everything else DOSE)}
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

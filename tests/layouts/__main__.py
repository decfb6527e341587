"""Runs the tests of states on every layout but the default one, which the other sessions have.

    python -m tests.layouts          a small dose of each kind (make test)
    python -m tests.layouts --all    all of them (make nightly)

What is small on one layout is much on all. The contract, the recorded logs and conversions hold for each. Random
commands, crashes, the audit and cleaning have their dose on each layout that has code of its own: `kvrocks-cluster` is
`kvrocks` with a slot in front, and `hashed` stood for the others before they were there. Services are killed while they
clean on one layout, and while they apply on another one that writes in its own way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engine.layouts import DEFAULT_LAYOUT, LAYOUTS
from tests.layouts import VARIABLE
from tests.layouts.hashed import Hashed

ROOT: Final = Path(__file__).parents[2]

BYTES: Final = (
    "tests/engine/layouts",
    "tests/engine/test_conversion.py",
    "tests/engine/batch/keys/test_object_encoding.py",
    "tests/golden",
)
"""On each layout: its contract and its bytes, the way into it and out of it, OBJECT ENCODING, the recorded logs."""

STATES: Final = (
    "tests/engine/proof",
    "tests/engine/cleaning",
    "tests/differential/test_replies.py",
    "tests/simulation/test_simulation.py::test_seeds_hold",
    "tests/resp/cluster/test_keys_of_a_slot.py",
)
"""On each layout that is not much like another one."""

LIKE_ANOTHER: Final = frozenset({"kvrocks-cluster", Hashed.name})

DOSE: Final = {"SLOTLOG_SIMULATION_SEEDS": "12", "SLOTLOG_DIFFERENTIAL_DOSE": "500", "SLOTLOG_KILLS": "3"}
"""Seeds, commands of each group, kills."""

NIGHTLY: Final = {"SLOTLOG_KILLS": "20"}
"""Kills on each layout; of all else as much as on the default one."""

ALL: Final = (
    *("tests/engine", "tests/golden", "tests/differential", "tests/simulation", "tests/ingest/cleaning"),
    "tests/resp/cluster/test_keys_of_a_slot.py",
)
"""The tests that hold on every layout."""

CLEANING_KILLED: Final = "tests/faults/test_kill_cleaning.py"
APPLYING_KILLED: Final = "tests/faults/test_kill.py::test_kills_lose_nothing_and_repeat_nothing[embedded]"
KILLS: Final = (CLEANING_KILLED, APPLYING_KILLED)
"""What starts services, which know the layouts of the product alone."""

KILLED: Final = {"kvrocks": (CLEANING_KILLED,), "camellia-v1": (APPLYING_KILLED,)}
"""What of it is in `make test`, too."""


def main(words: Sequence[str]) -> int:
    """Run one session after the other, all of them; returns the exit code of the first that failed, or 0."""
    everything = "--all" in words
    failed = 0
    for name in LAYOUTS:
        if name != DEFAULT_LAYOUT:
            sys.stdout.write(f"==> --layout {name}\n")
            sys.stdout.flush()
            code = _session(name, _tests_of(name, everything=everything), everything=everything)
            failed = failed or code
    return failed


def _tests_of(name: str, *, everything: bool) -> tuple[str, ...]:
    if everything:
        return ALL if name == Hashed.name else (*ALL, *KILLS)
    if name in LIKE_ANOTHER:
        return BYTES
    return (*BYTES, *STATES, *KILLED.get(name, ()))


def _session(name: str, tests: Sequence[str], *, everything: bool) -> int:
    command = [sys.executable, "-m", "pytest", "-o", "cache_dir=.cache/pytest-layouts", "--layout", name, *tests]
    settings = NIGHTLY if everything else DOSE
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **settings, VARIABLE: name}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

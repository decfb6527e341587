"""Runs the large doses of the tests, one after the other, and says how long each took.

    python -m tests.nightly                  all of them (make nightly)
    python -m tests.nightly group streams    those alone (make nightly NIGHT='group streams')

What is drawn by a seed is drawn by the date, so that each night looks at something else. NIGHT_SEED=20261129, which a
night says first, repeats the draws of that one.

A dose that fails does not end the night: the others are run, and the exit code is that of the first one that failed. At
the end stands a line for each, and those that name the failures. What a dose said is in `.cache/nightly/NAME.log`, too.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep, strftime
from types import MappingProxyType
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
LOGS: Final = ROOT / ".cache" / "nightly"
FAILURES: Final = ("FAILED ", "ERROR ")
WITH_VALUE: Final = re.compile(r"[A-Z_]+=")
READ_BYTES: Final = 1 << 16
PAUSE_SECONDS: Final = 0.2
COMMANDS: Final = f"SLOTLOG_DIFFERENTIAL_COMMANDS={os.environ.get('COMMANDS', '100000')}"
"""Random commands of each group."""

NIGHT: Final = os.environ.get("NIGHT_SEED") or strftime("%Y%m%d")
"""The seed of the night, also behind midnight."""
SIMULATIONS: Final = 2000

DOSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "simulation": f"SLOTLOG_SIMULATION_SEEDS={SIMULATIONS}"
        " pytest tests/simulation/test_simulation.py -k seeds_hold",
        "disk": "DISK_FAILURES=60 DISK_FILLS=20"
        " pytest tests/faults/test_failing_disk.py tests/faults/test_full_disk.py",
        "rdb": "RDB_FLIPS=50000 pytest --timeout=7200 tests/ops/importing/rdb/test_damaged.py",
        "log-flips": "LOG_FLIPS=1000 pytest tests/faults/test_log_flips.py",
        "power": "POWER_LOSSES=50 pytest tests/faults/test_power_loss.py",
        "state-flips": "STATE_FLIPS=600 pytest tests/faults/test_state_flips.py",
        "functions": "FUNCTION_FLIPS=50000"
        " pytest --timeout=7200 tests/engine/commands/scripting/test_damaged_payloads.py",
        "scripts": "SCRIPT_PIECES=100000 pytest --timeout=14400 -k any_"
        " tests/engine/scripts tests/engine/commands/scripting tests/applications/test_carried.py",
        "assignor": "GROUP_SEEDS=10 GROUP_CHANGES=30 pytest tests/ingest/membership -k a_thousand",
        "group": "GROUP_EVENTS=100000 GROUP_BOUNCES=3 pytest tests/faults/test_group.py -k one_two_three",
        "histories": "GROUP_OPERATIONS=3000 GROUP_BOUNCES=3 pytest tests/faults/test_group_histories.py",
        "rolling": "ROLLING_ROUNDS=10 pytest tests/faults/test_rolling_clients.py",
        "brokers": "GROUP_FAULTS=large pytest tests/faults/cluster",
        "duplicates": "PRODUCER_CRASHES=20 pytest tests/faults/test_duplicates.py",
        "soak": "SOAK_ROUNDS=1000 pytest tests/faults/test_soak.py",
        "streams": "SLOTLOG_STREAM_KILLS=20 SLOTLOG_STREAM_SEEDS=3000 SLOTLOG_OPTION_WORDS=4"
        " pytest --timeout=7200 tests/faults/test_kill_streams.py tests/engine/commands/streams",
        "outages": "OUTAGE_PATIENCE=3m OUTAGE_ENTRIES=1000 OUTAGE_KILLED_ORACLE=1 pytest tests/applications -k outages",
        "year": "FLIGHT_MONTHS=12 FLIGHT_EVERY=1 pytest tests/ops/snapshots/test_a_year.py",
        "moments": "PAST_MOMENTS=120 pytest --timeout=7200 tests/ops/past/test_moments.py",
        "changes": "CHANGE_KILLS=30 pytest --timeout=3600 tests/faults/test_kill_changes.py",
        "import": "IMPORT_KEYS=1000000 pytest tests/ops/importing/test_import_live.py -k while_others_write",
        "differential": f"{COMMANDS} pytest"
        " tests/differential/test_replies.py tests/wire/test_replies.py tests/wire/test_waiting.py",
        "layouts": f"{COMMANDS} tests.layouts --all",
        "python-alone": f"{COMMANDS} tests.python_alone --all",
    }
)
"""What each is called, and what is run: variables, a module, its arguments."""


class Done(NamedTuple):
    """What became of a dose."""

    name: str
    code: int
    seconds: float
    failures: list[str]

    def __str__(self) -> str:
        """A line of the night."""
        return f"{self.name:<14}{self.seconds / 60:>7.1f} min  {f'exit code {self.code}' if self.code else 'passed'}\n"


def main(names: Sequence[str]) -> int:
    """Run these doses, or all; returns the exit code of the first that failed, 130 after Ctrl-C, or 0."""
    if unknown := [name for name in names if name not in DOSES]:
        sys.stderr.write(f"no dose: {' '.join(unknown)}; there are {' '.join(DOSES)}\n")
        return 2
    if not NIGHT.isdecimal():
        sys.stderr.write(f"NIGHT_SEED is no number: {NIGHT}\n")
        return 2
    chosen, done, code = names or [*DOSES], list[Done](), 0
    say(f"==> NIGHT_SEED={NIGHT} repeats the draws of this night\n")
    try:
        for number, name in enumerate(chosen, 1):
            say(f"==> {name}, {number} of {len(chosen)}, {strftime('%H:%M:%S')}: {DOSES[name]}\n")
            done.append(run(name, DOSES[name]))
            say(f"==> {done[-1]}")
    except KeyboardInterrupt:  # the dose that runs has heard of it as well, and ends in order
        code = 130
    say("\n")
    for each in done:
        say(str(each))
    for each in done:
        say("".join(each.failures))
    return code or next((each.code for each in done if each.code), 0)


def seeds_of(night: int) -> dict[str, str]:
    """The variables of the tests that draw by a seed."""
    return {"SIMULATION_FIRST_SEED": str(night * SIMULATIONS), "LINKS_SEED": str(night)}


def run(name: str, line: str) -> Done:
    """Run a line of `DOSES`, and show what it says as it comes."""
    words = shlex.split(line)
    own = dict(word.split("=", 1) for word in words if WITH_VALUE.match(word))
    environment = {**seeds_of(int(NIGHT)), **os.environ, **own}
    command = [sys.executable, "-m", *words[len(own) :]]
    began = monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"{name}.log").open("w+b") as log:  # no pipe: what a killed session leaves behind would keep it open
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log) as process:
            shown = 0
            while True:
                ended = process.poll() is not None
                new = os.pread(log.fileno(), READ_BYTES, shown)
                say(new.decode(errors="replace"))
                shown += len(new)
                if ended and not new:
                    break
                sleep(0 if new else PAUSE_SECONDS)
        said = (LOGS / f"{name}.log").read_text(errors="replace")
    failures = [line for line in said.splitlines(keepends=True) if line.startswith(FAILURES)]
    return Done(name, process.returncode, monotonic() - began, failures)


def say(text: str) -> None:
    """At once, as the doses write to the same output."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs all tests: two sessions of pytest beside each other, then those of states on the other layouts.

More than half of the time a session waits: for servers to start and to end, for what a broker notices late, for a
minute of load. So the folders whose tests do so are one session; all other folders, new ones among them, are the other.
Each has servers, temporary directories and ports of its own. With arguments it is one session, with those arguments.

When one of them has ended, a dose of what is about states runs on each other layout (`tests/layouts/__main__.py`;
`make nightly` has the full ones).

All processes of a session share compiled modules, whatever PYTHONDONTWRITEBYTECODE says: hundreds of them import the
same ones, and to compile those takes a process longer than the rest of its start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.real.process import PORTS_VARIABLE

ROOT: Final = Path(__file__).parents[1]
PYTEST: Final = (sys.executable, "-m", "pytest")
WAITING: Final = tuple(
    f"tests/{name}"
    for name in (
        *("applications", "benchmarks", "clients", "dashboards", "deploy", "differential", "docs", "faults"),
        *("linearizability", "real", "wire"),
    )
)
"""The folders of the one session."""


def main() -> int:
    """Run them all; returns the exit code of a session that failed, or 0."""
    with tempfile.TemporaryFile() as waited, tempfile.TemporaryFile() as again:
        sessions = [
            _session("20000-23999", "waiting", WAITING, waited.fileno()),
            _session("24000-27999", "others", [f"--ignore={folder}" for folder in WAITING], None),
        ]
        try:
            sessions[1].wait()
            sessions.append(_started([sys.executable, "-m", "tests.layouts"], "28000-31999", again.fileno()))
            codes = [session.wait() for session in sessions]
        except KeyboardInterrupt:  # all have heard of it as well, and end in order
            codes = [session.wait() for session in sessions]
        for said in (waited, again):  # when the others have had their say, so that lines do not mix
            said.seek(0)
            sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    return next((code for code in codes if code), 0)  # not the larger one: a killed session's is negative


def _environment() -> dict[str, str]:
    """The variables of a session but for its ports and settings."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return variables | {"PYTHONPYCACHEPREFIX": str(ROOT / ".cache" / "bytecode")}


def _session(ports: str, name: str, words: Sequence[str], output: int | None) -> subprocess.Popen[bytes]:
    return _started([*PYTEST, "-o", f"cache_dir=.cache/pytest-{name}", *words], ports, output)


def _started(command: Sequence[str], ports: str, output: int | None) -> subprocess.Popen[bytes]:
    variables = {**_environment(), PORTS_VARIABLE: ports}
    return subprocess.Popen(command, cwd=ROOT, env=variables, stdout=output, stderr=output)


if __name__ == "__main__":
    if sys.argv[1:]:
        os.execve(sys.executable, [*PYTEST, *sys.argv[1:]], _environment())  # noqa: S606 - this Python, and no shell
    sys.exit(main())

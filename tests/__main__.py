"""All tests, in two sessions of pytest beside each other: `python -m tests`.

More than half of the time a session waits: for servers to start and to end, for what a broker notices late, for a
minute of load. So the folders whose tests do so are one session; all other folders, new ones among them, are the other.
Each has servers, temporary directories and ports of its own. With arguments it is one session, with those arguments.
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
    with tempfile.TemporaryFile() as said:
        waiting = _session("20000-25999", "waiting", WAITING, said.fileno())
        others = _session("26000-31999", "others", [f"--ignore={folder}" for folder in WAITING], None)
        try:
            codes = [others.wait(), waiting.wait()]
        except KeyboardInterrupt:  # both have heard of it as well, and end in order
            codes = [others.wait(), waiting.wait()]
        said.seek(0)
        sys.stdout.buffer.write(said.read())  # when the other has had its say, so that lines do not mix
        sys.stdout.flush()
    return next((code for code in codes if code), 0)  # not the larger one: a killed session's is negative


def _session(ports: str, name: str, words: Sequence[str], output: int | None) -> subprocess.Popen[bytes]:
    command = [*PYTEST, "-o", f"cache_dir=.cache/pytest-{name}", *words]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {PORTS_VARIABLE: ports}, stdout=output, stderr=output)


if __name__ == "__main__":
    if sys.argv[1:]:
        os.execv(sys.executable, [*PYTEST, *sys.argv[1:]])  # noqa: S606 - this Python, and no shell
    sys.exit(main())

"""`python -m tests.faults.killed STEP VERB…`: the program, which ends by SIGKILL at a named step of snapshots.

With the step `none` it does not end. Its child ends at the step that the file KILLED_CHILD names, which is removed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ops.cli import app
from ops.snapshots import steps

CHILD = "KILLED_CHILD"


class Killing:
    """Stands in for the logger of steps."""

    def __init__(self, step: str) -> None:
        self._step = step

    def debug(self, _event: str, step: str) -> None:
        """End at the step."""
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingOnce:
    """Likewise, at the step that a file names.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def debug(self, _event: str, step: str) -> None:
        """End at the step."""
        if self._path.exists() and self._path.read_text() == step:
            self._path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__mp_main__" and CHILD in os.environ:
    steps.logger = KillingOnce(Path(os.environ[CHILD]))
if __name__ == "__main__":
    steps.logger = Killing(sys.argv.pop(1))
    app(sys.argv[1:])

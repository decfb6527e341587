"""`python -m tests.faults.killed STEP VERB…`: the program, which ends by SIGKILL at a named step of snapshots."""

from __future__ import annotations

import os
import signal
import sys

from ops.cli import app
from ops.snapshots import steps


class Killing:
    """Stands in for the logger of steps."""

    def __init__(self, step: str) -> None:
        self._step = step

    def debug(self, _event: str, step: str) -> None:
        """End at the step."""
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    steps.logger = Killing(sys.argv.pop(1))
    app(sys.argv[1:])

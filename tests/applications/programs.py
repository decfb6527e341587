"""Runs the applications: what `make test` has brought of them is in .cache/applications/."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.clients.programs import ProgramError, run

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".cache" / "applications" / "bin"
STOP_S = 30


def seen_by(program: str, url: str, **settings: str) -> Any:
    """What tests/applications/PROGRAM reports; `settings` are more variables of its environment.

    Raises:
        ProgramError: The applications are not there, or it ended with an error; the message carries what it said.
    """
    command = [str(installed("python")), "-m", f"tests.applications.{program}"]
    return json.loads(run(command, environment=_environment(url, settings)))


class Worker:
    """A worker of an application as a process of its own, between `with` and its end.

    It is stopped with SIGTERM, after which it must end by itself and with 0.

    Args:
        command: an installed program and its arguments.
        url: the server's.
        directory: gets its output, `worker.log`.
        settings: more variables of its environment.
    """

    def __init__(self, command: Sequence[str], url: str, directory: Path, **settings: str) -> None:
        self._command = [str(installed(command[0])), *command[1:]]
        self._environment = {**os.environ, **_environment(url, settings)}
        self._log = directory / "worker.log"

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=ROOT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            code = self._process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            kill_group(self._process)
            code = self._process.wait()
        finally:
            kill_group(self._process)
        if error is not None:
            error.add_note(self.said)
        elif code:
            raise ProgramError(f"{' '.join(self._command)} ended with {code}\n{self.said}")

    def wait_for_end(self) -> None:
        """Wait until it ends by itself; subprocess.TimeoutExpired if it does not."""
        self._process.wait(timeout=STOP_S)

    @property
    def said(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")


def _environment(url: str, settings: dict[str, str]) -> dict[str, str]:
    return {"APPLICATION_URL": url, "PYTHONPATH": str(ROOT), **settings}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever a program has started and left behind, and itself. It has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def installed(program: str) -> Path:
    """The path of an installed program of Python. Raises ProgramError: it is not there."""
    return present(INSTALLED / program)


def present(path: Path) -> Path:
    """The path. Raises ProgramError: nothing is there."""
    if not path.exists():
        raise ProgramError(f"{path} is not there: make test brings it")
    return path

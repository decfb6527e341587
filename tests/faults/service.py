"""`slotlog serve` as a process of its own: started, followed line by line, stopped or killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.real import forks

_START_SECONDS = 60.0
_STOP_SECONDS = 60.0


class ServiceProcess:
    """One running `slotlog serve`; its log lines, one JSON object each, are read as they come.

    Args:
        options: the verb's options.
        environment: SLOTLOG_* variables.
        program: the module that is run, and what it takes before the verb.
    """

    def __init__(
        self,
        options: Sequence[str],
        environment: dict[str, str] | None = None,
        program: Sequence[str] = ("ops.cli",),
    ) -> None:
        self._said, says = map(os.fdopen, os.pipe(), ("r", "w"))
        with says:
            command = [sys.executable, "-m", *program, "serve", *options]
            self._process = forks.start(command, {**os.environ, **(environment or {})}, stderr=says.fileno())
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.seen: list[dict[str, Any]] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reading.join()
        self._said.close()

    def wait_for(self, event: str, seconds: float = _START_SECONDS) -> dict[str, Any]:
        """The next log line called `event`. Fails with everything that was said when the process ends without it."""
        while True:
            line = self._lines.get(timeout=seconds)
            if line is None:
                raise AssertionError(f"slotlog serve ended before {event!r}: {self.seen}")
            self.seen.append(line)
            if line.get("event") == event:
                return line

    def wait_for_end(self, seconds: float = _START_SECONDS) -> None:
        """Read what is said until the process has closed its log, which it does when it ends."""
        while (line := self._lines.get(timeout=seconds)) is not None:
            self.seen.append(line)

    def said(self) -> list[dict[str, Any]]:
        """Every line until now, for a test that gives up: those that nobody has waited for, too."""
        return [*self.seen, *filter(None, list(self._lines.queue))]

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def terminate(self, seconds: float = _STOP_SECONDS) -> int:
        """SIGTERM; returns the exit code. subprocess.TimeoutExpired when it takes longer than `seconds`."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=seconds)

    def pause(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def exit_code(self, seconds: float = _START_SECONDS) -> int:
        """Wait for an end that nobody asked for."""
        return self._process.wait(timeout=seconds)

    def _read(self) -> None:
        for line in self._said:
            try:
                self._lines.put(json.loads(line))
            except ValueError:
                self._lines.put({"event": "text", "text": line.rstrip()})
        self._lines.put(None)

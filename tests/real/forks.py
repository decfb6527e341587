"""Starts processes: our programs by a fork of one that has imported them, all else as `subprocess` does."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from tests.real.forker import MODULES, PID

ROOT: Final = Path(__file__).parents[2]
_PYTHON_MODULE: Final = [sys.executable, "-m"]

PRELOADED: Final = "LD_PRELOAD"

_OF_PRELOADED: Final = ("FAIL_", "KEEP_", "SHIFT_")
"""Beginnings of the variables that such a library of the tests reads when it is loaded."""

_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "GLIBC", "MALLOC", "TZ", *_OF_PRELOADED)
"""Beginnings of the variables that a process reads when it is loaded.

With others of them it is started, not forked; but with a library that is loaded before all else it is forked off a
process that has loaded that, too.
"""


class Process(Protocol):
    """A process that was started: what of `subprocess.Popen` a test needs."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None as long as it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """As `poll`, when it has ended. Raises subprocess.TimeoutExpired."""
        ...

    def send_signal(self, sig: int) -> None:
        """Nothing, if it has ended."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    new_session: bool = False,
) -> Process:
    """Start a process in this directory. The files are descriptors, which stay the caller's, or DEVNULL."""
    words = list(command)
    is_ours = words[:2] == _PYTHON_MODULE and words[2] in MODULES
    if is_ours and (forker := _forker_with(environment)) is not None:
        return forker.fork(words[2:], environment, (stdin, stdout, stderr), new_session=new_session)
    return subprocess.Popen(
        words, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=new_session
    )


def is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has come to it."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


class _Forked:
    """A process that the forker has forked, and of whose end it tells."""

    def __init__(self, words: Sequence[str], told: socket.socket) -> None:
        self._words = words
        self._told = told
        self._one = threading.Lock()
        self._code: int | None = None
        self.pid = self._next()

    def poll(self) -> int | None:
        """As `Process.poll`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """As `Process.wait`."""
        if self._code is None:
            ready = select.poll()
            ready.register(self._told, select.POLLIN)
            if not ready.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(list(self._words), timeout or 0)
        with self._one:
            if self._code is None:
                self._code = self._next()
                self._told.close()
            return self._code

    def send_signal(self, sig: int) -> None:
        """As `Process.send_signal`."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended a moment ago
                os.kill(self.pid, sig)

    def kill(self) -> None:
        """As `Process.kill`."""
        self.send_signal(signal.SIGKILL)

    def _next(self) -> int:
        data = self._told.recv(PID.size)
        if not data:
            raise RuntimeError("what forks has ended")
        return int(PID.unpack(data)[0])


class _Forker:
    """The process that forks; it ends with this one.

    Args:
        environment: what it is started with.

    Attributes:
        at_start: the variables that it has read when it was loaded.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._one = threading.Lock()
        self.at_start = _at_start(environment)
        with theirs:
            command = [sys.executable, "-m", "tests.real.forker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, env=environment, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        atexit.register(self._kill)

    def fork(
        self, words: Sequence[str], environment: Mapping[str, str], files: Sequence[int], *, new_session: bool
    ) -> _Forked:
        """Ask for a process: a module and its arguments."""
        request = {
            "module": words[0],
            "words": words[1:],
            "environment": dict(environment),
            "directory": str(Path.cwd()),
            "new_session": new_session,
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            given = [nothing if each == subprocess.DEVNULL else each for each in files]
            with self._one:
                socket.send_fds(self._requests, [json.dumps(request).encode()], [*given, theirs.fileno()])
        finally:
            os.close(nothing)
            theirs.close()
        return _Forked(words, ours)

    def end(self) -> None:
        """Fork no more; it ends with the last of its programs."""
        self._requests.close()

    def _kill(self) -> None:
        self._requests.close()
        self._process.kill()
        self._process.wait()


@cache
def _forker() -> _Forker:
    return _Forker(os.environ)


_preloaded: list[_Forker] = []
"""The one of the last test that wanted a library."""


def _forker_with(environment: Mapping[str, str]) -> _Forker | None:
    """What has been loaded with the same variables, if there may be one."""
    wanted = _at_start(environment)
    if _forker().at_start == wanted:
        return _forker()
    if PRELOADED not in wanted:
        return None
    if not _preloaded or _preloaded[0].at_start != wanted:
        for each in _preloaded:
            each.end()
        _preloaded[:] = [_Forker(environment)]
    return _preloaded[0]

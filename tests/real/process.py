"""Start a server as a child process, wait until it answers, end it: shared by the broker and the oracle."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.real import forks

LOG_TAIL_BYTES = 4096
POLL_S = 0.05

# Below Linux' range of ephemeral ports (32768 and up): while a server is down between kill() and restart(),
# no outgoing connection can take its port.
_PORTS = range(20_000, 32_000)
PORTS_VARIABLE = "SLOTLOG_TEST_PORTS"
"""Names a part of them, such as 20000-25999, for each of several sessions: one must not take what another frees."""


class ServerError(RuntimeError):
    """A real server did not start or did not stop; the message carries the end of its output."""


class Server:
    """One server process with its output in a file.

    Args:
        name: What to call it in error messages.
        command: Program and arguments.
        output: File that its standard output and error are appended to.
        answers: Called until it returns true; it may raise OSError while the server is not up.
        start_timeout_s: How long the first answer may take.
        environment: More variables for it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        output: Path,
        answers: Callable[[], bool],
        start_timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._command = command
        self._output = output
        self._answers = answers
        self._start_timeout_s = start_timeout_s
        self._environment = {**os.environ, **(environment or {})}
        self._process: forks.Process | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait for its first answer.

        Raises:
            ServerError: It is running already, has ended by itself, or gave no answer in time.
        """
        if self.running:
            raise ServerError(f"{self._name} is running already")
        with self._output.open("ab") as output:
            # A session of its own, so that Ctrl-C in the terminal reaches pytest alone, which then stops it in order.
            written = output.fileno()
            self._process = process = forks.start(
                self._command, self._environment, stdout=written, stderr=written, new_session=True
            )
        deadline = time.monotonic() + self._start_timeout_s
        while not self._answered():
            if process.poll() is not None:
                raise ServerError(f"{self._name} ended with {process.poll()} at start\n{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"{self._name} gave no answer in {self._start_timeout_s} s\n{self.tail()}")
            time.sleep(POLL_S)

    def stop(self, timeout_s: float = 30) -> None:
        """End it in order (SIGTERM). Nothing to do when it is not running.

        Raises:
            ServerError: It did not end in time; it has been killed then.
        """
        if not self.running or self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(f"{self._name} did not stop in {timeout_s} s\n{self.tail()}") from None

    def kill(self) -> None:
        """End it at once (SIGKILL), as a power failure would. Nothing to do when it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: its connections stay, and nobody answers on them, as when its machine or the network hangs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            while not forks.is_stopped(self._process.pid):  # it may answer for a moment yet
                time.sleep(POLL_S / 50)

    def resume(self) -> None:
        """SIGCONT."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _answered(self) -> bool:
        with contextlib.suppress(OSError):
            return self._answers()
        return False

    def tail(self) -> str:
        """The end of what it wrote."""
        return self._output.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")


class Started:
    """What the servers of the tests have in common: each runs inside of `with`, on the same address after a kill.

    Args:
        server: the process.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def start(self) -> None:
        """Start it, and wait for its first answer."""
        self._server.start()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._server.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(self._server.tail())  # pytest shows it beside what failed
        self._server.stop()


class Ports:
    """TCP ports for the servers of this process, each its own until the process ends.

    A port is taken some seconds before a server listens on it, and a server that was killed comes back to its port: all
    that time no other process of tests may be given it. So each port is a byte of one file of the machine that is
    locked by whoever has it; the system lets go of the locks of a process that ends. Here a port is given again when
    every other one was.

    Args:
        allowed: what may be taken.
        path: the file of the locks.
    """

    def __init__(self, allowed: Sequence[int], path: Path) -> None:
        self._allowed = allowed
        self._order = itertools.cycle(random.sample(allowed, len(allowed)))
        # Open for good: a process that closes any of its descriptors of a file lets go of its locks there.
        self._locks = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def take(self, count: int) -> list[int]:
        """Different ports on the loopback address that nobody has or listens on now.

        Raises:
            ServerError: there are not so many.
        """
        with contextlib.ExitStack() as stack:
            ports: list[int] = []
            for port in itertools.islice(self._order, len(self._allowed)):
                if len(ports) == count:
                    break
                if self._is_ours(port, stack):
                    ports.append(port)
        if len(ports) < count:
            raise ServerError(f"only {len(ports)} of {len(self._allowed)} ports are free, {count} are needed")
        return ports

    def take_row(self, count: int) -> int:
        """The first of so many ports one behind the other, as `take` gives them.

        Raises:
            ServerError: there are not so many.
        """
        for first in itertools.islice(self._order, len(self._allowed)):
            row = range(first, first + count)
            with contextlib.ExitStack() as stack:
                if row[-1] in self._allowed and all(self._is_ours(port, stack) for port in row):
                    return first
        raise ServerError(f"no {count} ports in a row are free")

    def _is_ours(self, port: int, stack: contextlib.ExitStack) -> bool:
        """Whether nobody listens there, and the lock is ours; `stack` keeps it from others meanwhile."""
        listener = stack.enter_context(socket.socket())
        try:
            listener.bind(("127.0.0.1", port))
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        return True


@cache
def _ports() -> Ports:
    first, _, last = os.environ.get(PORTS_VARIABLE, "").partition("-")
    path = Path(tempfile.gettempdir(), f"slotlog-test-ports-{os.getuid()}")
    return Ports(range(int(first), int(last) + 1) if first else _PORTS, path)


def free_ports(count: int) -> list[int]:
    """Different TCP ports on the loopback address, for this process alone; see `Ports`.

    Raises:
        ServerError: there are not so many.
    """
    return _ports().take(count)


def free_row(count: int) -> int:
    """The first of so many ports one behind the other, for this process alone; see `Ports`.

    Raises:
        ServerError: there are not so many.
    """
    return _ports().take_row(count)

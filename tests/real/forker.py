"""`python -m tests.real.forker FD`: forks programs such as `python -m ops.cli …` off a process that has imported them.

The importing is most of what a start costs. What runs is the same: the module as `__main__`, with arguments,
environment, directory and files of its own. At its end its threads and what it has registered for that end in order, as
Python does it; then it is gone, without taking apart the thousands of objects that it shares with this one.
`tests.real.forks` asks for it; this ends when that has closed the socket, and no program runs any more.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
from typing import Any, Final

MODULES: Final = frozenset({"ops.cli", "tests.faults.killed"})
"""The programs: whatever they import is ours, and does not look at its environment while it is imported."""

REQUEST_BYTES_MAX: Final = 1 << 20
FILES: Final = 4
"""That come with a request: standard input, output and error, and the socket that its pid and exit status go to."""

PID: Final = struct.Struct("=i")

_IMPORTED: Final = ("ops.cli", "ops.logging", "ops.serving.service", "slotlog.log.kafka.kafka_log", "uvloop")


def main(descriptor: int) -> None:
    """Fork for each request, until the socket is closed; in a child, run the program."""
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    request = _Forker(socket.socket(fileno=descriptor)).next_child()
    if request is not None:
        _become(request)
        code: object = None
        try:
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code
        _end(code)


class _Forker:
    """Forks, and tells of each child how it has ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._told: dict[int, socket.socket] = {}
        self._ended, self._ends = socket.socketpair()
        for each in (self._ended, self._ends):
            each.setblocking(False)

    def next_child(self) -> dict[str, Any] | None:
        """In a child, its request; here, after the last request and the last end, None."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which ends this one
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._ends.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_READ)
            selector.register(self._ended, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._ended:
                        self._ended.recv(4096)
                        self._reap()
                        continue
                    text, files, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, FILES)
                    if not text:
                        selector.unregister(self._requests)
                        continue
                    request: dict[str, Any] = json.loads(text)
                    if self._fork(files):
                        return request
                if self._requests not in selector.get_map() and not self._told:
                    return None

    def _fork(self, files: list[int]) -> bool:
        """Whether this is the child."""
        told = socket.socket(fileno=files.pop())
        pid = os.fork()
        if pid:
            self._told[pid] = told
            told.send(PID.pack(pid))
            for each in files:
                os.close(each)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for held in (told, self._requests, self._ended, self._ends, *self._told.values()):
            held.close()
        for number, each in enumerate(files):
            os.dup2(each, number)
            os.close(each)
        return True

    def _reap(self) -> None:
        while self._told:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._told.pop(pid) as told, contextlib.suppress(BrokenPipeError):  # nobody wants to know
                told.send(PID.pack(os.waitstatus_to_exitcode(status)))


def _become(request: dict[str, Any]) -> None:
    """Take over what the request says."""
    if request["new_session"]:
        os.setsid()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["module"], *request["words"]]


def _end(code: object) -> None:
    """As Python ends a program, up to where it begins to take the objects apart."""
    if code is not None and not isinstance(code, int):
        sys.exit(str(code))
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for each in (sys.stdout, sys.stderr):
        each.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))

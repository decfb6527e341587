"""The tool that runs programs through an outage: what it leaves behind."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import pytest

from tests.applications.outages import Outages
from tests.applications.programs import Worker
from tests.clients.programs import ProgramError
from tests.ops.verbs import wait_until
from tests.wire.servers import valkey

PARENT = """
import subprocess, sys
holds = '''
import fcntl, signal, sys
fcntl.flock(file := open(sys.argv[1], "w"), fcntl.LOCK_EX)
print(flush=True)
signal.pause()
'''
child = subprocess.Popen([sys.executable, "-c", holds, sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
"""
"""A program whose child holds a lock until somebody ends it."""

ENDS = {"badly": "import os; os._exit(1)", "without a word": "import os; print('{}', flush=True); os._exit(0)"}


@pytest.mark.parametrize("end", sorted(ENDS))
def test_no_child_outlives_a_program(tmp_path: Path, end: str) -> None:
    """What a program has started ends with it, however that ends: else this waits for a lock."""
    lock = tmp_path / "lock"
    environment = {"WORK": str(tmp_path / "work"), "OUTAGES": str(tmp_path / "outages")}
    command = [sys.executable, "-c", PARENT + ENDS[end], str(lock)]
    outages = Outages("none", valkey(tmp_path), kills=False)
    if end == "badly":
        with pytest.raises(ProgramError, match="ended with 1"):
            outages.run(command, environment, kill_at=[])
    else:
        assert {} == outages.run(command, environment, kill_at=[]).report

    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def test_no_child_outlives_a_worker(tmp_path: Path) -> None:
    """The same of a worker that is asked to stop."""
    lock = tmp_path / "lock"
    command = [
        sys.executable,
        "-c",
        PARENT + "import signal; signal.signal(15, lambda *_: sys.exit()); print('up', flush=True); signal.pause()",
        str(lock),
    ]
    worker = Worker(command, "redis://", tmp_path)
    with worker:
        wait_until(lambda: "up" in worker.said, "the worker")

    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)

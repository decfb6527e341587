"""Free ports for tests are given to one process each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.process import Ports, ServerError, free_ports

HOLDER = """
import sys
from pathlib import Path
from tests.real.process import Ports
path, *allowed = sys.argv[1:]
print(*Ports(list(map(int, allowed)), Path(path)).take(1), flush=True)
sys.stdin.read()
"""


def test_a_port_is_of_one_process(tmp_path: Path) -> None:
    """What another process was given and does not use yet is nobody else's; it is free once that one has ended."""
    allowed = free_ports(4)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "ports", *map(str, allowed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        held = int(holder.stdout.readline())
        ports = Ports(allowed, tmp_path / "ports")
        with pytest.raises(ServerError, match="only 3 of 4 ports are free, 4 are needed"):
            ports.take(4)
        given = ports.take(3)
        holder.communicate()

    assert {held, *given} == set(allowed)
    assert [held] == Ports([held], tmp_path / "ports").take(1)


def test_a_port_is_given_again_last(tmp_path: Path) -> None:
    """Whose server was killed finds its port again: every other one is given before."""
    allowed = free_ports(3)
    ports = Ports(allowed, tmp_path / "ports")
    given = [ports.take(1)[0] for _ in range(4)]

    assert (set(allowed), given[0]) == (set(given[:3]), given[3])

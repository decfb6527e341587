"""Starts a service as a user does, and reads the resident memory and CPU time of a process."""

from __future__ import annotations

import os
from pathlib import Path


def started_by_itself(directory: Path) -> dict[str, str]:
    """Variables for a service that is started, and not forked off a process that has imported more than it needs.

    What is imported is compiled once, into a directory beside, where a second start finds it: pip does the like.

    Args:
        directory: gets the directory of what is compiled.
    """
    return {"PYTHONPYCACHEPREFIX": str(directory / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}


def rss_bytes(pid: int) -> int:
    """What the process has resident."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


def cpu_seconds(pid: int) -> float:
    """The CPU time of the process, in user and system mode, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)

"""The process's memory, as Linux reports it (proc(5))."""

from __future__ import annotations

import os
import resource
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_STATM: Final = Path("/proc/self/statm")


class MemoryUse(NamedTuple):
    """Bytes of the process: now, at most so far, and when it was first asked for; and of the machine."""

    rss_bytes: int
    peak_bytes: int
    startup_bytes: int
    system_bytes: int


def memory_use() -> MemoryUse:
    """The process' memory now."""
    rss_bytes = _rss_bytes()
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return MemoryUse(rss_bytes, max(peak_bytes, rss_bytes), min(_first_rss_bytes(), rss_bytes), _system_bytes())


def _rss_bytes() -> int:
    """The second number of `statm` is resident pages."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@cache
def _first_rss_bytes() -> int:
    return _rss_bytes()


@cache
def _system_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

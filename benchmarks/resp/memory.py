"""Measures the resident memory of a service: with a million small keys, idle, and after a soak.

    memory_idle   `rss_mb` of a service that is started again with the keys, and `valkey_rss_mb` of valkey-server with
                  the same; `filled_mb` when all were written, in MSETs, by a start that compiled what it imported
    memory_soak   `rss_mb` after keys that live for two seconds were written all the time (benchmarks/cleaning/soak),
                  the `highest_mb` meanwhile, and `behind_keys`, due and not yet deleted: on a busy machine more are

A MB is a million bytes. `aim_mb` is what it was before there was more to import and to keep. The service has no page.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Final

from benchmarks.cleaning.soak import measured_soak
from benchmarks.processes import rss_bytes, started_by_itself
from benchmarks.resp.two_servers import Figures
from tests.wire.servers import RespServer, slotlog, valkey

_AT_ONCE: Final = 100
_MB: Final = 1_000_000
_CACHE: Final = {"SLOTLOG_CACHE_BYTES": str(16 << 20)}
"""Of RocksDB, in the soak: the default of 256 MiB fills for an hour."""


@dataclass(frozen=True, slots=True)
class MemorySize:
    """How much is measured.

    Attributes:
        keys: that the idle service has.
        settle_seconds: how long it is left alone before it is measured.
        soak_seconds, rate, ttl_ms: of the soak.
        by_itself: start the service as a user does; else it may be forked, which is quicker and tells nothing.
    """

    keys: int
    settle_seconds: float
    soak_seconds: float
    rate: int
    ttl_ms: int
    by_itself: bool


MEMORY_LARGE: Final = MemorySize(1_000_000, 3.0, 70.0, 20_000, 2000, by_itself=True)
MEMORY_SMOKE: Final = MemorySize(1_000, 0.0, 1.0, 500, 200, by_itself=False)
AIMS_MB: Final = {"memory_idle": 82, "memory_soak": 163}


async def run_memory(size: MemorySize) -> AsyncIterator[Figures]:
    """Measure both."""
    with TemporaryDirectory(prefix="slotlog-bench-") as scratch:
        environment = started_by_itself(Path(scratch)) if size.by_itself else {}
        yield _idle(size, environment)
        yield await _soaked(size, environment)


def _idle(size: MemorySize, environment: Mapping[str, str]) -> Figures:
    figures: dict[str, float] = {}
    with TemporaryDirectory(prefix="slotlog-bench-") as ours, TemporaryDirectory(prefix="slotlog-bench-") as theirs:
        for prefix, server in (
            ("", slotlog(Path(ours), environment=environment)),
            ("valkey_", valkey(Path(theirs))),
        ):
            with server:
                with closing(server.connect()) as connection:
                    for begin in range(0, size.keys, _AT_ONCE):
                        numbers = range(begin, min(begin + _AT_ONCE, size.keys))
                        words = [word for number in numbers for word in (b"key:%d" % number, b"value-%d" % number)]
                        connection.call("MSET", *words)
                figures[f"{prefix}filled_mb"] = _settled_mb(server, size)
            with server:
                figures[f"{prefix}rss_mb"] = _settled_mb(server, size)
    return _line("memory_idle", {"keys": size.keys, **figures})


async def _soaked(size: MemorySize, environment: Mapping[str, str]) -> Figures:
    with TemporaryDirectory(prefix="slotlog-soak-") as directory:
        lines = await measured_soak(
            size.soak_seconds, size.rate, size.ttl_ms, Path(directory), {**environment, **_CACHE}
        )
    figures = {
        "written": lines[-1]["written"],
        "rss_mb": _in_mb(lines[-1]["rss_bytes"]),
        "highest_mb": _in_mb(max(line["rss_bytes"] for line in lines)),
        "behind_keys": max(line["behind_keys"] for line in lines),
        "cpu_seconds": lines[-1]["cpu_seconds"],
    }
    return _line("memory_soak", figures)


def _line(name: str, figures: dict[str, float]) -> Figures:
    return Figures(name, {**figures, "aim_mb": AIMS_MB[name], "load": round(os.getloadavg()[0], 1)})


def _settled_mb(server: RespServer, size: MemorySize) -> float:
    sleep(size.settle_seconds)
    with closing(server.connect()) as connection:
        found = re.search(rb"process_id:(\d+)", connection.call("INFO", "server"))
    assert found is not None
    return _in_mb(rss_bytes(int(found[1])))


def _in_mb(size: int) -> float:
    return round(size / _MB, 1)

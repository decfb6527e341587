"""Measures what a snapshot of a running service costs: one key in a hundred has changed since the last one.

`pause_ms` is how long the service says that it stood still, `longest_ms` the longest SET of a client that sends one
after the other meanwhile, and `usual_longest_ms` the same for as long without a snapshot. `new_bytes` were uploaded, of
`bytes`. Medians; `rounds_new_bytes` has all rounds: now and then RocksDB has written all of it anew. What is restored
from the last snapshot must have the digest of the service's state.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from time import perf_counter, sleep
from typing import Any, Final

from benchmarks.applying.compare import WrongStateError
from benchmarks.measure import Line
from benchmarks.snapshots.filling import append_sets
from tests.faults.service import ServiceProcess
from tests.ops.verbs import metric, succeed
from tests.real.oracle import Connection, SimpleString
from tests.real.process import free_row

_CHANGED: Final = 0.01
_PATIENCE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class SnapshotSize:
    """How much is measured: keys of 100 bytes, and rounds of changes."""

    keys: int
    rounds: int


SNAPSHOT_LARGE: Final = SnapshotSize(keys=300_000, rounds=5)
SNAPSHOT_SMOKE: Final = SnapshotSize(keys=2_000, rounds=1)


async def run_snapshot(size: SnapshotSize) -> AsyncIterator[Line]:
    """The one line.

    Raises:
        WrongStateError: what is restored is another state.
    """
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        scratch = Path(directory)
        yield await asyncio.to_thread(_measure, size, scratch / "data", scratch / "store", scratch / "restored")


def _measure(size: SnapshotSize, data: Path, store: Path, restored: Path) -> Line:
    data.mkdir()
    end = asyncio.run(append_sets(data / "log.sqlite3", range(size.keys), seed=0))
    random, rounds = Random(0), list[dict[str, Any]]()
    port = free_row(1)
    options = ["--data", str(data), "--http", "127.0.0.1:0", "--resp", f"127.0.0.1:{port}"]
    with ServiceProcess(options, {"SLOTLOG_LOG_LEVEL": "info"}) as service:
        service.wait_for("http")
        _wait(service, end)
        first = _snapshot(data, store)
        with closing(Connection(("127.0.0.1", port))) as client:
            for number in range(1, size.rounds + 1):
                changed = random.sample(range(size.keys), round(size.keys * _CHANGED))
                end = int(sum(metric(service, "slotlog_next_offset").values()))
                _wait(service, end + asyncio.run(append_sets(data / "log.sqlite3", changed, seed=number)))
                began = perf_counter()
                longest, taken = _beside(client, lambda: _snapshot(data, store))
                seconds = perf_counter() - began
                usual, _ = _beside(client, lambda: sleep(seconds))  # noqa: B023 - it is called at once
                rounds.append({**taken, "seconds": seconds, "longest_ms": longest, "usual_ms": usual})
        _snapshot(data, store)
        service.terminate()
    succeed("restore", "--from", store, "--to", restored)
    digests = {
        str(path): json.loads(succeed("digest", "--data", path, "--json"))["digest"] for path in (data, restored)
    }
    if len({*digests.values()}) > 1:
        raise WrongStateError(f"what was restored is another state: {digests}")
    return Line("snapshot", _figures(size, first, rounds))


def _figures(size: SnapshotSize, first: dict[str, Any], rounds: list[dict[str, Any]]) -> dict[str, Any]:
    def middle(name: str) -> float:
        return float(median(each[name] for each in rounds))

    return {
        "keys": size.keys,
        "changed": _CHANGED,
        "bytes": round(middle("bytes")),
        "new_bytes": round(middle("new_bytes")),
        "new_part": round(median(each["new_bytes"] / each["bytes"] for each in rounds), 4),
        "rounds_new_bytes": [each["new_bytes"] for each in rounds],
        "first_new_bytes": first["new_bytes"],
        "pause_ms": round(middle("pause_seconds") * 1000, 2),
        "pause_ms_max": round(max(each["pause_seconds"] for each in rounds) * 1000, 2),
        "longest_ms": round(middle("longest_ms"), 1),
        "usual_longest_ms": round(middle("usual_ms"), 1),
        "seconds": round(middle("seconds"), 2),
    }


def _snapshot(data: Path, store: Path) -> dict[str, Any]:
    (taken,) = json.loads(succeed("snapshot", "--data", data, "--to", store, "--json"))["snapshots"]
    return dict(taken)


def _beside(client: Connection, work: Callable[[], Any]) -> tuple[float, Any]:
    """The longest SET while `work` is done, in ms, and what that gives."""
    done, longest = Event(), 0.0
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work)
        working.add_done_callback(lambda _: done.set())
        while not done.is_set() or not longest:
            sent = perf_counter()
            if client.call("SET", "beside", "1") != SimpleString(b"OK"):
                raise RuntimeError("a SET was refused")
            longest = max(longest, perf_counter() - sent)
        return longest * 1000, working.result()


def _wait(service: ServiceProcess, end: int) -> None:
    """Until the service has applied everything before an offset."""
    until = perf_counter() + _PATIENCE_SECONDS
    while sum(metric(service, "slotlog_next_offset").values()) < end:
        if perf_counter() > until:
            raise RuntimeError(f"the service did not come to offset {end}")
        sleep(0.05)

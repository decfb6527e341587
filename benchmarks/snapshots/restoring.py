"""Measures a state that comes back from a snapshot, beside a replay of its log from zero: `restore_KEYS_keys`.

`restore_s` is `slotlog restore` (its checksums are compared: they are those that had the digest when the snapshot was
verified), the median of its runs; `replay_s` is `slotlog replay`, with its digest. `ratio` is the latter by the former.
`growth` is the time of a key by that with the fewest keys. Both must have one digest. `snapshot_s` took the snapshot,
with the verification.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from benchmarks.applying.compare import WrongStateError
from benchmarks.measure import Line, settle_heap
from benchmarks.snapshots.filling import append_sets
from tests.ops.verbs import succeed


@dataclass(frozen=True, slots=True)
class RestoreSize:
    """How much is measured: states of so many keys of 100 bytes, ascending, and runs of `restore`."""

    keys: tuple[int, ...]
    runs: int


RESTORE_LARGE: Final = RestoreSize(keys=(1_000_000,), runs=5)
RESTORE_SMOKE: Final = RestoreSize(keys=(500, 2_000), runs=1)
LARGE_KEYS: Final = 10_000_000


async def run_restore(size: RestoreSize) -> AsyncIterator[Line]:
    """A line for each number of keys.

    Raises:
        WrongStateError: what is restored is another state than the replay's.
    """
    per_key = 0.0
    for keys in size.keys:
        with TemporaryDirectory(prefix="slotlog-bench-") as directory:
            figures = await asyncio.to_thread(_measure, keys, size.runs, Path(directory))
        per_key = per_key or figures["restore_s"] / keys
        yield Line(f"restore_{keys}_keys", {**figures, "growth": round(figures["restore_s"] / keys / per_key, 2)})


def _measure(keys: int, runs: int, scratch: Path) -> dict[str, Any]:
    data, built, store, restored = (scratch / name for name in ("data", "built", "store", "restored"))
    data.mkdir()
    asyncio.run(append_sets(data / "log.sqlite3", range(keys), seed=0))
    replay_s, said = _timed("replay", "--data", data, "--to", built, "--json")
    snapshot_s, taken = _timed("snapshot", "--data", built, "--to", store, "--json")
    seconds = []
    for _ in range(runs):
        shutil.rmtree(restored, ignore_errors=True)
        seconds.append(_timed("restore", "--from", store, "--to", restored, "--json")[0])
    _, found = _timed("digest", "--data", restored, "--json")
    if found["digest"] != said["digest"] or said["keys"] != keys:
        raise WrongStateError(f"{keys} keys were replayed as {said['digest']}, restored as {found['digest']}")
    restore_s = median(seconds)
    return {
        "keys": keys,
        "bytes": taken["snapshots"][0]["bytes"],
        "restore_s": round(restore_s, 3),
        "replay_s": round(replay_s, 3),
        "ratio": round(replay_s / restore_s, 1),
        "snapshot_s": round(snapshot_s, 3),
        "runs_s": [round(each, 3) for each in seconds],
    }


def _timed(*words: object) -> tuple[float, Any]:
    """How long a verb took, and what it says."""
    settle_heap()
    began = perf_counter()
    said = succeed(*words)
    return perf_counter() - began, json.loads(said)

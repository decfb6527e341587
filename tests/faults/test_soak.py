"""Clients that come, do a bit of everything, and go in every way: nothing that they have used up stays."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from ingest.applying.watch import COMMIT_SECONDS
from tests.faults.grouped import connect
from tests.faults.workers import new_topic
from tests.ops.serving.test_health import Served, served

_ROUNDS: Final = int(os.environ.get("SOAK_ROUNDS", "8"))
"""The variable asks for more of them for a night."""

_CLIENTS: Final = 24
_AT_ONCE: Final = 8
_PATIENCE_SECONDS: Final = 60.0
_WARM_SECONDS: Final = COMMIT_SECONDS + 3.0  # with the first offsets that it commits a service connects once more
_GROWTH_MAX: Final = 1.2
_MEMTABLE_BYTES: Final = 8 << 20
_FLOORS: Final = {"state_bytes": 4 * _MEMTABLE_BYTES}
"""What may be used up at any time: RocksDB writes a file when a memtable is full."""


def _use(port: int, number: int) -> None:
    """What one client does: the same keys in each round, all of which it deletes, or which die."""
    key = f"soak:{number}"
    with closing(connect(port)) as client:
        for _ in range(10):
            client.set(f"{key}:short", "v" * 1000, px=100)
            client.rpush(f"{key}:list", *range(10))
            client.lpop(f"{key}:list", 10)
            client.hset(f"{key}:hash", mapping={"a": 1, "b": 2})
        with client.pipeline(transaction=True) as pipeline:
            pipeline.incr(f"{key}:count")
            pipeline.delete(f"{key}:hash", f"{key}:count")
            pipeline.execute()
        client.eval("return redis.call('SET', KEYS[1], ARGV[1], 'PX', 100)", 1, f"{key}:script", "v")
        client.blpop([f"{key}:none"], 0.01)
    _go_away(port, number)


def _go_away(port: int, number: int) -> None:
    """Leave in the middle of something."""
    said = [
        b"SUBSCRIBE soak\r\n",
        b"BLPOP soak:none 0\r\n",
        b"MULTI\r\nSET soak:k v\r\n",
        b"WATCH soak:k\r\n",
        b"*2\r\n$3\r\nGET\r\n$100\r\nhalf",
        b"CLIENT TRACKING ON BCAST\r\n",
    ]
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(said[number % len(said)])
        client.settimeout(0.05)
        with suppress(TimeoutError):
            client.recv(100)


def _held() -> dict[str, int]:
    """What is to be as before when all clients have gone."""
    paths = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            paths.append(file.readlink().name)
    return {
        "tasks": len(asyncio.all_tasks()),
        "sockets": sum(path.startswith("socket:") for path in paths),
        "threads": threading.active_count(),
    }


def _levels(data: Path) -> dict[str, int]:
    """What may not grow on: bytes of the process and of the state, and Python's objects."""
    status = Path("/proc/self/status").read_text()
    files = 0
    for file in (data / "0").iterdir():
        with suppress(FileNotFoundError):  # RocksDB has removed it meanwhile
            files += file.stat().st_size
    gc.collect()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return {"rss_kib": rss, "state_bytes": files, "objects": len(gc.get_objects())}


async def _are_gone(first: dict[str, int]) -> None:
    """Wait until nothing more is held than after the first round."""
    until = monotonic() + _PATIENCE_SECONDS
    while more := {name: count for name, count in _held().items() if count > first[name]}:
        assert monotonic() < until, (more, first)
        await asyncio.sleep(0.05)


async def _round(it: Served, pool: ThreadPoolExecutor) -> None:
    assert it.service.resp is not None
    loop, port = asyncio.get_running_loop(), it.service.resp.port
    await asyncio.gather(*(loop.run_in_executor(pool, _use, port, number) for number in range(_CLIENTS)))


@pytest.mark.timeout(7200)
async def test_nothing_stays_of_clients(log_url: str, tmp_path: Path) -> None:
    """Tasks, sockets and threads are those of the first round; memory and disk level off."""
    gone: list[dict[str, int]] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        async with served(tmp_path, log=log_url, topic=new_topic(), memtable_bytes=_MEMTABLE_BYTES) as it:
            await it.until("/readyz", 200)
            await _round(it, pool)
            await asyncio.sleep(_WARM_SECONDS)
            first = _held()
            for _ in range(_ROUNDS):
                await _round(it, pool)
                await _are_gone(first)
                gone.append(_levels(tmp_path / "data"))

    early, late = gone[: _ROUNDS // 2], gone[_ROUNDS // 2 :]
    highest = {name: (max(each[name] for each in early), max(each[name] for each in late)) for name in gone[0]}
    assert {} == {
        name: values
        for name, values in highest.items()
        if values[1] > max(values[0] * _GROWTH_MAX, _FLOORS.get(name, 0))
    }

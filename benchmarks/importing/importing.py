"""Measures `slotlog import` from a running server beside its floor, SCAN and DUMP alone.

Both read the same valkey-server over a Unix socket with the same client library, some hundred keys at a time, in turn,
and the import appends to an embedded log. `per_second` is the first pass, which brings every key; `again_per_second` a
second pass, which finds no difference, as the last one of an import. Six keys of ten are strings of 100 bytes, the
others hashes, lists, sets and sorted sets of ten elements.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.measure import Result, Seconds, Stopwatch
from ops.config import Settings, load_settings
from ops.importing.progress_file import ProgressFile
from ops.importing.redis.server import Server
from ops.importing.redis.source import open_source
from ops.importing.report import Imported
from ops.importing.run import run
from ops.importing.source import Options
from tests.real.oracle import Oracle

_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class ImportSize:
    """How much is measured: keys of the server, and pairs of runs."""

    keys: int
    pairs: int


IMPORT_LARGE: Final = ImportSize(keys=1_000_000, pairs=1)
IMPORT_SMOKE: Final = ImportSize(keys=2_000, pairs=1)


async def run_importing(size: ImportSize) -> AsyncIterator[Result]:
    """The one line."""
    pairs: list[tuple[Seconds, Seconds]] = []
    again: list[Seconds] = []
    with TemporaryDirectory(prefix="slotlog-import-") as directory, Oracle(Path(directory)) as server:
        await asyncio.to_thread(fill, server, size.keys)
        url = f"unix://{server.path}"
        for number in range(size.pairs):
            settings = load_settings(data=Path(directory) / str(number))
            floor = await asyncio.to_thread(_floor, url, size.keys)
            ours = await _one_pass(settings, url, size.keys)
            again.append(await _one_pass(settings, url, 0))
            pairs.append((ours, floor))
    rates = sorted(size.keys / seconds.wall for seconds in again)
    yield Result("import_redis", size.keys, pairs, {"again_per_second": round(rates[len(rates) // 2])})


def fill(server: Oracle, keys: int) -> None:
    """So many keys: six of ten are strings."""
    connection = server.connect()
    makers: tuple[Callable[[int], tuple[str | int, ...]], ...] = (
        *[lambda n: ("SET", f"key:{n}", f"{n:0100}")] * 6,
        lambda n: ("HSET", f"key:{n}", *(word for m in range(10) for word in (f"field:{m}", n + m))),
        lambda n: ("RPUSH", f"key:{n}", *(f"element:{n + m}" for m in range(10))),
        lambda n: ("SADD", f"key:{n}", *(f"member:{n + m}" for m in range(10))),
        lambda n: ("ZADD", f"key:{n}", *(word for m in range(10) for word in (n + m, f"member:{m}"))),
    )
    for start in range(0, keys, _BATCH):
        connection.pipeline(makers[n % 10](n) for n in range(start, min(start + _BATCH, keys)))
    connection.close()


def _floor(url: str, keys: int) -> Seconds:
    """SCAN and DUMP of every key, and nothing else."""
    with closing(Server(url)) as server:
        watch = Stopwatch()
        cursor, found = -1, 0
        while cursor:
            cursor, names = server.scan(0, max(cursor, 0))
            if names:
                found += len(server.ask(0, [("DUMP", name) for name in names]))
        seconds = watch.read()
    _expect(found >= keys, f"the floor read {found} keys of {keys}")
    return seconds


async def _one_pass(settings: Settings, url: str, changed: int) -> Seconds:
    """One pass of an import that has to bring `changed` keys."""
    progress = settings.data / "import"
    imported = Imported()
    watch = Stopwatch()
    with (
        closing(open_source(url, Options(progress, frozenset(), 1, once=True, layout=""))) as source,
        ProgressFile(progress, source.identity, settings.log_url, settings.topic) as kept,
    ):
        await run(settings, source, kept, lambda _: None, imported)
    seconds = watch.read()
    _expect(imported.events == changed, f"{imported.events} events instead of {changed}: {imported.failure}")
    return seconds


def _expect(right: bool, fault: str) -> None:
    """A run without the asked work has no rate."""
    if not right:
        raise RuntimeError(fault)

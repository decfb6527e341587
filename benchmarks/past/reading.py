"""Measures reads in the past and histories, by the number of events in the log.

past_100000, past_1000000, …    a log of so many events, with a snapshot of each 100,000

`index_ms` is what it takes to make the index of offsets, `index_bytes` its size. The rest finds it there, in a process
that has just begun: `first_ms` is a read of a key with 100 events as of the log's end, `following_ms` the same read
again, `other_ms` one of another key then, `history_ms` the history of such a key. `snapshot_first_ms` is a read that
needs the whole state, 50,000 events behind a snapshot; `whole_first_ms` without snapshots, of logs up to a million
events; `snapshot_following_ms` such a read of the same moment. `…_growth` is by the shortest log. Medians of the
rounds, but that of the index, and that without snapshots. Each read is compared with what the events say.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from benchmarks.applying.compare import WrongStateError
from benchmarks.measure import Line
from benchmarks.past.filling import ASKED, FIELDS, TOUCHES, filled
from ops.config import Settings
from ops.past.history import History, Touch
from ops.past.kept import KeptStates
from ops.past.narrow import walked_for
from ops.past.offsets.offset_index import indexed
from ops.state.rebuilding.replay_plan import Until, opened

_WHOLE_EVENTS_MAX: Final = 1_000_000
_GROWING: Final = ("first_ms", "following_ms", "other_ms", "history_ms", "snapshot_first_ms", "snapshot_following_ms")


@dataclass(frozen=True, slots=True)
class PastSize:
    """How much is measured.

    Attributes:
        events: of each log, the shortest first.
        snapshot_every: so many events.
        rounds: of each read.
        directory: has the logs, or gets them; None: they are made, and removed.
    """

    events: tuple[int, ...]
    snapshot_every: int
    rounds: int
    directory: Path | None = None


PAST_LARGE: Final = PastSize(events=(100_000, 1_000_000), snapshot_every=100_000, rounds=7)
PAST_SMOKE: Final = PastSize(events=(400, 1200), snapshot_every=200, rounds=1)


def up_to(events: int) -> tuple[int, ...]:
    """The lengths of logs up to that of the longest, each ten times the one before."""
    lengths = [PAST_LARGE.events[0]]
    while lengths[-1] * 10 <= events:
        lengths.append(lengths[-1] * 10)
    return tuple(lengths)


async def run_past(size: PastSize) -> AsyncIterator[Line]:
    """A line for each log.

    Raises:
        WrongStateError: a read gives something else than the events say.
    """
    with TemporaryDirectory(prefix="slotlog-bench-") as scratch:
        shortest: dict[str, Any] = {}
        for events in size.events:
            settings = await filled(size.directory or Path(scratch), events, size.snapshot_every)
            figures = await _measure(size, settings, events)
            shortest = shortest or figures
            growth = {f"{name}_growth": round(figures[name] / shortest[name], 2) for name in _GROWING}
            yield Line(f"past_{events}", {"events": events, **figures, **growth})


async def _measure(size: PastSize, settings: Settings, events: int) -> dict[str, Any]:
    alone = settings.model_copy(update={"snapshots": settings.snapshots.model_copy(update={"url": ""})})
    figures = await _index(alone, events)
    rounds = [await _of_keys(alone, events) for _ in range(size.rounds)]
    shutil.rmtree(settings.data / "offsets", ignore_errors=True)
    if events <= _WHOLE_EVENTS_MAX:
        figures["whole_first_ms"] = round((await _whole(alone, events))[0])
    pairs = [await _whole(settings, events) for _ in range(size.rounds)]
    for name in rounds[0]:
        figures[name] = round(median(each[name] for each in rounds), 2)
    for at, name in enumerate(("snapshot_first_ms", "snapshot_following_ms")):
        figures[name] = round(median(pair[at] for pair in pairs), 2)
    return figures


async def _index(settings: Settings, events: int) -> dict[str, Any]:
    shutil.rmtree(settings.data / "offsets", ignore_errors=True)
    log = opened(settings)
    await log.start()
    try:
        began = perf_counter()
        async with indexed(settings, log, 0, events, events):
            took = (perf_counter() - began) * 1000
    finally:
        await log.close()
    size = sum(path.stat().st_size for path in (settings.data / "offsets").glob("*"))
    return {"index_ms": round(took), "index_bytes": size}


async def _of_keys(settings: Settings, events: int) -> dict[str, float]:
    """Reads of single keys, and a history, by a process that knows nothing yet."""
    end = Until(offset=events)
    async with _states(settings) as states:

        async def read(key: bytes) -> None:
            found = await states.read(0, end, b"HLEN", [key], 0)
            if not isinstance(found, int) or not 0 < found <= FIELDS:
                raise WrongStateError(f"{key!r} has {found!r} fields")

        took = {
            "first_ms": await _timed(lambda: read(ASKED[0])),
            "following_ms": await _timed(lambda: read(ASKED[0])),
            "other_ms": await _timed(lambda: read(ASKED[1])),
        }
    told: list[Touch] = []

    async def history() -> None:
        step = History(0, ASKED[0], told.append, values=True).step
        async with walked_for(settings, 0, Until(), step, [ASKED[0]], from_snapshot=False):
            pass

    took["history_ms"] = await _timed(history)
    if len(told) != TOUCHES:
        raise WrongStateError(f"the history has {len(told)} events, not {TOUCHES}")
    return took


async def _whole(settings: Settings, offset: int) -> tuple[float, float]:
    """A read that needs the whole state of a moment, and the same again."""
    counts = []
    async with _states(settings) as states:

        async def read() -> None:
            counts.append(await states.read(0, Until(offset=offset), b"DBSIZE", [], 0))

        took = (await _timed(read), await _timed(read))
    if counts[0] != counts[1] or not counts[0]:
        raise WrongStateError(f"the state of offset {offset} has {counts} keys")
    return took


@asynccontextmanager
async def _states(settings: Settings) -> AsyncIterator[KeptStates]:
    states = KeptStates(settings)
    try:
        yield states
    finally:
        await states.close()


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds."""
    began = perf_counter()
    await work()
    return (perf_counter() - began) * 1000

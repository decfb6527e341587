"""Ctrl-C while a log is read ends a verb where the event loop has a turn, before the log's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.apply.machine import Machine, Record
from ops.changes.watching import Watching
from ops.config import Settings, load_settings
from ops.past.narrow import narrowed
from ops.past.tail import Tail, follow
from ops.past.walk import Pieces, apply_all, walked
from ops.state.log_records import records_between
from ops.state.rebuilding.replay_plan import Until
from slotlog.log import LogRecord, open_log
from tests.ops.past.logs import write_log

EVENTS = 3000

Heard = Callable[[], None]
"""To be called at each event, or at each page of them: the first call stands for Ctrl-C."""


async def told(settings: Settings, heard: Heard) -> None:
    """`slotlog tail --from 0`."""

    def tell(*_: object) -> bool:
        heard()
        return True

    await follow(settings, 0, Until(offset=0), Tail(None, tell))


async def changed(settings: Settings, heard: Heard) -> None:
    """`slotlog changes --from 0`."""
    await follow(settings, 0, Until(offset=0), Watching(0, 100, lambda _: heard()))


async def of_all_keys(settings: Settings, heard: Heard) -> None:
    """`slotlog at END KEYS *`, `restore-key`, `whatif` and `verify`."""
    async with walked(settings, 0, Until(), step(heard), from_snapshot=False):
        pass


async def of_some_keys(settings: Settings, heard: Heard) -> None:
    """`slotlog at END GET key` and `history`."""
    await narrowed(settings, 0, Until(), step(heard), [b"key"])


async def pages(settings: Settings, heard: Heard) -> None:
    """`slotlog chain` and `--without FILTER`."""
    log = open_log(settings.log_url, topic=settings.topic, partitions=1)
    await log.start()
    try:
        async for records in records_between(log, 0, 0, EVENTS):
            for _ in records:
                heard()
    finally:
        await log.close()


def step(heard: Heard) -> Callable[[Machine, Sequence[Record], Sequence[LogRecord]], None]:
    """Applies records."""

    def apply(machine: Machine, records: Sequence[Record], _raw: Sequence[LogRecord]) -> None:
        for _ in records:
            heard()
        apply_all(machine, records)

    return apply


@pytest.mark.parametrize("reads", [told, changed, of_all_keys, of_some_keys, pages])
def test_the_first_one_ends_it(tmp_path: Path, reads: Callable[[Settings, Heard], Coroutine[Any, Any, None]]) -> None:
    """Of 3,000 events at most a page is read behind it."""
    settings = load_settings(data=write_log(tmp_path / "data", [(0, "SET", ["key", "v"])] * EVENTS))
    events = 0

    def heard() -> None:
        nonlocal events
        events += 1
        if events == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(reads(settings, heard))
    assert 1 <= events <= 1000


@pytest.mark.parametrize(
    ("seconds", "sizes"), [(0.0, [50, 100, 200, 400, 800, 450]), (1 / 128, [50, *[6] * 325]), (1.0, [50, *[1] * 1950])]
)
async def test_pieces_take_a_twentieth_of_a_second(
    seconds: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of quick events a piece is twice as long as the one before; of slow ones it is as long as the time allows."""
    now = 0.0
    monkeypatch.setattr("ops.past.walk.monotonic", lambda: now)
    records: list[LogRecord] = [(offset, 0, None, b"") for offset in range(2000)]
    found = []
    async for piece in Pieces().of(records):
        found.append(piece)
        now += len(piece) * seconds

    assert records == [each for piece in found for each in piece]
    assert sizes == [len(piece) for piece in found]

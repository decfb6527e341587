"""The cleaner learns from its past slices how much fits into one."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from engine.layouts.layout import Form
from ingest.cleaning.chores import Pace
from ingest.cleaning.cleaner import CleaningSettings
from tests.ingest.cleaning.test_cleaner import Running, running, until


@pytest.mark.form(Form.FIELD_TIMES)
async def test_a_hash_that_goes_whole_is_one_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many fields it had: else slices would be thought cheap, and grow until they hold up the event loop."""
    noted: list[int] = []
    monkeypatch.setattr(Pace, "note", lambda _, units, seconds: noted.append(units))
    fields = " ".join(f"f{n} v" for n in range(50))
    async with running(tmp_path) as one:
        await one.apply(*(f"HSETEX h{n} PX 10 FIELDS 50 {fields}" for n in range(4)), time_ms=1000)
        await one.apply("HSET alive a 1", "HSETEX alive PX 10 FIELDS 2 b 1 c 1", time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        while not one.cleaner.job(0) or one.records("expiry"):
            one.cleaner.clean_some(0.01)

    assert 4 + 2 == sum(noted)
    assert (0, 202) == (one.heard.total("keys"), one.heard.total("fields"))


async def _occupy(one: Running) -> None:
    """Suspend one command after the other in its machine."""
    gate = one.owned.worker.gate

    def work() -> None:
        gate.slices.pause(sys._getframe())

    while True:
        await gate.call(partial(gate.hold, work))


async def test_suspended_commands_do_not_keep_the_cleaner_out(tmp_path: Path) -> None:
    """It waits its turn at a machine in which a command is suspended whenever it looks, and cleans between two."""
    async with running(tmp_path, CleaningSettings(interval_s=0.01, keys_max=5)) as one:
        await one.apply(*(f"SET k{n} v PX 10" for n in range(25)), time_ms=1000)
        await one.apply("SET kept v", time_ms=2000)
        tasks = [asyncio.create_task(_occupy(one)) for _ in range(2)]
        await until(lambda: one.owned.worker.gate.is_held)
        tasks.append(asyncio.create_task(one.cleaner.run()))
        async with asyncio.timeout(20):
            await until(lambda: one.heard.total("keys") == 25)
        held = one.owned.worker.gate.is_held
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    assert held

"""The ticker: the clock of an idle partition moves when something in it is due, and only then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from ingest.cleaning.cleaner import CleaningSettings
from slotlog.clock import now_ms
from slotlog.errors import LogUnavailableError
from tests.ingest.cleaning.test_cleaner import Store, applying, running, until
from tests.slotlog.fixtures import OpenLog


async def test_an_idle_partition_gets_a_tick(open_one: OpenLog) -> None:
    """On both logs: keys that are due by the wall clock go though nobody writes; then no more ticks come."""
    async with applying(await open_one(partitions=1), CleaningSettings(interval_s=0.02)) as one:
        task = asyncio.create_task(one.cleaner.run())
        await one.apply("SET a 1 PX 20", "SET b 1 PX 30", "SET kept 1 EX 1000")
        await until(lambda: one.heard.total("keys") == 2)
        for _ in range(3):  # as it does once a second
            await one.cleaner._ticker.look(now_ms())
        await one.caught_up()
        task.cancel()
        await asyncio.wait((task,))

        names = await one.names()
        assert {b"TICK"} == set(names[3:])
        assert len(names[3:]) <= 2  # the broker's clock may be a little behind


async def test_no_tick_while_the_log_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell then whether the partition is caught up."""
    async with running(tmp_path) as one:
        await one.apply("SET a 1 PX 5")
        ticker = one.cleaner._ticker

        async def away(_partition: int) -> int:
            raise LogUnavailableError("away")

        monkeypatch.setattr(one.log, "end_offset", away)
        await ticker.look(now_ms() + 100)
        monkeypatch.undo()
        silent = await one.names()
        await ticker.look(now_ms() + 100)

        assert ([b"SET"], [b"SET", b"TICK"]) == (silent, await one.names())


async def test_no_tick_while_records_wait_to_be_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They move the clock themselves."""
    async with running(tmp_path) as one:
        await one.apply("SET a 1 PX 5")

        async def further(_partition: int) -> int:
            return 2

        monkeypatch.setattr(one.log, "end_offset", further)
        await one.cleaner._ticker.look(now_ms() + 100)
        monkeypatch.undo()

        assert [b"SET"] == await one.names()


async def test_no_tick_behind_one_that_an_open_transaction_holds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that can be read is applied, and there is more: the TICK of a second ago, which will move the clock."""
    async with running(tmp_path) as one:
        await one.apply("SET a 1 PX 5")

        async def readable(_partition: int) -> int:
            return 1

        monkeypatch.setattr(one.log, "end_offset", readable)
        written = AsyncMock(return_value=2)
        monkeypatch.setattr(one.log, "high_watermark", written)
        await one.cleaner._ticker.look(now_ms() + 100)
        monkeypatch.undo()
        silent = await one.names()
        await one.cleaner._ticker.look(now_ms() + 200)

        assert ([b"SET"], [b"SET", b"TICK"]) == (silent, await one.names())


async def test_what_was_looked_through_is_not_looked_through_again(tmp_path: Path) -> None:
    """While no event comes, a look for due keys goes on where the last one ended: it crosses no tombstone twice."""
    store = Store()
    async with running(tmp_path, store=store) as one:
        await one.apply("SET a 1 EX 1000")
        first_ms = one.owned.worker.machine.position.clock_ms
        store.stretches.clear()
        for later_ms in (1000, 2000, 2000, 3000):
            await one.cleaner._ticker.look(first_ms + later_ms)

        ends = [(first_ms + start, first_ms + end) for start, end in ((1, 1001), (1001, 2001), (2001, 3001))]
        assert ends == [(int.from_bytes(start), int.from_bytes(end or b"")) for start, end in store.stretches]


async def test_no_tick_after_expiry_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where keys may not go by themselves any more when the log has said where it ends, the clock stays."""
    async with running(tmp_path) as one:
        await one.apply("SET a 1 PX 5")
        allowed = [True]
        end_offset = one.log.end_offset

        async def slowly(partition: int) -> int:
            allowed[0] = False
            return await end_offset(partition)

        monkeypatch.setattr(one.log, "end_offset", slowly)
        await one.cleaner._ticker.look(now_ms() + 100, lambda: allowed[0])
        monkeypatch.undo()

        assert [b"SET"] == await one.names()

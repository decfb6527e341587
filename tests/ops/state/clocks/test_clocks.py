"""A service on a machine whose wall clock is set while it runs, or was set before it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.config import ConfigError
from ops.state.clocks.guard import agree, agreement
from slotlog.clock import WALL, now_ns
from slotlog.log import Entry
from tests.ops.metrics.test_sources import scraped
from tests.ops.serving.test_health import Served, served
from tests.ops.verbs import run, until
from tests.real.oracle import Connection, ErrorReply, SimpleString

YEARS_MS = 10 * 365 * 24 * 3_600_000

OK = SimpleString(b"OK")

SetClock = Callable[[int], None]


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetClock]:
    """Moves the machine's wall clock by so many ms from where it really is."""

    def move(ms: int) -> None:
        monkeypatch.setattr(WALL, "wall_ns", lambda: now_ns() + ms * 1_000_000)

    WALL.agree()
    yield move
    monkeypatch.undo()
    WALL.agree()


class Client:
    """A Redis client of a service in this process."""

    def __init__(self, it: Served) -> None:
        assert it.service.resp is not None
        self._connection = Connection(("127.0.0.1", it.service.resp.port))

    async def call(self, *args: bytes | str | float) -> Any:
        """One command."""
        return await asyncio.to_thread(self._connection.call, *args)

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


@pytest.mark.parametrize("leap_ms", [YEARS_MS, -YEARS_MS])
async def test_a_leap_of_the_wall_clock_kills_no_key_and_is_said(tmp_path: Path, moved: SetClock, leap_ms: int) -> None:
    """While it lasts writes are refused with the reason and reads see what lives; afterwards it is as before."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        await client.call("SET", "lock", "mine", "EX", 1000)
        moved(leap_ms)
        during = [
            await client.call("SET", "k", "v"),
            await client.call("GET", "lock"),
            await client.call("EXISTS", "lock"),
        ]
        unready = await it.until("/readyz", 503)
        _, status = await it.get("/status")
        values = await scraped(it.service.metrics)
        moved(0)
        await it.until("/readyz", 200)
        after = [await client.call("SET", "lock", "other", "NX"), await client.call("SET", "k", "v")]
        left = await client.call("TTL", "lock")
        client.close()

    refused, value, exists = during
    assert isinstance(refused, ErrorReply)
    assert refused.text.startswith(b"ERR nothing was written: the wall clock was moved by ")
    assert (b"mine", 1) == (value, exists)
    assert unready["clock"]["reason"].startswith("the wall clock was moved by ")
    assert [True, True, True] == [unready[part]["ready"] for part in ("log", "disk")] + [
        each["ready"] for each in unready["partitions"]
    ]
    assert unready["clock"] == status["clock"]
    assert abs(leap_ms / 1000 - values["slotlog_wall_clock_moved_seconds"]) < 1
    assert [None, OK] == after
    assert 900 < left <= 1000


async def test_an_operator_agrees_and_the_service_goes_on(tmp_path: Path, moved: SetClock) -> None:
    """The verb's word is heard by the running service, which takes it once: what is moved later asks again."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        moved(3_600_000)
        await it.until("/readyz", 503)
        await agree(tmp_path / "data")
        await it.until("/readyz", 200)
        agreed = await client.call("SET", "k", "v")
        moved(0)
        again = await client.call("SET", "k", "v")
        client.close()

    assert OK == agreed
    assert isinstance(again, ErrorReply)
    assert not agreement(tmp_path / "data").exists()


async def test_nobody_can_agree_for_a_service_that_does_not_run(tmp_path: Path) -> None:
    """The verb says so and leaves nothing behind that a later service would take as its word."""
    with pytest.raises(ConfigError, match="no service runs on"):
        await agree(tmp_path, seconds=0.1)
    result = await asyncio.to_thread(run, "clock", "agree", "--data", tmp_path / "none")

    assert not agreement(tmp_path).exists()
    assert (1, True) == (result.exit_code, "is no directory of a service" in result.stderr)


async def test_a_start_with_a_wrong_clock_is_noticed(tmp_path: Path, moved: SetClock) -> None:
    """A service that ended while the clock was right knows it still at its next start on the same machine."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
    moved(YEARS_MS)
    WALL.agree()  # what a new process takes for right
    async with served(tmp_path) as it:
        await until(lambda: it.service.resp is not None and bool(it.service.resp.port))  # 503 is also who begins
        unready = await it.until("/readyz", 503)
        client = Client(it)
        refused = await client.call("SET", "k", "v")
        client.close()

    assert unready["clock"]["reason"].startswith("the wall clock was moved by +")
    assert isinstance(refused, ErrorReply)


async def test_an_append_with_a_time_in_the_future_is_refused(tmp_path: Path) -> None:
    """Whoever appends through the library hears it, and nothing of the append is in the log."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        log = it.service.consumer._log
        ahead = WALL.now_ms() + 61_000
        for append in (log.append, _at_once(log)):
            with pytest.raises(ValueError, match="61 s ahead of the wall clock, more than 60 s"):
                await append([Entry(0, None, b"first", 1), Entry(0, None, b"second", ahead)])
        end = await log.end_offset(0)

    assert 0 == end


def _at_once(log: Any) -> Any:
    async def append(entries: list[Entry]) -> Any:
        return log.append_at_once(entries)

    return append

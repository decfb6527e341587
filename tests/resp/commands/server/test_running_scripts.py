"""A script or function that reads can be ended while it runs; an event cannot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from engine.values.replies import Reply
from ingest.applying.slicing.slices import Slices
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import Live, serving, until
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
LOOP: Final = "local n = 0\nwhile true do\nn = n + 1 end"
LIBRARY: Final = (
    "#!lua name=lib\nredis.register_function{function_name='turn', flags={'no-writes'},"
    f" callback=function() {LOOP} end}}"
)
NOT_BUSY: Final = "NOTBUSY No scripts in execution right now."
EVENT: Final = "UNKILLABLE The script is an event of the log: every replay runs it to its end, or to its limit."
ENDED: Final = {
    "loop": LOOP,
    "pcall": f"while true do pcall(function() {LOOP} end) end",
    "handler": f"xpcall(function() {LOOP} end, function() {LOOP} end) {LOOP}",
    "coroutine": f"while true do coroutine.resume(coroutine.create(function() {LOOP} end)) end",
    "long texts": "local s = ('x'):rep(1e6) while true do s:upper() end",
    "commands": "while true do redis.pcall('GET', 'a') end",
}
"""Scripts that would run to their limit."""


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[Live]:
    """A server whose commands are suspended after a millisecond."""
    slices = Slices(0.001)
    with slices.timed():
        async with serving(tmp_path, slices=slices) as live:
            yield live


async def begun(live: Live, client: Client, *command: str | int) -> asyncio.Task[Any]:
    """A command that runs, and is suspended."""
    task = asyncio.create_task(client.call(*command))
    await until(lambda: live.server.pipelines[0].machine.scripts.running is not None)
    return task


def error(text: str) -> ErrorReply:
    """An error reply."""
    return ErrorReply(text.encode())


async def killed(killer: Client, kind: str, task: asyncio.Task[Reply]) -> str:
    """The error of what runs, once it was ended."""
    assert OK == await killer.call(kind, "KILL")
    reply: Any = await task
    assert isinstance(reply, ErrorReply)
    return re.sub("[0-9a-f]{40}", "SHA", reply.text.decode())


@pytest.mark.parametrize("name", ENDED)
async def test_a_reading_script_is_ended(tmp_path: Path, name: str) -> None:
    """SCRIPT KILL ends it with Redis' error, whatever it catches; the next script runs as usual."""
    async with served(tmp_path) as live:
        reader, killer = await live.client(), await live.client()
        assert error(NOT_BUSY) == await killer.call("SCRIPT", "KILL")
        text = await killed(killer, "SCRIPT", await begun(live, reader, "EVAL_RO", ENDED[name], 0))
        assert re.fullmatch(r"ERR Script killed by user with SCRIPT KILL. script: SHA, on @user_script:\d+\.", text)
        assert error(NOT_BUSY) == await killer.call("SCRIPT", "KILL")
        assert [1, 5] == [await reader.call("EVAL_RO", "return 1", 0), await killer.call("EVAL", "return 5", 0)]


async def test_a_reading_script_that_fails_runs_once(tmp_path: Path) -> None:
    """Its commands are called once, whichever way a session's reads take."""
    called: list[list[bytes]] = []
    async with served(tmp_path) as live:
        live.server.pipelines[0].machine.scripts.show = lambda _, words: called.append(words)
        for script in ("redis.call('GET', 'a') error('failed')", "redis.call('GET', 'b') return 1"):
            await (await live.client()).call("EVAL_RO", script, 0)
    assert [[b"GET", b"a"], [b"GET", b"b"]] == called


async def test_an_event_goes_on(tmp_path: Path) -> None:
    """A script in the log ends by itself, as it will at each replay; other clients are answered meanwhile."""
    async with served(tmp_path) as live:
        writer, killer = await live.client(), await live.client()
        task = await begun(
            live, writer, "EVAL", "for at = 1, 30000000 do local x = at end return redis.call('INCR', 'n')", 0
        )
        assert [error(EVENT), error(EVENT)] == [await killer.call("SCRIPT", "KILL") for _ in range(2)]
        assert not task.done()
        assert [1, b"1"] == [await task, await killer.call("GET", "n")]
        assert live.digest() == await live.replayed_digest()


async def test_functions_are_ended_by_their_own_command(tmp_path: Path) -> None:
    """FUNCTION STATS shows a function that runs, FUNCTION KILL ends it; SCRIPT KILL does not, nor the other way."""
    async with served(tmp_path) as live:
        reader, killer = await live.client(), await live.client()
        await killer.call("FUNCTION", "LOAD", LIBRARY)
        busy = "BUSY Redis is busy running a script. You can only call {} KILL or SHUTDOWN NOSAVE."
        task = await begun(live, reader, "FCALL", "turn", 1, "key", "argument")
        assert error(busy.format("FUNCTION")) == await killer.call("SCRIPT", "KILL")
        shown = dict(zip((flat := (await killer.call("FUNCTION", "STATS"))[1])[::2], flat[1::2], strict=True))
        assert (b"turn", [b"FCALL", b"turn", b"1", b"key", b"argument"]) == (shown[b"name"], shown[b"command"])
        assert 0 <= shown[b"duration_ms"]
        text = await killed(killer, "FUNCTION", task)
        assert "ERR Script killed by user with FUNCTION KILL. script: turn, on @user_function:4." == text
        assert (await killer.call("FUNCTION", "STATS"))[1] is None
        task = await begun(live, reader, "EVAL_RO", LOOP, 0)
        assert error(busy.format("SCRIPT")) == await killer.call("FUNCTION", "KILL")
        assert (await killer.call("FUNCTION", "STATS"))[1] is None
        await killed(killer, "SCRIPT", task)

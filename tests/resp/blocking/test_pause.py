"""CLIENT PAUSE: who has to wait, who has not, and that nothing is lost or overtaken."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.real.oracle import SimpleString
from tests.resp.harness import pipeline, replies, serving, until

OK: Final = SimpleString(b"OK")
QUEUED: Final = SimpleString(b"QUEUED")


async def test_writes_wait_and_reads_go_on(tmp_path: Path) -> None:
    """In WRITE mode reads are answered at once; a write, and what stands behind it, waits for the end."""
    async with serving(tmp_path) as live:
        client, other, control = [await live.client() for _ in range(3)]
        await control.call("SET", "a", "0")
        await control.call("CLIENT", "PAUSE", "60000", "WRITE")
        client.send(["GET", "a"], ["SET", "a", "1"], ["GET", "a"], ["PING"])
        first = await replies(client, 1)
        meanwhile = await pipeline(other, "GET a", "PING", "MULTI", "GET a", "EXEC")
        await until(lambda: live.server.sessions[1].transport.is_closing() is False)
        nothing_yet = live.server.pipelines[0].machine.next_offset
        await control.call("CLIENT", "UNPAUSE")
        rest = await replies(client, 3)

    assert ([b"0"], 1) == (first, nothing_yet)
    assert [b"0", SimpleString(b"PONG"), OK, QUEUED, [b"0"]] == meanwhile
    assert [OK, b"1", SimpleString(b"PONG")] == rest


async def test_what_counts_as_a_write(tmp_path: Path) -> None:
    """As in Redis: EXEC with a write or PUBLISH in it, a write that is queued, PUBLISH, PFCOUNT and blocking pops."""
    waiting = {"PUBLISH x m": 0, "PFCOUNT h": 0, "BLPOP q 0": [b"q", b"x"], "EXEC": [OK, 0, 0]}
    async with serving(tmp_path) as live:
        clients, control, queueing = [await live.client() for _ in waiting], await live.client(), await live.client()
        await control.call("RPUSH", "q", "x")
        queued = await pipeline(clients[-1], "MULTI", "SET a 1", "PUBLISH x m", "PFCOUNT h")
        await control.call("CLIENT", "PAUSE", "60000", "WRITE")
        for client, command in zip(clients, waiting, strict=True):
            client.send(command.split())
        taken = await pipeline(queueing, "MULTI", "GET a")
        queueing.send(["SET", "b", "1"], ["EXEC"])
        await until(lambda: len(live.server.pause._waiting) == 5)
        nothing_yet = live.server.pipelines[0].machine.next_offset
        await control.call("CLIENT", "UNPAUSE")
        got = [await replies(client, 1) for client in clients]

        assert ([OK, *[QUEUED] * 3], [OK, QUEUED], 1) == (queued, taken, nothing_yet)
        assert [[reply] for reply in waiting.values()] == got
        assert [QUEUED, [b"1", OK]] == await replies(queueing, 2)


async def test_all_commands_wait(tmp_path: Path) -> None:
    """In ALL mode reads wait too, until the time is over."""
    async with serving(tmp_path) as live:
        client, control = await live.client(), await live.client()
        await control.call("SET", "a", "0")
        await control.call("CLIENT", "PAUSE", "300")
        client.send(["GET", "a"], ["INCR", "a"], ["GET", "a"])
        await until(lambda: len(live.server.pause._waiting) == 1)
        paused = live.server.pause.is_on
        got = await replies(client, 3)

    assert (True, [b"0", 1, b"1"]) == (paused, got)


async def test_nobody_ends_a_pause_of_all_commands(tmp_path: Path) -> None:
    """In ALL mode CLIENT UNPAUSE and what is to be queued wait like the others, as in Redis, until the time is over."""
    async with serving(tmp_path) as live:
        client, control = await live.client(), await live.client()
        await client.call("MULTI")
        await control.call("CLIENT", "PAUSE", "300")
        client.send(["GET", "a"], ["EXEC"])
        control.send(["CLIENT", "UNPAUSE"])
        await until(lambda: len(live.server.pause._waiting) == 2)
        paused = live.server.pause.is_on

        assert (True, [QUEUED, [None]], [OK]) == (paused, await replies(client, 2), await replies(control, 1))


async def test_a_client_that_goes_while_it_waits(tmp_path: Path) -> None:
    """Its write is not run, and nothing of it is left."""
    async with serving(tmp_path) as live:
        client, control = await live.client(), await live.client()
        await control.call("CLIENT", "PAUSE", "60000", "WRITE")
        client.send(["SET", "a", "1"])
        await until(lambda: len(live.server.pause._waiting) == 1)
        next(filter(live.server.pause.keeps, live.server.sessions.values())).kill()
        await until(lambda: len(live.server.sessions) == 1)
        left = len(live.server.pause._waiting)
        await control.call("CLIENT", "UNPAUSE")

        assert 0 == left
        assert [None, OK] == await pipeline(control, "GET a", "SET a 2")
        client.close()

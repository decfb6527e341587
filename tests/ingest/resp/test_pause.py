"""CLIENT PAUSE: who has to wait, who has not, and that nothing is lost or overtaken."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.ingest.resp.harness import pipeline, replies, serving, until
from tests.real.oracle import SimpleString

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
        nothing_yet = live.server.lanes[0].machine.next_offset
        await control.call("CLIENT", "UNPAUSE")
        rest = await replies(client, 3)

    assert ([b"0"], 1) == (first, nothing_yet)
    assert [b"0", SimpleString(b"PONG"), OK, QUEUED, [b"0"]] == meanwhile
    assert [OK, b"1", SimpleString(b"PONG")] == rest


async def test_what_counts_as_a_write(tmp_path: Path) -> None:
    """EXEC with a write in it, PUBLISH and blocking pops wait as well; queueing does not."""
    async with serving(tmp_path) as live:
        transaction, sender, popper, control = [await live.client() for _ in range(4)]
        await control.call("RPUSH", "q", "x")
        await control.call("CLIENT", "PAUSE", "60000", "WRITE")
        queued = await pipeline(transaction, "MULTI", "SET a 1")
        transaction.send(["EXEC"])
        sender.send(["PUBLISH", "x", "m"])
        popper.send(["BLPOP", "q", "0"])
        await until(lambda: len(live.server.pause._waiting) == 3)
        nothing_yet = live.server.lanes[0].machine.next_offset
        await control.call("CLIENT", "UNPAUSE")
        got = [await replies(client, 1) for client in (transaction, sender, popper)]

    assert ([OK, QUEUED], 1) == (queued, nothing_yet)
    assert [[[OK]], [0], [[b"q", b"x"]]] == got


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


async def test_a_client_that_goes_while_it_waits(tmp_path: Path) -> None:
    """Its write is not run, and nothing of it is left."""
    async with serving(tmp_path) as live:
        client, control = await live.client(), await live.client()
        await control.call("CLIENT", "PAUSE", "60000", "WRITE")
        client.send(["SET", "a", "1"])
        await until(lambda: len(live.server.pause._waiting) == 1)
        next(iter(live.server.pause._waiting)).kill()
        await until(lambda: len(live.server.sessions) == 1)
        left = len(live.server.pause._waiting)
        await control.call("CLIENT", "UNPAUSE")

        assert 0 == left
        assert [None, OK] == await pipeline(control, "GET a", "SET a 2")
        client.close()

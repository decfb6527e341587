"""SLOTLOG: positions, waiting for one, status, and writes that are safe to send again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from slotlog.errors import LogUnavailableError
from tests.real.oracle import ErrorReply, NullArray, SimpleString
from tests.resp.harness import event, pipeline, replies, serving

OK: Final = SimpleString(b"OK")


async def test_position(tmp_path: Path) -> None:
    """Of this connection's last write, not of others', and not of one that failed."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        got = await pipeline(client, "SLOTLOG POSITION", "SET a 1", "INCR a", "SLOTLOG POSITION")
        await other.call("SET", "b", "1")
        got += await pipeline(client, "GET a", "SLOTLOG POSITION", "INCRBY a x", "SLOTLOG POSITION")
        live.log.failure = LogUnavailableError("the log is away")
        got += await pipeline(client, "SET a 2", "SLOTLOG POSITION")
        live.log.failure = None
        got += await pipeline(client, "MULTI", "SET a 3", "EXEC", "SLOTLOG POSITION")

    positions = [got[at] for at in (0, 3, 5, 7, 9, 13)]
    assert [NullArray(), [0, 1], [0, 1], [0, 3], [0, 3], [0, 4]] == positions


async def test_waitfor(tmp_path: Path) -> None:
    """1 once the offset is applied, by whomever it was appended; 0 when the time is over."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        got = await pipeline(client, "SLOTLOG WAITFOR 0 0 10", "SET a 1", "SLOTLOG WAITFOR 0 0 0")
        client.send(["SLOTLOG", "WAITFOR", "0", "2", "0"], ["GET", "n"])
        await other.call("PING")
        await live.log.append_as_another(event("INCR", "n"), event("INCR", "n"))
        got += await replies(client, 2)
        wrong = await pipeline(client, "SLOTLOG WAITFOR 1 0 0", "SLOTLOG WAITFOR 0 x 0", "SLOTLOG WAITFOR 0 0")

    assert [0, OK, 1, 1, b"2"] == got
    assert [
        ErrorReply(b"ERR partition 1 is not applied by this worker"),
        ErrorReply(b"ERR value is not an integer or out of range"),
        ErrorReply(b"ERR wrong number of arguments for 'slotlog|waitfor' command"),
    ] == wrong


async def test_status(tmp_path: Path) -> None:
    """One map for each partition of this worker."""
    async with serving(tmp_path, partitions=2) as live:
        client = await live.client()
        await client.call("SET", "{a}", "1")
        live.server.pipelines[0].owned.begin_offset, live.server.pipelines[1].owned.begin_offset = None, 5
        got: Any = await client.call("SLOTLOG", "STATUS")

    maps = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in got]
    assert [(0, 0, 0), (1, 1, 0)] == [(one[b"partition"], one[b"next_offset"], one[b"lag"]) for one in maps]
    assert [(b"running", b"", 0)] * 2 == [(one[b"condition"], one[b"reason"], one[b"pending"]) for one in maps]
    assert [False, True] == [one[b"clock_ms"] > 0 for one in maps]
    assert [None, 5] == [one[b"log_begin_offset"] for one in maps]


async def test_once(tmp_path: Path) -> None:
    """The second one with an id changes nothing and has the first reply, an error as well, on any connection."""
    async with serving(tmp_path) as live:
        client = await live.client()
        got = await pipeline(
            client,
            *("SLOTLOG ONCE x INCR n", "SLOTLOG ONCE x INCR n", "GET n", "SLOTLOG ONCE y INCR n", "SET s a"),
            *("SLOTLOG ONCE z INCR s", "SET s 1", "SLOTLOG ONCE z INCR s", "slotlog once w incr s"),
        )
        again = await live.ask("SLOTLOG", "ONCE", "x", "INCR", "n")

        assert await live.replayed_digest() == live.digest()
    not_an_integer = ErrorReply(b"ERR value is not an integer or out of range")
    assert [1, 1, b"1", 2, OK, not_an_integer, OK, not_an_integer, 2] == got
    assert 1 == again


async def test_once_refuses(tmp_path: Path) -> None:
    """Reads, commands of the server, unknown ones, wrong ids and numbers of arguments; and to stand in a MULTI."""
    long = "x" * 65
    async with serving(tmp_path) as live:
        got = await pipeline(
            await live.client(),
            *("SLOTLOG ONCE x GET a", "SLOTLOG ONCE x PING", "SLOTLOG ONCE x NOSUCH a", f"SLOTLOG ONCE {long} INCR a"),
            *("SLOTLOG ONCE x SET a", "SLOTLOG ONCE x", "MULTI", "SLOTLOG ONCE x INCR a", "EXEC", "GET a"),
        )

    takes = ErrorReply(b"ERR SLOTLOG ONCE takes a command that writes")
    assert [takes] * 3 == got[:3]
    assert [
        ErrorReply(b"ERR the id must have 1 to 64 bytes"),
        ErrorReply(b"ERR wrong number of arguments for 'set' command"),
        ErrorReply(b"ERR wrong number of arguments for 'slotlog|once' command"),
        OK,
        ErrorReply(b"ERR Command not allowed inside a transaction"),
        ErrorReply(b"EXECABORT Transaction discarded because of previous errors."),
        None,
    ] == got[3:]

"""SLOTLOG AT and ASOF, as sessions see them: what is asked of the host, what is refused, who may."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import pipeline, serving

OK: Final = SimpleString(b"OK")


def texts(got: list[Any]) -> list[bytes]:
    """The texts of errors."""
    return [each.text for each in got if isinstance(each, ErrorReply)]


async def test_at_asks_for_the_partition_of_the_keys(tmp_path: Path) -> None:
    """The host gets partition, moment, command and database; a subcommand has the name that the engine knows."""
    async with serving(tmp_path, partitions=2) as live:
        got = await pipeline(await live.client(), "SLOTLOG AT 5 HGET {a} f", "SLOTLOG AT @7 OBJECT ENCODING {b}")

    assert [[1, b"5", b"HGET", b"{a}", b"f", 0], [0, b"@7", b"OBJECT|ENCODING", b"{b}", 0]] == got


async def test_what_at_refuses(tmp_path: Path) -> None:
    """Writes, commands of the server, unknown ones, wrong numbers of arguments, several slots, no key in a cluster."""
    async with serving(tmp_path, partitions=2) as live:
        client = await live.client()
        got = await pipeline(
            client,
            *("SLOTLOG AT 5 SET a 1", "SLOTLOG AT 5 PING", "SLOTLOG AT 5 NOSUCH a", "SLOTLOG AT 5 EVAL x 1 a"),
            *("SLOTLOG AT 5 GET", "SLOTLOG AT 5", "SLOTLOG AT 5 MGET a b", "SLOTLOG AT 5 DBSIZE", "MULTI"),
            *("SLOTLOG AT 5 GET a", "DISCARD"),
        )

    assert [
        *[b"ERR SLOTLOG AT takes a command that reads: the past cannot be changed"] * 4,
        b"ERR wrong number of arguments for 'get' command",
        b"ERR wrong number of arguments for 'slotlog|at' command",
        b"CROSSSLOT Keys in request don't hash to the same slot",
        b"ERR dbsize over several partitions as of a moment: name a key",
        b"ERR Command not allowed inside a transaction",
    ] == texts(got)


async def test_a_connection_as_of_a_moment(tmp_path: Path) -> None:
    """All its reads are of then, in its database; writes, and what waits, are refused; NOW and RESET end it."""
    async with serving(tmp_path) as live:
        client = await live.client()
        got = await pipeline(
            client,
            *("SET a 1", "SLOTLOG ASOF @7", "GET a", "SELECT 2", "DBSIZE", "SET a 2", "BLPOP a 0", "MULTI", "WATCH a"),
            *("XREAD BLOCK 0 STREAMS s $", "XREAD STREAMS s 0", "EVAL x 1 a", "PING", "SLOTLOG ASOF now", "SELECT 0"),
            *("GET a", "SLOTLOG ASOF 9", "RESET", "GET a"),
        )

    refused = (b"set", b"blpop", b"multi", b"watch", b"xread", b"eval")
    tail = b"does not read the past, and this connection reads as of @7; nothing was written"
    assert [b"ERR %b %b: SLOTLOG ASOF NOW ends that" % (name, tail) for name in refused] == texts(got)
    assert [
        *(OK, OK, [0, b"@7", b"GET", b"a", 0], OK, [0, b"@7", b"DBSIZE", 2], [0, b"@7", b"XREAD", b"STREAMS", b"s"]),
    ] == [each if not isinstance(each, list) else each[:5] for each in got if not isinstance(each, ErrorReply)][:6]
    assert [SimpleString(b"PONG"), OK, OK, b"1", OK, SimpleString(b"RESET"), b"1"] == got[-7:]


async def test_who_may(tmp_path: Path) -> None:
    """The right to the command in it is needed too, for its name and its keys; so it is as of a moment."""
    async with serving(tmp_path) as live:
        admin, client = await live.client(), await live.client()
        await pipeline(admin, "ACL SETUSER eve on nopass ~mine +get +slotlog|at +slotlog|asof")
        got = await pipeline(
            client,
            *("AUTH eve x", "SLOTLOG AT 5 GET mine", "SLOTLOG AT 5 GET other", "SLOTLOG AT 5 HGET mine f"),
            *("SLOTLOG ASOF 5", "GET mine", "GET other"),
        )

    assert [OK, [0, b"5", b"GET", b"mine", 0], OK, [0, b"5", b"GET", b"mine", 0]] == [
        each for each in got if not isinstance(each, ErrorReply)
    ]
    assert [b"NOPERM"] * 3 == [text.split()[0] for text in texts(got)]
    assert b"'hget'" in texts(got)[1]


async def test_history_options(tmp_path: Path) -> None:
    """Each option once or not at all; what is no option, or no number, is refused; the key must be readable."""
    async with serving(tmp_path) as live:
        client = await live.client()
        got = await pipeline(
            client,
            *("SLOTLOG HISTORY a", "SELECT 2", "slotlog history a count 3 from 7 until @9 values"),
            *(
                "SLOTLOG HISTORY a COUNT",
                "SLOTLOG HISTORY a COUNT 0",
                "SLOTLOG HISTORY a FROM x",
                "SLOTLOG HISTORY a b",
            ),
            *("ACL SETUSER eve on nopass ~mine +slotlog|history", "AUTH eve x", "SLOTLOG HISTORY other"),
        )

    assert [[0, b"a", 0, 100, 0, None, 0], OK, [0, b"a", 2, 3, 7, b"@9", 1]] == got[:3]
    number = b"ERR value is not an integer or out of range"
    assert [b"ERR syntax error", number, number, b"ERR syntax error"] == texts(got)[:4]
    assert texts(got)[4].startswith(b"NOPERM")

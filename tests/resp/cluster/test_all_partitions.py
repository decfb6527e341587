"""Cluster mode: commands without a key over all partitions of a worker, and keys that are elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from slotlog.shared.slots import partition_of, slot
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import Live, pipeline, serving
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
PARTITIONS: Final = 4
KEYS: Final = 400


def owned_keys(live: Live) -> list[str]:
    """Some keys of the partitions that this worker has."""
    keys = [f"k{number}" for number in range(KEYS)]
    return [key for key in keys if partition_of(slot(key.encode()), PARTITIONS) in live.server.pipelines]


async def fill(live: Live) -> tuple[Client, list[str]]:
    """A client, and the keys that it has set."""
    client = await live.client()
    keys = owned_keys(live)
    assert [OK] * len(keys) == await pipeline(client, *[f"SET {key} {key}" for key in keys])
    return client, keys


async def scanned(client: Client, *options: str) -> list[bytes]:
    """What SCAN gives from its beginning to its end."""
    found: list[bytes] = []
    cursor = b"0"
    while True:
        reply: Any = await client.call("SCAN", cursor, *options)
        cursor, keys = reply
        found += keys
        if cursor == b"0":
            return found


@pytest.mark.parametrize("own", [(0, 1, 2, 3), (0, 2), (1, 3), (3,)])
async def test_scan_gives_every_key_once(tmp_path: Path, own: tuple[int, ...]) -> None:
    """Whichever partitions this worker has, with any COUNT; MATCH and TYPE choose among them."""
    async with serving(tmp_path, partitions=PARTITIONS, own=own) as live:
        client, keys = await fill(live)
        expected = sorted(key.encode() for key in keys)

        for count in ("1", "7", "1000"):
            assert expected == sorted(await scanned(client, "COUNT", count))
        assert [key for key in expected if key.startswith(b"k1")] == sorted(await scanned(client, "MATCH", "k1*"))
        assert [] == await scanned(client, "TYPE", "list")
        wrong = [await client.call("SCAN", *args) for args in (["x"], ["-1"], ["0", "COUNT", "0"], ["0", "NO"])]
        assert [
            ErrorReply(b"ERR invalid cursor"),
            ErrorReply(b"ERR invalid cursor"),
            ErrorReply(b"ERR syntax error"),
            ErrorReply(b"ERR syntax error"),
        ] == wrong


async def test_the_whole_keyspace(tmp_path: Path) -> None:
    """DBSIZE adds up, KEYS gives all, RANDOMKEY one of them, FLUSHALL takes all and is an event in each partition."""
    async with serving(tmp_path, partitions=PARTITIONS) as live:
        client, keys = await fill(live)
        got = await pipeline(client, "DBSIZE", "KEYS *", "RANDOMKEY", "SET k1 new", "FLUSHALL", "DBSIZE", "RANDOMKEY")
        events = [(await live.events(partition))[-1] for partition in range(PARTITIONS)]

        assert [len(keys), sorted(keys)] == [got[0], sorted(key.decode() for key in got[1])]
        assert got[2].decode() in keys
        assert [OK, OK, 0, None] == got[3:]
        assert [(b"FLUSHALL", [])] * PARTITIONS == events
        assert await live.replayed_digest() == live.digest()


async def test_keyless_commands_behind_writes(tmp_path: Path) -> None:
    """They wait for the earlier writes of their connection, in whatever partition, and not for the later ones."""
    async with serving(tmp_path, partitions=PARTITIONS) as live:
        live.log.at_once = False
        keys = owned_keys(live)[:8]
        commands = [command for key in keys for command in (f"SET {key} 1", "DBSIZE")]
        got = await pipeline(await live.client(), *commands, "FLUSHDB", "DBSIZE")

    assert [reply for number in range(1, 9) for reply in (OK, number)] + [OK, 0] == got


async def test_a_partition_that_takes_nothing(tmp_path: Path) -> None:
    """FLUSHALL is refused whole when one partition cannot take it: nothing is written to the others."""
    async with serving(tmp_path, partitions=2) as live:
        client = await live.client()
        await pipeline(client, "SET {a} 1", "SET {b} 1")
        live.server.pipelines[1].closing = True
        got = await pipeline(client, "FLUSHALL", "GET {b}")
        live.server.pipelines[1].closing = False

        assert [ErrorReply(b"CLUSTERDOWN slotlog is shutting down; nothing was written"), b"1"] == got
        assert [OK, 0] == await pipeline(client, "FLUSHALL", "DBSIZE")


async def test_what_a_cluster_has_not(tmp_path: Path) -> None:
    """Refused before it reaches the log, where it would be a dead letter."""
    async with serving(tmp_path, partitions=2) as live:
        got = await pipeline(
            await live.client(),
            *("SWAPDB 0 1", "MOVE {b} 1", "MULTI", "FLUSHALL", "EXEC", "MULTI", "SWAPDB 0 1", "SET {b} 1", "EXEC"),
        )
        appended = [await live.log.end_offset(partition) for partition in (0, 1)]

    aborted = ErrorReply(b"EXECABORT Transaction discarded because of previous errors.")
    swap, move = [ErrorReply(b"ERR %b is not allowed in cluster mode" % name) for name in (b"SWAPDB", b"MOVE")]
    flush = ErrorReply(b"ERR FLUSHALL cannot be part of a transaction in cluster mode")
    assert [swap, move, OK, flush, aborted, OK, swap, SimpleString(b"QUEUED"), aborted] == got
    assert [0, 0] == appended


async def test_what_a_cluster_has_not_once(tmp_path: Path) -> None:
    """SLOTLOG ONCE refuses the same, and takes COPY with the one database that there is."""
    async with serving(tmp_path, partitions=2) as live:
        commands = "SET {b} 1", "MOVE {b} 1", "SORT {b} BY w* STORE {b}", "COPY {b} {b}2 DB 1", "COPY {b} {b}2 DB 0"
        client = await live.client()
        got = await pipeline(client, *[f"SLOTLOG ONCE {at} {words}" for at, words in enumerate(commands)])
        alone = await pipeline(client, *commands[1:-1])
        appended = await live.log.end_offset(0) + await live.log.end_offset(1)

    assert [ErrorReply] * 3 == [type(reply) for reply in alone]
    assert [OK, *alone, 1] == got
    assert 2 == appended


async def test_keys_that_are_elsewhere(tmp_path: Path) -> None:
    """MOVED to the worker that has the slot, CLUSTERDOWN where nobody has it, CROSSSLOT for keys of two slots."""
    peers = {"peers": "0=127.0.0.1:7000,1=127.0.0.1:7001"}
    async with serving(tmp_path, partitions=3, own=(0,), settings=peers) as live:
        client = await live.client()
        got = await pipeline(
            client,
            *("SET {b} 1", "SET {foo}1 1", "GET {foo}1", "SET {a} 1", "MSET {b}1 x {b}2 y", "MSET {b} x {a} y"),
            *("MGET {b} {foo}", "RENAME {b} {a}", "WATCH {a}", "BLPOP {foo} 1", "SELECT 1", "GET {b}"),
            *("MULTI", "SET {foo} 1", "EXEC"),
        )

    slot_a, slot_foo = slot(b"a"), slot(b"foo")
    assert [3300, 15495, 12182] == [slot(b"b"), slot_a, slot_foo]
    crossed = ErrorReply(b"CROSSSLOT Keys in request don't hash to the same slot")
    down = ErrorReply(b"CLUSTERDOWN Hash slot not served")
    assert [OK, down, down, down, OK, crossed, crossed, crossed, down, down] == got[:10]
    assert [ErrorReply(b"ERR SELECT is not allowed in cluster mode"), b"1"] == got[10:12]
    assert [OK, down, ErrorReply(b"EXECABORT Transaction discarded because of previous errors.")] == got[12:]


async def test_streams_that_are_elsewhere(tmp_path: Path) -> None:
    """XREAD and XREADGROUP, which name their keys behind options, are sent on as well, also with BLOCK."""
    peers = {"peers": "0=127.0.0.1:7000,1=127.0.0.1:7001"}
    async with serving(tmp_path, partitions=2, own=(0,), settings=peers) as live:
        got = await pipeline(
            await live.client(),
            *("XADD {a} 1-1 f v", "XREAD STREAMS {a} 0", "XREAD BLOCK 0 STREAMS {a} $"),
            *("XREADGROUP GROUP g c STREAMS {a} >", "XREADGROUP GROUP g c BLOCK 0 STREAMS {a} >", "XACK {a} g 1-1"),
            *("XGROUP CREATE {a} g 0", "XINFO STREAM {a}", "XREAD BLOCK 0 STREAMS {b} {a} $ $", "XADD {b} 1-1 f v"),
        )

    moved = ErrorReply(b"MOVED 15495 127.0.0.1:7001")
    crossed = ErrorReply(b"CROSSSLOT Keys in request don't hash to the same slot")
    assert [*[moved] * 8, crossed, b"1-1"] == got


async def test_moved(tmp_path: Path) -> None:
    """The error says where the slot is."""
    peers = {"peers": "0=127.0.0.1:7000,1=127.0.0.1:7001"}
    async with serving(tmp_path, partitions=2, own=(0,), settings=peers) as live:
        got = await pipeline(await live.client(), "SET {a} 1", "GET {a}", "SET {b} 1")

    moved = ErrorReply(b"MOVED 15495 127.0.0.1:7001")
    assert [moved, moved, OK] == got

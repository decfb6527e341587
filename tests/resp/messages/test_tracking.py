"""Client-side caching where valkey-server is no measure: other producers, partitions, limits, SWAPDB, what is left.

What it is a measure of stands in `tests/wire/test_tracking.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from engine.apply.records import Applied
from resp.messages.broadcast import Broadcast
from resp.messages.tracking_table import TrackingTable
from slotlog.shared.slots import partition_of, slot
from tests.real.oracle import SimpleString
from tests.resp.harness import Live, event, pipeline, replies, serving, until
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
EVERYTHING: Final = [b"invalidate", None]


def gone(*keys: bytes) -> list[Any]:
    """The message that these keys are out of date."""
    return [b"invalidate", list(keys)]


async def tracking(live: Live, *options: str) -> Client:
    """A client of RESP3 that tracks."""
    client = await live.client()
    await client.call("HELLO", "3")
    assert await client.call("CLIENT", "TRACKING", "ON", *options) == OK
    return client


async def info(live: Live, *fields: str) -> list[int]:
    """Some numbers of INFO."""
    text = (await live.ask("INFO")).decode()
    return [int(re.search(rf"{field}:(\d+)", text)[1]) for field in fields]  # type: ignore[index]


async def test_other_producers(tmp_path: Path) -> None:
    """Events that the server has not appended itself are told as those of its clients, and what they flush."""
    async with serving(tmp_path) as live:
        client, prefixed = await tracking(live), await tracking(live, "BCAST", "PREFIX", "k")
        await pipeline(client, "GET k", "GET l", "GET m")
        await live.log.append_as_another(event("SET", "k", "1"), event("SET", "x", "1"), event("SET", "l", "1"))
        told = [await replies(client, 2), await replies(prefixed, 1)]
        await live.log.append_as_another(event("FLUSHALL"))
        told += [await replies(client, 1), await replies(prefixed, 1)]

    assert [[gone(b"k"), gone(b"l")], [gone(b"k")], [EVERYTHING], [EVERYTHING]] == told


async def test_swapdb(tmp_path: Path) -> None:
    """Databases that change places are told as a flush. Redis says nothing, and caches keep values of the other one."""
    async with serving(tmp_path) as live:
        client = await tracking(live)
        await client.call("GET", "k")
        await live.ask("SWAPDB", "0", "1")
        assert [EVERYTHING] == await replies(client, 1)
        assert [OK, EVERYTHING] == await pipeline(client, "SWAPDB 0 1") + await replies(client, 1)


async def test_a_read_between_writes(tmp_path: Path) -> None:
    """Of commands that are applied together each read counts from its place on: a write before it changes nothing."""
    async with serving(tmp_path, prepare=lambda log: setattr(log, "at_once", False)) as live:
        client = await tracking(live)
        before = await pipeline(client, "SET k 1", "GET k", "PING")
        assert [1] == await info(live, "tracking_total_keys")
        await live.ask("SET", "k", "2")
        behind = await replies(client, 1)
        between = await pipeline(client, "SET k 3", "GET k", "SET k 4", "GET l", "SET l 1", "GET l", "PING")
        told = await replies(client, 2)
        await live.ask("SET", "l", "5")

        assert [[OK, b"1", SimpleString(b"PONG")], [gone(b"k")]] == [before, behind]
        assert [OK, b"3", OK, None, OK, b"1", SimpleString(b"PONG")] == between
        assert [[gone(b"k"), gone(b"l")], [gone(b"l")]] == [told, await replies(client, 1)]


async def test_who_is_muted_is_told(tmp_path: Path) -> None:
    """CLIENT REPLY OFF hides replies, and no invalidations."""
    async with serving(tmp_path) as live:
        client = await tracking(live)
        await client.call("GET", "k")
        client.send(["CLIENT", "REPLY", "OFF"], ["PING"])
        await live.ask("SET", "k", "1")

        assert gone(b"k") == await client.reply()


async def test_table_is_bounded(tmp_path: Path) -> None:
    """Over `tracking-table-max-keys` the key that was not read for longest is told as changed; 0: no limit."""
    async with serving(tmp_path, tracking_table_max_keys="3") as live:
        client = await tracking(live)
        await pipeline(client, "GET k1", "GET k2", "GET k3", "GET k1")
        beyond = [await client.call("GET", "k4"), *await replies(client, 1)]
        kept = await info(live, "tracking_total_keys", "tracking_total_items", "tracking_clients")
        await live.ask("CONFIG", "SET", "tracking-table-max-keys", "1")
        lowered = await replies(client, 2)
        await live.ask("CONFIG", "SET", "tracking-table-max-keys", "0")
        await pipeline(client, *[f"GET x{number}" for number in range(9)])

        assert [[None, gone(b"k2")], [3, 3, 1], [gone(b"k3"), gone(b"k1")]] == [beyond, kept, lowered]
        assert [10] == await info(live, "tracking_total_keys")


async def test_figures(tmp_path: Path) -> None:
    """INFO counts clients, keys, pairs of both and prefixes; CLIENT LIST shows who tracks, and with whom."""
    async with serving(tmp_path) as live:
        one, two = await tracking(live), await tracking(live)
        await tracking(live, "BCAST", "PREFIX", "a", "PREFIX", "b", "REDIRECT", str(await one.call("CLIENT", "ID")))
        for client in (one, two):
            await client.call("MGET", "k1", "k2")
        figures = await info(
            live, "tracking_clients", "tracking_total_keys", "tracking_total_items", "tracking_total_prefixes"
        )
        lines = (await live.ask("CLIENT", "LIST")).decode().splitlines()

        assert [3, 2, 4, 2] == figures
        shown = [re.search(r"flags=(\S+) .* redir=(\S+)", line).groups() for line in lines]  # type: ignore[union-attr]
        assert [("t", "0"), ("t", "0"), ("tB", "1"), ("N", "-1")] == shown


async def test_nothing_is_left_of_clients_that_are_gone(tmp_path: Path) -> None:
    """The last client that ends tracking, is RESET or is gone takes the table along, and machines note nothing more."""
    async with serving(tmp_path) as live:
        clients = [await tracking(live), await tracking(live, "BCAST", "PREFIX", "a"), await tracking(live)]
        for client in clients:
            await client.call("GET", "k")
        tracked = live.server.tracking
        noted = [live.server.pipelines[0].machine.witnessing, len(tracked.table), len(tracked.broadcast)]
        await clients[0].call("CLIENT", "TRACKING", "OFF")
        clients[1].close()
        await clients[2].call("RESET")
        await until(lambda: not tracked.any)

        assert [True, 1, 1] == noted
        left = [live.server.pipelines[0].machine.witnessing, len(tracked.table), len(tracked.broadcast)]
        assert [False, 0, 0] == left
        assert [0, 0] == [tracked.clients, tracked.table.items]


async def test_own_writes_of_noloop(tmp_path: Path) -> None:
    """With NOLOOP a client hears nothing of what it has written itself, in whichever order writes are applied."""
    async with serving(tmp_path, prepare=lambda log: setattr(log, "at_once", False)) as live:
        client, prefixed = await tracking(live, "NOLOOP"), await tracking(live, "NOLOOP", "BCAST")
        await client.call("MGET", "a", "b", "c")
        prefixed.send(["SET", "b", "1"])
        own = await pipeline(client, "SET a 1", "MULTI", "INCR c", "EXEC")
        told = await replies(client, 1)
        heard: list[bytes] = []
        assert OK == await prefixed.reply()
        while len(heard) < 2:
            heard += (await prefixed.reply())[1]

        assert [OK, OK, SimpleString(b"QUEUED"), [1]] == [reply for reply in own + told if reply != gone(b"b")]
        assert 1 == (own + told).count(gone(b"b"))  # anywhere among them: it is another client's write
        assert SimpleString(b"PONG") == await client.call("PING")
        assert [b"a", b"c"] == sorted(heard)
        assert {} == live.server.tracking._own_writes[0]


async def test_partition_that_was_stopped(tmp_path: Path) -> None:
    """Nobody knows what changes while a partition is closed: all is out of date when it stops, and when it goes on."""
    async with serving(tmp_path) as live:
        client = await tracking(live)
        await client.call("GET", "k")
        live.consumer.conditions.stop_outside(0, "a disk that fails")
        told = await replies(client, 2)
        await until(lambda: str(live.server.pipelines[0].owned.condition) == "running")
        read = await client.call("GET", "k")
        await live.ask("SET", "k", "1")

        assert [[EVERYTHING, EVERYTHING], None, gone(b"k")] == [told, read, await client.reply()]


async def test_reply_of_another_partition(tmp_path: Path) -> None:
    """In a cluster a reply may wait for that of a slower partition: an invalidation waits behind it."""
    async with serving(tmp_path, partitions=4, prepare=lambda log: setattr(log, "at_once", False)) as live:
        slow, fast = await tracking(live), await tracking(live)
        live.log.start_gate.clear()
        slow.send(["SET", "a", "1"], ["GET", "b"])  # a and b are in two partitions
        session = live.server.sessions[1]
        await until(lambda: len(session.output.pending_replies) == 2)
        live.server.tracking.on_applied(*modified(live, b"b"))
        live.log.start_gate.set()

        assert [OK, None, gone(b"b")] == await replies(slow, 3)
        assert SimpleString(b"PONG") == await fast.call("PING")


def modified(live: Live, key: bytes) -> Any:
    """What a partition says of a batch that has modified the key."""
    partition = partition_of(slot(key), 4)
    machine = live.server.pipelines[partition].machine
    applied = Applied(machine.next_offset + 1)
    applied.modified.append((machine.next_offset, 0, b"SET", [key, b"1"], 0, key, 0, 1, 0))
    return partition, applied


@pytest.mark.parametrize("own", [(0, 1, 2, 3), (1,)])
async def test_flush_of_a_cluster(tmp_path: Path, own: tuple[int, ...]) -> None:
    """FLUSHALL reaches each partition by itself: as many messages as partitions, the first one says it all."""
    async with serving(tmp_path, partitions=4, own=own) as live:
        client = await tracking(live)
        await client.call("GET", "a")
        await live.ask("FLUSHALL")

        assert [EVERYTHING] * len(own) == await replies(client, len(own))


def test_table_keeps_count() -> None:
    """Pairs are counted once; a key that was read again is not the oldest any more; who takes it gets all clients."""
    table = TrackingTable()
    for key, client in ((b"a", 7), (b"b", 7), (b"a", 7), (b"a", 3), (b"a", 3), (b"a", 9), (b"c", 1)):
        table.add(key, client)

    assert (3, 5) == (len(table), table.items)
    assert [(b"b", (7,)), (b"a", (3, 7, 9)), (b"c", (1,))] == [table.take_oldest() for _ in range(3)]
    assert ([], 0, 0) == (list(table.take(b"a")), len(table), table.items)


def test_prefixes_come_and_go() -> None:
    """A key goes to each prefix that it has, told in order, with the last writer; a prefix of nobody is forgotten."""
    broadcast = Broadcast()
    for prefix, client in ((b"", 1), (b"ab", 2), (b"ab", 1), (b"b", 3)):
        broadcast.add(prefix, client)
    for key, writer in ((b"abc", None), (b"ab", 2), (b"a", None), (b"abc", 3)):
        assert broadcast.note(key, writer)

    told = list(broadcast.take())
    assert ([1], {b"a": None, b"ab": 2, b"abc": 3}) == told[0]
    assert ([2, 1], {b"ab": 2, b"abc": 3}) == told[1]
    assert [] == told[2:] + list(broadcast.take())
    broadcast.remove(b"", 1)
    broadcast.remove(b"ab", 2)
    assert [True, False, True, 2] == [*map(broadcast.note, (b"ab", b"a", b"b"), [None] * 3), len(broadcast)]


async def test_scripts_that_read_without_an_event(tmp_path: Path) -> None:
    """What their commands read is tracked, also behind a write of the same connection; an event tracks nothing."""
    read = "#!lua flags=no-writes\nreturn redis.call('GET', 'read')"
    library = "#!lua name=l\nredis.register_function{function_name='f', flags={'no-writes'}, callback=function()"
    async with serving(tmp_path, prepare=lambda log: setattr(log, "at_once", False)) as live:
        await live.ask("SCRIPT", "LOAD", read)
        await live.ask("FUNCTION", "LOAD", f"{library} return redis.call('GET', 'read') end}}")
        client = await tracking(live)
        for command in (["EVAL", read, "1", "declared"], ["FCALL", "f", "1", "declared"], ["FCALL_RO", "f", "0"]):
            await client.call(*command)
            await live.ask("MSET", "declared", "1", "read", "1")
            assert gone(b"read") == await client.reply()
        client.send(["SET", "w", "1"], ["FCALL_RO", "f", "1", "declared"])
        assert [OK, b"1"] == await replies(client, 2)
        await live.ask("MSET", "declared", "1", "read", "1")
        assert gone(b"read") == await client.reply()
        await client.call("EVAL", "return redis.call('GET', 'read')", "1", "declared")
        await live.ask("MSET", "declared", "1", "read", "1")
        assert SimpleString(b"PONG") == await client.call("PING")

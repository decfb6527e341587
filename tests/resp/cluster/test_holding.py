"""Commands in a partition that moves: they wait until somebody serves it, and only so long."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Final

from ingest.applying.partitions.owned_partition import OwnedPartition
from resp.cluster.bus import wire
from resp.cluster.topology import ClusterMap
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import Live, serving, until
from tests.resp.workers import facing

_OK: Final = SimpleString(b"OK")
_QUEUED: Final = SimpleString(b"QUEUED")
_NOBODY: Final = ErrorReply(b"CLUSTERDOWN Hash slot not served")
_LONG_SECONDS: Final = 60.0
_SHORT_SECONDS: Final = 0.1


@asynccontextmanager
async def _between(tmp_path: Path, seconds: float) -> AsyncIterator[tuple[Live, OwnedPartition]]:
    """A worker that owns partition 0, and is to own partition 1, in which `foo` is: it has not taken that yet."""
    async with serving(tmp_path, partitions=2, settings={"hold_seconds": seconds}) as live:
        server = live.server
        owned = server.pipelines.pop(1).owned
        server.refresh()
        owned.begin_serving_nobody()
        me = server.cluster.me.address
        server.follow(ClusterMap.of_group(2, me, {0: me, 1: me}, []))
        yield live, owned


async def _take(live: Live, owned: OwnedPartition) -> None:
    """It takes the partition, and serves it."""
    live.server.take(1, owned)
    await asyncio.sleep(2 * _SHORT_SECONDS)  # what waits has been looked at: it is being opened
    await live.server.begin(1)


async def test_commands_wait_until_their_partition_is_served(tmp_path: Path) -> None:
    """What comes too early is answered when the partition is served, in order, and meanwhile others are."""
    async with _between(tmp_path, _LONG_SECONDS) as (live, owned):
        clients = [await live.client() for _ in range(2)]
        waiting = [asyncio.create_task(client.call("INCR", "foo")) for client in clients]
        await until(lambda: live.server.holding.count == len(clients))
        clients[0].send(["STRLEN", "foo"])
        assert [_OK, SimpleString(b"PONG")] == [await live.ask("SET", "bar", "1"), await live.ask("PING")]
        await _take(live, owned)

        assert [1, 2] == sorted([await each for each in waiting])
        assert 1 == await clients[0].reply()
        assert 0 == live.server.holding.count


async def test_who_has_not_heard_of_its_group_names_no_owners(tmp_path: Path) -> None:
    """Before the first plan CLUSTER SLOTS, SHARDS and NODES are refused: a client asks the next node it knows."""
    async with _between(tmp_path, _LONG_SECONDS) as (live, _):
        me = live.server.cluster.me.address
        live.server.follow(ClusterMap.of_group(2, me, {}, []))
        unknown = ErrorReply(b"LOADING slotlog waits for what its group says")
        assert [unknown] * 3 == [await live.ask("CLUSTER", each) for each in ("SLOTS", "SHARDS", "NODES")]


async def test_who_has_waited_for_long_enough_hears_why(tmp_path: Path) -> None:
    """When the time is over the command, and all that was sent behind it, are answered with what is so."""
    async with _between(tmp_path, _SHORT_SECONDS) as (live, _):
        client = await live.client()
        began = monotonic()
        client.send(["GET", "foo"], ["SET", "foo", "1"], ["GET", "bar"])
        assert [_NOBODY, _NOBODY, None] == [await client.reply() for _ in range(3)]
        assert monotonic() - began >= _SHORT_SECONDS
        assert _NOBODY == await client.call("GET", "foo")


async def test_a_transaction_waits_as_well(tmp_path: Path) -> None:
    """Commands that are queued wait, and so does EXEC, when the partition goes in between."""
    async with _between(tmp_path, _LONG_SECONDS) as (live, owned):
        client = await live.client()
        await client.call("MULTI")
        queued = asyncio.create_task(client.call("INCR", "foo"))
        await until(lambda: live.server.holding.count == 1)
        await _take(live, owned)
        assert _QUEUED == await queued
        live.server.pipelines.pop(1)
        live.server.refresh()
        owned.begin_serving_nobody()
        done = asyncio.create_task(client.call("EXEC"))
        await until(lambda: live.server.holding.count == 1)
        await _take(live, owned)

        assert [1] == await done


async def test_a_client_that_leaves_is_forgotten(tmp_path: Path) -> None:
    """Who closes its connection while its command waits is waited for no more."""
    async with _between(tmp_path, _LONG_SECONDS) as (live, _):
        client = await live.client()
        client.send(["GET", "foo"])
        await until(lambda: live.server.holding.count == 1)
        client.close()
        await until(lambda: live.server.holding.count == 0)


async def test_nobody_waits_while_the_server_ends(tmp_path: Path) -> None:
    """What waits when the server ends is answered before its connection is closed."""
    async with _between(tmp_path, _LONG_SECONDS) as (live, _):
        client = await live.client()
        reply = asyncio.create_task(client.call("GET", "foo"))
        await until(lambda: live.server.holding.count == 1)
        await live.server.drain()
        assert _NOBODY == await reply


async def test_what_waits_is_not_answered_by_who_has_lapsed(tmp_path: Path) -> None:
    """A command that has waited in this process while it stood still is not read from a state that may be old."""
    async with _between(tmp_path, 5 * _SHORT_SECONDS) as (live, _):
        client = await live.client()
        client.send(["GET", "foo"], ["GET", "bar"])
        await until(lambda: live.server.holding.count == 1)
        live.server.owns_until = -math.inf
        lapsed = ErrorReply(b"CLUSTERDOWN slotlog is applying its log")
        assert [_NOBODY, lapsed] == [await client.reply(), await client.reply()]


async def test_the_old_owner_sends_on_once_the_new_one_serves(tmp_path: Path) -> None:
    """While the other worker says that it opens the partition, commands wait here; then they are MOVED there."""
    opening = {1}

    async def answer(word: bytes, writer: asyncio.StreamWriter) -> bool:
        beat = wire.Beat("0" * 40, (1,), loading=False, offset=7, failing=(), opening=tuple(opening))
        writer.write(b"+OK\r\n" if word == b"PEER-HELLO" else b"+" + beat.pack() + b"\r\n")
        return True

    async with facing(tmp_path, answer, hold_seconds=_LONG_SECONDS) as live:
        (link,) = live.server.bus.links.values()
        await until(lambda: link.beat is not None)
        client = await live.client()
        reply = asyncio.create_task(client.call("GET", "foo"))
        await until(lambda: live.server.holding.count == 1)
        opening.clear()

        assert ErrorReply(b"MOVED 12182 %s:%d" % (link.node.host.encode(), link.node.port)) == await reply


async def test_it_lingers_while_clients_come(tmp_path: Path) -> None:
    """A server that ends waits as long as clients send something, and no longer than until they have been quiet."""
    async with _between(tmp_path, 0.0) as (live, _):
        await live.server.linger()  # at once, as nobody is there
        client = await live.client()
        await client.call("GET", "foo")
        lingering = asyncio.create_task(live.server.linger())
        await asyncio.sleep(_SHORT_SECONDS)
        assert not lingering.done()
        assert _NOBODY == await client.call("GET", "foo")
        await lingering

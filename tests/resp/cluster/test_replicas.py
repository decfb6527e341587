"""Reads of partitions that a worker follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from resp.cluster.topology import ClusterMap
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import Live, event, serving, until
from tests.wire.client import Client

_OWNER: Final = ("10.0.0.9", 6379)
_MOVED: Final = ErrorReply(b"MOVED 12182 10.0.0.9:6379")
_OK: Final = SimpleString(b"OK")


@asynccontextmanager
async def _following(tmp_path: Path) -> AsyncIterator[Live]:
    """A worker that owns partition 0 and follows partition 1, in which `foo` is, of another one."""
    async with serving(tmp_path, partitions=2, settings={"replica_address": ("127.0.0.1", 0)}) as live:
        server = live.server
        me = server.cluster.me.address
        owned = server.pipelines.pop(1).owned
        server.refresh()
        owned.begin_serving_nobody()
        replica = "127.0.0.1", server.replica_port
        server.follow(ClusterMap.of_group(2, me, {0: me, 1: _OWNER}, [_OWNER], {1: [me]}, {me: replica}))
        server.serve_reads(1, owned, 0)
        yield live


async def _append(live: Live, *words: str) -> None:
    """What the owner writes."""
    await live.log.append([event(*words, partitions=2, key=b"foo")])
    end = await live.log.end_offset(1)
    await until(lambda: live.server.replicas[1].answers_at == end)


async def test_a_replica_answers_who_may_read_old_values(tmp_path: Path) -> None:
    """READONLY allows reads, in transactions too, until READWRITE or RESET; writes and all others' reads are moved."""
    async with _following(tmp_path) as live:
        await _append(live, "SET", "foo", "1")
        client = await live.client()
        assert [_MOVED, _OK, _MOVED] == [
            await client.call(*each) for each in (["GET", "foo"], ["READONLY"], ["GET", "foo"])
        ]
        live.server.replicas[1].heard(1)

        assert [b"1", [b"1", None], _MOVED, _MOVED] == [
            await client.call("GET", "foo"),
            await client.call("MGET", "foo", "{foo}2"),
            await client.call("INCR", "foo"),
            await client.call("WATCH", "foo"),
        ]
        for words in (["MULTI"], ["GET", "foo"], ["STRLEN", "foo"]):
            await client.call(*words)
        assert [b"1", 1] == await client.call("EXEC")
        assert b"flags=r" in await client.call("CLIENT", "LIST", "ID", str(await client.call("CLIENT", "ID")))
        await client.call("READWRITE")
        assert _MOVED == await client.call("GET", "foo")
        await client.call("READONLY")
        await client.call("RESET")
        assert _MOVED == await client.call("GET", "foo")


async def test_caches_are_of_the_owner(tmp_path: Path) -> None:
    """A client that tracks what it reads is sent to the owner, who can tell it of changes."""
    async with _following(tmp_path) as live:
        live.server.replicas[1].heard(0)
        client = await live.client()
        for words in (["HELLO", "3"], ["READONLY"]):
            await client.call(*words)
        assert None is await client.call("GET", "foo")
        await client.call("CLIENT", "TRACKING", "ON")
        assert _MOVED == await client.call("GET", "foo")


async def test_a_replica_reads_by_the_clock_of_the_log(tmp_path: Path) -> None:
    """A key that is due by the wall clock alone is there until the log says a later time, and no TICK is appended."""
    async with _following(tmp_path) as live:
        await _append(live, "SET", "foo", "1", "PX", "1")
        live.server.replicas[1].heard(0)
        client = await live.client()
        await client.call("READONLY")
        await asyncio.sleep(0.05)

        assert b"1" == await client.call("GET", "foo")
        assert 1 == await live.log.end_offset(1)
        await _append(live, "TICK")
        assert None is await client.call("GET", "foo")


async def test_a_replica_speaks_of_what_it_follows(tmp_path: Path) -> None:
    """At the replica's address commands without a key, INFO, ROLE and CLUSTER are those of a replica of the owner."""
    async with _following(tmp_path) as live:
        server = live.server
        server.replicas[1].heard(0)
        await _append(live, "SET", "foo", "1")
        await live.ask("SET", "bar", "of the other partition: {b}")
        here, there = await live.client(), await Client.connect(("127.0.0.1", server.replica_port))
        mine = server.cluster.listed[0]
        refused = ErrorReply(b"READONLY You can't write against a read only replica.")

        assert [b"foo"] == await there.call("KEYS", "*")
        assert (1, refused) == (await there.call("DBSIZE"), await there.call("FLUSHALL"))
        assert [b"slave", b"10.0.0.9", 6379, b"connected", 1] == await there.call("ROLE")
        assert [b"master", b"slave"] == [(await each.call("ROLE"))[0] for each in (here, there)]
        assert b"role:slave\r\nmaster_host:10.0.0.9" in await there.call("INFO", "replication")
        assert [mine.node_id.encode(), server.cluster.me.node_id.encode()] == [
            await each.call("CLUSTER", "MYID") for each in (there, here)
        ]
        assert mine.master.shard_id.encode() == await there.call("CLUSTER", "MYSHARDID")
        entry = (await here.call("CLUSTER", "SLOTS"))[1]
        assert [[b"10.0.0.9", 6379], [b"127.0.0.1", server.replica_port]] == [each[:2] for each in entry[2:]]
        (line,) = await here.call("CLUSTER", "REPLICAS", mine.master.node_id)
        assert line.startswith(mine.node_id.encode() + b" 127.0.0.1:%d@0 slave " % server.replica_port)
        assert [line] == await here.call("CLUSTER", "SLAVES", mine.master.node_id)
        assert ErrorReply(b"ERR The specified node is not a master") == (
            await here.call("CLUSTER", "REPLICAS", mine.node_id)
        )
        shard = (await here.call("CLUSTER", "SHARDS"))[1]
        assert [b"master", b"replica"] == [node[node.index(b"role") + 1] for node in shard[3]]
        there.close()


async def test_what_was_shown_is_not_taken_back(tmp_path: Path) -> None:
    """A state that is behind what clients have seen, as one that was restored, answers when it is there again."""
    async with _following(tmp_path) as live:
        await _append(live, "SET", "foo", "1")
        owned = live.server.replicas[1].owned
        live.server.end_reads(1)
        live.server.serve_reads(1, owned, 2)
        live.server.replicas[1].heard(1)
        client = await live.client()
        await client.call("READONLY")
        assert _MOVED == await client.call("GET", "foo")
        await _append(live, "SET", "foo", "2")
        assert b"2" == await client.call("GET", "foo")


async def test_who_waits_for_a_position_hears_of_the_end(tmp_path: Path) -> None:
    """SLOTLOG WAITFOR waits at a replica, and has an error when the partition is not followed any more."""
    async with _following(tmp_path) as live:
        await _append(live, "SET", "foo", "1")
        client = await live.client()
        assert 1 == await client.call("SLOTLOG", "WAITFOR", "1", "0", "0")
        client.send(["SLOTLOG", "WAITFOR", "1", "7", "0"])
        await until(lambda: any(each.waits or each.task for each in live.server.sessions.values()))
        live.server.end_reads(1)
        assert ErrorReply(b"UNBLOCKED another worker owns the partition now") == await client.reply()


async def test_wait_counts_standbys(tmp_path: Path) -> None:
    """WAIT and WAITAOF count the followers that have everything; with a timeout of 0 they do not wait for more."""
    async with _following(tmp_path) as live:
        server = live.server
        me = server.cluster.me.address
        assert [0, 0, [1, 0]] == [
            await live.ask("WAIT", "1", "0"),
            await live.ask("WAIT", "1", "20"),
            await live.ask("WAITAOF", "1", "1", "20"),
        ]
        server.follow(ClusterMap.of_group(2, me, {0: me, 1: _OWNER}, [_OWNER], {0: [_OWNER]}))
        offsets = {_OWNER: 0}
        server.bus.peers.followed_to = lambda worker, _: offsets[worker.address]  # type: ignore[method-assign,assignment]
        await live.ask("SET", "bar", "1")
        assert [0, 0] == [await live.ask("WAIT", "0", "0"), await live.ask("WAIT", "1", "20")]
        client = await live.client()
        client.send(["WAIT", "1", "0"])
        await until(lambda: any(each.task for each in server.sessions.values()))
        offsets[_OWNER] = server.pipelines[0].machine.next_offset
        assert 1 == await client.reply()

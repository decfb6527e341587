"""Several servers and writers on one log, one after the other and at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, cast

import pytest

from engine.store.memory import MemoryStore
from resp.server import Server
from resp.settings.startup import RespSettings
from slotlog.log import Log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.shared.slots import partition_of, slot
from tests.real.oracle import SimpleString
from tests.resp.harness import FAMILIES, TOPIC, PlayedLog, event, pipeline, replies, serving, until
from tests.resp.host import Process

OK: Final = SimpleString(b"OK")


async def test_the_next_server_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    """On the same state, or on a new one that it makes from the log: everything acknowledged is there."""
    stores = {0: MemoryStore(FAMILIES)}
    async with serving(tmp_path, stores=stores) as live:
        await pipeline(await live.client(), "SET a 1", "INCR a", "RPUSH q x", "MULTI", "INCR a", "EXEC")
        before = live.digest()
    for kept in (stores, {0: MemoryStore(FAMILIES)}):
        async with serving(tmp_path, stores=kept) as live:
            await until(lambda: live.server.pipelines[0].refusal(write=True) is None)
            got = await pipeline(await live.client(), "GET a", "LRANGE q 0 -1")
            assert ([b"3", [b"x"]], before) == (got, live.digest())


async def test_two_workers_of_one_log(tmp_path: Path) -> None:
    """Each owns half of the partitions and appends to the same file at the same time: each write is applied once."""
    keys = [f"k{number}" for number in range(200)]
    async with serving(tmp_path, partitions=2, own=(0,)) as low, serving(tmp_path, partitions=2, own=(1,)) as high:
        for live in (low, high):
            live.server.active_expire = False
        clients = [await low.client(), await high.client()]
        owner = {key: partition_of(slot(key.encode()), 2) for key in keys}
        for key in keys * 2:
            clients[owner[key]].send(["INCR", key])
        counts = [2 * sum(1 for key in keys if owner[key] == number) for number in (0, 1)]
        got = [await replies(client, count) for client, count in zip(clients, counts, strict=True)]

        assert [sorted([1, 2] * (count // 2)) for count in counts] == [sorted(numbers) for numbers in got]
        assert [await low.replayed_digest(), await high.replayed_digest()] == [low.digest(), high.digest()]


async def test_beside_a_busy_writer(tmp_path: Path) -> None:
    """Another process that appends all the time delays nothing for ever, and its events stand between ours."""
    foreign, own = 400, 300
    async with serving(tmp_path) as live:
        other = EmbeddedLog(tmp_path / "log.db", topic=TOPIC, partitions=1)
        await other.start()

        async def write() -> None:
            for _ in range(foreign // 4):
                await other.append([event("INCR", "n")] * 4)

        writing = asyncio.create_task(write())
        client = await live.client()
        got = []
        for _ in range(own // 10):
            client.send(*[["INCR", "n"]] * 10)
            got += await replies(client, 10)
        await writing
        await other.close()
        replayed = await live.replayed_digest()

        assert sorted(set(got)) == got
        assert b"%d" % (foreign + own) == await client.call("GET", "n")
        assert replayed == live.digest()


async def test_closing_ends_every_connection(tmp_path: Path) -> None:
    """Whatever its client does: idle, blocked, subscribed, in a transaction."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(4)]
        await clients[0].call("PING")
        clients[1].send(["BLPOP", "q", "0"])
        await clients[2].call("SUBSCRIBE", "x")
        await pipeline(clients[3], "WATCH a", "MULTI", "SET a 1")
        await until(lambda: len(live.server.blocked.waiters) == 1)
        await live.server.close()
        await until(lambda: not live.server.sessions)
        ended = []
        for client in clients:
            try:
                await client.reply()
            except ConnectionError:
                ended.append(client)

    assert clients == ended


def _repeat(log: PlayedLog) -> None:
    log.repeats = True


async def test_a_reader_that_gives_everything_again(tmp_path: Path) -> None:
    """Own records that the log's reader gives although they were passed by, as Kafka's may, change nothing."""
    async with serving(tmp_path, prepare=_repeat) as live:
        client = await live.client()
        got = []
        for _ in range(20):
            got += await pipeline(client, "INCR n", "GET n")
            await live.log.append_as_another(event("INCR", "n"))
        await until(lambda: live.server.pipelines[0].machine.next_offset == 40)

        assert b"40" == await client.call("GET", "n")
        assert sorted(set(got[::2])) == got[::2]
        assert await live.replayed_digest() == live.digest()


@pytest.mark.parametrize("everywhere", ["", "0.0.0.0", "::"])  # noqa: S104 - on a free port, at once closed
async def test_all_addresses_are_announced_as_none(everywhere: str) -> None:
    """Listening on all addresses, a worker tells clients its port alone: they stay with the host that they asked."""
    settings = RespSettings(address=(everywhere, 0), partitions=2, own=(0, 1))
    server = Server(settings, Process(), cast("Log", None))
    await server.start()
    announced, port = server.cluster.me.address, server.port
    await server.close()

    assert ("", port) == announced

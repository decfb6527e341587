"""redis-py on asyncio: both protocols, many at once, and its cluster client.

Clients are annotated as Any: redis-py types the methods of a pipeline as replies, which here are the pipeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis import ResponseError, WatchError
from redis.asyncio import Redis, RedisCluster
from redis.client import NEVER_DECODE

from tests.clients.scenario import CLUSTER, STANDALONE, Pusher


@pytest.fixture(params=[2, 3])
async def client(port: int, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """A client that speaks RESP2 or RESP3, decodes replies, and has an empty database 2."""
    async with Redis(port=port, db=2, protocol=request.param, decode_responses=True) as client:
        await client.flushdb()
        yield client


async def test_client(client: Any, port: int) -> None:
    """The client sees what the scenario says, on either protocol."""
    prefix = f"redis-py-async-{client.get_connection_kwargs()['protocol']}:"
    seen: dict[str, Any] = {}
    await _data(client, prefix, seen)
    await _pipelines(client, prefix, seen)
    with Pusher([port], f"{prefix}queue", db=2):
        popped = await client.blpop([f"{prefix}queue"], 20)
    seen["blocking_pop"] = popped and popped[1]
    seen["timed_out_pop"] = await client.blpop([f"{prefix}empty"], 0.1)
    seen["message"] = await _message(client, f"{prefix}channel")
    seen["scanned"] = sorted([key.removeprefix(prefix) async for key in client.scan_iter(f"{prefix}*")])

    assert STANDALONE == seen


async def test_connections_at_once(client: Any) -> None:
    """Fifty connections that count and read the same key at once see each number once, and never an older one."""

    async def count() -> list[int]:
        counts = []
        for _ in range(20):
            counts.append(await client.incr("count"))
            seen = int(await client.get("count"))
            assert seen >= counts[-1]
        return counts

    counted = await asyncio.gather(*(count() for _ in range(50)))

    assert list(range(1, 1001)) == sorted(number for counts in counted for number in counts)
    assert [True] * 50 == [counts == sorted(counts) for counts in counted]


async def test_cluster_client(cluster_ports: list[int]) -> None:
    """The cluster client finds the owner of each slot: it sees the scenario, and both nodes have got keys of it."""
    prefix = "redis-py-async-cluster:"
    async with RedisCluster(port=cluster_ports[0], host="127.0.0.1", decode_responses=True) as cluster:
        seen = await _cluster(cluster, prefix, cluster_ports)
        sizes = [await cluster.dbsize(target_nodes=node) for node in cluster.get_primaries()]

    assert CLUSTER == seen
    assert [True, True] == [size > 0 for size in sizes]


async def _data(client: Any, prefix: str, seen: dict[str, Any]) -> None:
    await client.set(f"{prefix}text", "Grüße, Ada")
    seen["text"] = await client.get(f"{prefix}text")
    seen["missing"] = await client.get(f"{prefix}missing")

    await client.set(f"{prefix}bytes", b"\x00\xff\r\n")
    seen["bytes"] = (await client.execute_command("GET", f"{prefix}bytes", **{NEVER_DECODE: True})).hex()

    await client.hset(f"{prefix}hash", mapping={"name": "Ada", "born": "1815"})
    seen["hash"] = await client.hgetall(f"{prefix}hash")

    await client.sadd(f"{prefix}set", "x", "y", "x")
    seen["members"] = sorted(await client.smembers(f"{prefix}set"))

    await client.zadd(f"{prefix}zset", {"first": 1.5, "second": 2})
    seen["ranking"] = [list(entry) for entry in await client.zrange(f"{prefix}zset", 0, -1, withscores=True)]

    await client.expireat(f"{prefix}text", 4102444800)
    seen["expires_at"] = await client.expiretime(f"{prefix}text")
    with pytest.raises(ResponseError) as error:
        await client.lpush(f"{prefix}text", "x")
    seen["error"] = str(error.value)


async def _pipelines(client: Any, prefix: str, seen: dict[str, Any]) -> None:
    number = f"{prefix}number"
    async with client.pipeline(transaction=False) as pipeline:
        for _ in range(1000):
            pipeline.incr(f"{prefix}counter")
        counts = await pipeline.execute()
    seen["pipeline"] = [sum(counts), counts[-1]]

    async with client.pipeline() as transaction:
        seen["transaction"] = await transaction.incrby(number, 40).incrby(number, 2).get(number).execute()

    async with client.pipeline() as transaction:
        await transaction.watch(number)
        transaction.multi()
        seen["watch_kept"] = await transaction.incr(number).execute()

        await transaction.watch(number)
        await client.set(number, 1)
        transaction.multi()
        with pytest.raises(WatchError):
            await transaction.incr(number).execute()
    seen["watch_lost"] = await client.get(number)


async def _message(client: Any, channel: str) -> Any:
    async with client.pubsub() as subscription:
        await subscription.subscribe(channel)
        await subscription.get_message(timeout=60)  # the confirmation
        await client.publish(channel, "hello")
        message = await subscription.get_message(timeout=60)
        return message and message["data"]


async def _cluster(cluster: Any, prefix: str, ports: list[int]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    names = [f"{prefix}{number}" for number in range(200)]
    for number, name in enumerate(names):
        await cluster.set(name, number)
    seen["sum"] = sum([int(await cluster.get(name)) for name in names])

    async with cluster.pipeline() as pipeline:
        for number in range(100):
            pipeline.incr(f"{prefix}counter{number}")
        seen["pipeline"] = sum(await pipeline.execute())

    counter = f"{{{prefix}}}number"
    async with cluster.pipeline(transaction=True) as transaction:
        seen["transaction"] = await transaction.incrby(counter, 40).incrby(counter, 2).get(counter).execute()

    queue = f"{{{prefix}}}queue"
    with Pusher(ports, queue):
        popped = await cluster.blpop([queue], 20)
    seen["blocking_pop"] = popped and popped[1]
    return seen

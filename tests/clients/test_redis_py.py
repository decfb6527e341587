"""redis-py, blocking: both protocols, and its cluster client.

Clients are annotated as Any: redis-py types the methods of a pipeline as replies, which here are the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.clients.scenario import CLUSTER, STANDALONE, Pusher


@pytest.fixture(params=[2, 3])
def client(port: int, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client that speaks RESP2 or RESP3, decodes replies, and has an empty database 1."""
    with redis.Redis(port=port, db=1, protocol=request.param, decode_responses=True) as client:
        client.flushdb()
        yield client


def test_client(client: Any, port: int) -> None:
    """The client sees what the scenario says, on either protocol."""
    prefix = f"redis-py-{client.get_connection_kwargs()['protocol']}:"
    seen: dict[str, Any] = {}
    _data(client, prefix, seen)
    _pipelines(client, prefix, seen)
    with Pusher([port], f"{prefix}queue", db=1):
        popped = client.blpop([f"{prefix}queue"], 20)
    seen["blocking_pop"] = popped and popped[1]
    seen["timed_out_pop"] = client.blpop([f"{prefix}empty"], 0.1)
    seen["message"] = _message(client, f"{prefix}channel")
    seen["scanned"] = sorted(key.removeprefix(prefix) for key in client.scan_iter(f"{prefix}*"))

    assert STANDALONE == seen


def test_cluster_client(cluster_ports: list[int]) -> None:
    """The cluster client finds the owner of each slot: it sees the scenario, and both nodes have got keys of it."""
    prefix = "redis-py-cluster:"
    with redis.RedisCluster(port=cluster_ports[0], host="127.0.0.1", decode_responses=True) as cluster:
        seen = _cluster(cluster, prefix, cluster_ports)
        sizes = [cluster.dbsize(target_nodes=node) for node in cluster.get_primaries()]

    assert CLUSTER == seen
    assert [True, True] == [size > 0 for size in sizes]


def _data(client: Any, prefix: str, seen: dict[str, Any]) -> None:
    client.set(f"{prefix}text", "Grüße, Ada")
    seen["text"] = client.get(f"{prefix}text")
    seen["missing"] = client.get(f"{prefix}missing")

    client.set(f"{prefix}bytes", b"\x00\xff\r\n")
    seen["bytes"] = client.execute_command("GET", f"{prefix}bytes", **{redis.client.NEVER_DECODE: True}).hex()

    client.hset(f"{prefix}hash", mapping={"name": "Ada", "born": "1815"})
    seen["hash"] = client.hgetall(f"{prefix}hash")

    client.sadd(f"{prefix}set", "x", "y", "x")
    seen["members"] = sorted(client.smembers(f"{prefix}set"))

    client.zadd(f"{prefix}zset", {"first": 1.5, "second": 2})
    seen["ranking"] = [list(entry) for entry in client.zrange(f"{prefix}zset", 0, -1, withscores=True)]

    client.expireat(f"{prefix}text", 4102444800)
    seen["expires_at"] = client.expiretime(f"{prefix}text")
    with pytest.raises(redis.ResponseError) as error:
        client.lpush(f"{prefix}text", "x")
    seen["error"] = str(error.value)


def _pipelines(client: Any, prefix: str, seen: dict[str, Any]) -> None:
    number = f"{prefix}number"
    with client.pipeline(transaction=False) as pipeline:
        for _ in range(1000):
            pipeline.incr(f"{prefix}counter")
        counts = pipeline.execute()
    seen["pipeline"] = [sum(counts), counts[-1]]

    with client.pipeline() as transaction:
        seen["transaction"] = transaction.incrby(number, 40).incrby(number, 2).get(number).execute()

    with client.pipeline() as transaction:
        transaction.watch(number)
        transaction.multi()
        seen["watch_kept"] = transaction.incr(number).execute()

        transaction.watch(number)
        client.set(number, 1)
        transaction.multi()
        with pytest.raises(redis.WatchError):
            transaction.incr(number).execute()
    seen["watch_lost"] = client.get(number)


def _message(client: Any, channel: str) -> Any:
    with client.pubsub() as subscription:
        subscription.subscribe(channel)
        subscription.get_message(timeout=60)  # the confirmation
        client.publish(channel, "hello")
        message = subscription.get_message(timeout=60)
        return message and message["data"]


def _cluster(cluster: Any, prefix: str, ports: list[int]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    names = [f"{prefix}{number}" for number in range(200)]
    for number, name in enumerate(names):
        cluster.set(name, number)
    seen["sum"] = sum(int(cluster.get(name)) for name in names)

    with cluster.pipeline() as pipeline:
        for number in range(100):
            pipeline.incr(f"{prefix}counter{number}")
        seen["pipeline"] = sum(pipeline.execute())

    counter = f"{{{prefix}}}number"
    with cluster.pipeline(transaction=True) as transaction:
        seen["transaction"] = transaction.incrby(counter, 40).incrby(counter, 2).get(counter).execute()

    queue = f"{{{prefix}}}queue"
    with Pusher(ports, queue):
        popped = cluster.blpop([queue], 20)
    seen["blocking_pop"] = popped and popped[1]
    return seen

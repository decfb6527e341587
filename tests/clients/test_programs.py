"""Clients of other languages, each a small program of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.clients.programs import go, java, node
from tests.clients.scenario import CACHED, CLUSTER, STANDALONE, Pusher

Program = Callable[[str, int, str], Any]


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (node, "node_redis.js"),
        (node, "ioredis.js"),
        (go, "standalone"),
        (java, "JedisStandalone.java"),
        (java, "LettuceStandalone.java"),
    ],
)
def test_client(port: int, program: Program, name: str) -> None:
    """The client sees what the scenario says: data, errors, pipelines, transactions, blocking pops, messages, scans."""
    prefix = f"{name}:"
    with Pusher([port], f"{prefix}queue"):
        seen = program(name, port, prefix)

    assert STANDALONE == seen


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (node, "node_redis_cluster.js"),
        (node, "ioredis_cluster.js"),
        (go, "cluster"),
        (java, "JedisCluster.java"),
        (java, "LettuceCluster.java"),
    ],
)
def test_cluster_client(cluster_ports: list[int], program: Program, name: str) -> None:
    """The cluster client finds the owner of each slot: it sees the scenario, and both nodes have got keys of it."""
    prefix = f"{name}:"
    with Pusher(cluster_ports, f"{{{prefix}}}queue"):
        seen = program(name, cluster_ports[0], prefix)

    assert CLUSTER == seen
    assert [True, True] == [_has_keys(port, prefix) for port in cluster_ports]


@pytest.mark.parametrize(("program", "name"), [(node, "node_redis_caching.js"), (go, "caching")])
def test_client_with_a_cache(port: int, program: Program, name: str) -> None:
    """The client reads from its cache, and learns of every change, also in a cache that its own write makes old."""
    assert CACHED == program(name, port, f"{name}:")


def _has_keys(port: int, prefix: str) -> bool:
    with redis.Redis(port=port) as client:
        return any(client.scan_iter(f"{prefix}*"))

"""The settings of a service, divided among its processes."""

from __future__ import annotations

from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from ops.config import ConfigError, Settings
from ops.serving.processes.shares import shares

MIB = 1024 * 1024


def settings(**given: Any) -> Settings:
    """Those of a service with four partitions and two processes, unless told otherwise."""
    return Settings(**{"data": Path("d"), "partitions": 4, "processes": 2, "resp": "127.0.0.1:6379", **given})


def test_each_has_a_run_of_the_partitions_and_a_port_of_its_own() -> None:
    """Partitions are divided evenly, ports count up, and the list of peers names every process."""
    parts = shares(settings(resp="10.0.0.1:7000", partitions=5, processes=3))

    assert ["0", "1,2", "3,4"] == [part.own for part in parts]
    assert ["10.0.0.1:7000", "10.0.0.1:7001", "10.0.0.1:7002"] == [part.resp for part in parts]
    peers = "0=10.0.0.1:7000,1=10.0.0.1:7001,2=10.0.0.1:7001,3=10.0.0.1:7002,4=10.0.0.1:7002"
    assert {peers} == {part.redis.peers for part in parts}
    assert {1} == {part.processes for part in parts}


def test_the_share_of_a_service_is_divided() -> None:
    """Where the service has some of the partitions only, those are divided, and its peers stay in the list."""
    parts = shares(settings(own_of="1/2", partitions=8, redis={"peers": "0-3=10.0.0.1:6379"}))

    assert ["4,5", "6,7"] == [part.own for part in parts]
    assert [[4, 5], [6, 7]] == [part.owned for part in parts]
    peers = "0-3=10.0.0.1:6379,4=127.0.0.1:6379,5=127.0.0.1:6379,6=127.0.0.1:6380,7=127.0.0.1:6380"
    assert peers == parts[0].redis.peers


def test_memory_and_rates_are_divided() -> None:
    """All processes together take what the settings say; a rate without a limit stays without one."""
    given = {
        "cache_bytes": 64 * MIB,
        "memtable_bytes": 8 * MIB,
        "key_cache_bytes": 48 * MIB,
        "compaction_bytes_per_s": 10,
        "log_scrub_bytes_per_s": 1,
    }
    (first, second) = shares(settings(**given))

    assert (32 * MIB, 8 * MIB, 24 * MIB, 5, 1, 0) == (
        first.cache_bytes,
        first.memtable_bytes,  # RocksDB takes no less
        first.key_cache_bytes,
        first.compaction_bytes_per_s,
        first.log_scrub_bytes_per_s,
        first.reclaim_elements_per_s,
    )
    assert first.cache_bytes == second.cache_bytes


def test_clients_are_told_the_announced_address() -> None:
    """With `announce` clients and processes use its host, and ports that count up from its port."""
    parts = shares(settings(resp="0.0.0.0:6379", redis={"announce": "[::1]:16379"}))

    assert ["[::1]:16379", "[::1]:16380"] == [part.redis.announce for part in parts]
    assert ["0.0.0.0:6379", "0.0.0.0:6380"] == [part.resp for part in parts]
    assert "0=[::1]:16379,1=[::1]:16379,2=[::1]:16380,3=[::1]:16380" == parts[0].redis.peers


def test_tls_has_ports_of_its_own() -> None:
    """The TLS ports count up too, and with `tls_cluster` the list of peers has those."""
    parts = shares(settings(redis={"tls": "10.0.0.1:7379", "tls_cluster": True}))

    assert ["10.0.0.1:7379", "10.0.0.1:7380"] == [part.redis.tls for part in parts]
    assert "0=10.0.0.1:7379,1=10.0.0.1:7379,2=10.0.0.1:7380,3=10.0.0.1:7380" == parts[1].redis.peers


def test_without_redis_clients_there_are_no_peers() -> None:
    """A service that only applies the log needs neither ports nor peers."""
    parts = shares(settings(resp=""))

    assert [("", "", "0,1"), ("", "", "2,3")] == [(part.resp, part.redis.peers, part.own) for part in parts]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"processes": 5}, "--processes 5 needs as many partitions, and this service has 4"),
        ({"own": "3"}, "--processes 2 needs as many partitions, and this service has 1"),
        ({"resp": "127.0.0.1:0"}, "resp: '127.0.0.1:0' needs a port from 1"),
        ({"resp": "127.0.0.1:65535"}, "resp: '127.0.0.1:65535' needs a port from 1"),
        ({"redis": {"tls": "127.0.0.1:0"}}, "tls: '127.0.0.1:0' needs a port from 1"),
        ({"resp": "0.0.0.0:6379"}, "set SLOTLOG_REDIS__ANNOUNCE to HOST:PORT"),
        ({"redis": {"peers": "0-1"}}, "peers: '0-1' is not PARTITIONS=HOST:PORT"),
    ],
)
def test_what_cannot_be_divided_is_refused(given: dict[str, Any], text: str) -> None:
    """The error names the setting, and says what it needs."""
    with pytest.raises(ConfigError) as refused:
        shares(settings(**given))

    assert text in str(refused.value)


def test_processes_of_a_group_are_members_of_their_own() -> None:
    """Each has its own data directory, ports and instance, no partitions, and the zone that is told or the machine."""
    redis = {"replica": "127.0.0.1:6479", "announce": "10.0.0.1:6379"}
    group = {"name": "g", "instance": "host"}
    first, second = shares(settings(redis=redis, group=group, partitions=1))
    (zoned, _) = shares(settings(group={"name": "g", "zone": "b"}))

    assert (Path("d/process-0"), Path("d/process-1")) == (first.data, second.data)
    assert ("127.0.0.1:6380", "127.0.0.1:6480", "10.0.0.1:6380") == (
        second.resp,
        second.redis.replica,
        second.redis.announce,
    )
    assert ("host-0", "host-1", "") == (first.group.instance, second.group.instance, zoned.group.instance)
    assert (gethostname(), "b") == (first.group.zone, zoned.group.zone)
    assert ("", "") == (first.own, first.redis.peers)

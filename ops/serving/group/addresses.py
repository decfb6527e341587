"""Tells under which addresses a worker is reached, and which worker of a group has which partition."""

from __future__ import annotations

from ingest.membership import Plan
from ops.addresses import parse_address
from ops.config import Settings
from resp.cluster.topology import ALL_ADDRESSES, ClusterMap
from resp.server import Server


def addresses_of(settings: Settings, server: Server | None) -> tuple[str, str, str]:
    """Where clients reach this worker, it as a replica, and its sentinel; empty where they do not."""
    if server is None:
        return "", "", ""
    resp, redis = "{}:{}".format(*_shown(server.cluster.me.address)), settings.redis
    replica = _address_beside(resp, redis.replica, server.replica_port)
    return resp, replica, _address_beside(resp, redis.sentinel, server.sentinel_port)


def map_of(plan: Plan, settings: Settings, own_name: str, server: Server) -> ClusterMap:
    """What a plan makes of the cluster, for the clients of the worker of this name."""
    members, me = plan.members, server.cluster.me.address
    addresses = {name: parse_address(each.resp) for name, each in members.items() if each.resp}
    addresses[own_name] = me
    owners = {partition: addresses[name] for partition, name in plan.owners.items() if name in addresses}
    standbys = {
        partition: [addresses[name] for name in names if name in addresses]
        for partition, names in plan.standbys.items()
    }
    if settings.partitions == 1:  # each is the owner or a replica, and so one node
        replicas = {address: address for address in addresses.values()}
    else:
        replicas = {addresses[name]: parse_address(each.replica) for name, each in members.items() if each.replica}
    sentinels = {addresses[name]: parse_address(each.sentinel) for name, each in members.items() if each.sentinel}
    others = list(addresses.values())
    return ClusterMap.of_group(settings.partitions, me, owners, others, standbys, replicas, sentinels)


def _address_beside(resp: str, address: str, port: int) -> str:
    """Where clients reach another port of the worker; where `address` names no host, at that of `resp`."""
    if not port:
        return ""
    host, _ = parse_address(address)
    return f"{resp.rpartition(':')[0] if host in ALL_ADDRESSES else _bracketed(host)}:{port}"


def _shown(address: tuple[str, int]) -> tuple[str, int]:
    host, port = address
    return _bracketed(host), port


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

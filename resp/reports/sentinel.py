"""Redis instances as a Sentinel describes them: the master, its replicas, the other Sentinels.

Source: `addReplySentinelRedisInstance` in Redis' sentinel.c. What the group decides has no number there: the quorum is
most of the workers, and the epoch of a configuration is always 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.values.replies import Map
from resp.cluster.nodes import NodeHealth, node_name
from resp.reports.info import REDIS_VERSION
from resp.reports.info_commands import Fields
from slotlog.clock import now_ms

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.clients.shared import Shared
    from resp.cluster.nodes import Node, Replica
    from resp.settings.startup import Address

_DOWN_FLAGS = {NodeHealth.ONLINE: "", NodeHealth.SUSPECTED: ",s_down", NodeHealth.FAILED: ",s_down,o_down"}


def master_fields(server: Shared[Session], master: Node) -> Map:
    """The master."""
    sentinel = server.sentinel
    return _map(
        (
            *_instance(server, sentinel.name, master.address, master, "master"),
            *_role(server, "master"),
            ("config-epoch", 0),
            ("num-slaves", len(sentinel.replicas)),
            ("num-other-sentinels", len(sentinel.others)),
            ("quorum", quorum(server)),
            ("failover-timeout", _down_after_ms(server)),
            ("parallel-syncs", 1),
        )
    )


def replica_fields(server: Shared[Session], replica: Replica) -> Map:
    """A replica."""
    host, port = replica.address
    seen = server.bus.peers.seen_replica(replica)
    is_up = not seen.loading and seen.health is NodeHealth.ONLINE
    return _map(
        (
            *_instance(server, f"{host}:{port}", replica.address, replica.worker, "slave"),
            *_role(server, "slave"),
            ("master-link-down-time", 0 if is_up else _silent_ms(server, replica.worker)),
            ("master-link-status", "ok" if is_up else "err"),
            ("master-host", replica.master.host),
            ("master-port", replica.master.port),
            ("slave-priority", 100),
            ("slave-repl-offset", seen.offset),
            ("replica-announced", 1),
        )
    )


def sentinel_fields(server: Shared[Session], address: Address, worker: Node) -> Map:
    """Another Sentinel."""
    return _map(
        (
            *_instance(server, node_name(address, "sentinel"), address, worker, "sentinel"),
            ("last-hello-message", _silent_ms(server, worker)),
            ("voted-leader", "?"),
            ("voted-leader-epoch", 0),
        )
    )


def quorum(server: Shared[Session]) -> int:
    """How many workers have to agree."""
    return (len(server.sentinel.others) + 1) // 2 + 1


def sentinel_info(server: Shared[Session]) -> str:
    """What INFO answers at a Sentinel's address."""
    sentinel, master = server.sentinel, server.sentinel.master
    fields: Fields = iter(
        (
            ("redis_version", REDIS_VERSION),
            ("redis_mode", "sentinel"),
            ("run_id", server.run_id),
            ("tcp_port", server.sentinel_port),
        )
    )
    masters = []
    if master is not None:
        health, (host, port) = sentinel.health(master), master.address
        status = {NodeHealth.ONLINE: "ok", NodeHealth.SUSPECTED: "sdown", NodeHealth.FAILED: "odown"}[health]
        counts = f"slaves={len(sentinel.replicas)},sentinels={len(sentinel.others) + 1}"
        masters = [("master0", f"name={sentinel.name},status={status},address={host}:{port},{counts}")]
    about: Fields = iter((("sentinel_masters", len(masters)), ("sentinel_tilt", 0), *masters))
    return f"# Server\r\n{_lines(fields)}\r\n# Sentinel\r\n{_lines(about)}"


def _lines(fields: Fields) -> str:
    return "".join(f"{name}:{value}\r\n" for name, value in fields)


def _instance(server: Shared[Session], name: str, address: Address, worker: Node, kind: str) -> Fields:
    link = server.bus.links.get(worker.node_id)
    health, silent_ms = server.sentinel.health(worker), _silent_ms(server, worker)
    yield "name", name
    yield "ip", address[0]
    yield "port", address[1]
    yield "runid", server.run_id if link is None else "" if link.beat is None else link.beat.run
    yield "flags", kind + _DOWN_FLAGS[health] + (",disconnected" if link is not None and not link.is_up else "")
    yield "link-pending-commands", int(link is not None and link.asked_ms > 0)
    yield "link-refcount", 1
    yield "last-ping-sent", now_ms() - link.asked_ms if link is not None and link.asked_ms else 0
    yield "last-ok-ping-reply", silent_ms
    yield "last-ping-reply", silent_ms
    if health is not NodeHealth.ONLINE:
        yield "s-down-time", max(0, silent_ms - _down_after_ms(server))
    if health is NodeHealth.FAILED:
        yield "o-down-time", max(0, silent_ms - _down_after_ms(server))
    yield "down-after-milliseconds", _down_after_ms(server)


def _role(server: Shared[Session], role: str) -> Fields:
    """What an instance says of its role: the plan of the group, which all workers have alike."""
    yield "info-refresh", 0
    yield "role-reported", role
    yield "role-reported-time", max(0, now_ms() - server.started_ms)


def _silent_ms(server: Shared[Session], worker: Node) -> int:
    return round(server.bus.peers.heard_seconds(worker) * 1000)


def _down_after_ms(server: Shared[Session]) -> int:
    return round(server.settings.node_timeout_seconds * 1000)


def _map(fields: Iterable[tuple[str, str | int]]) -> Map:
    return Map([(name.encode(), str(value).encode()) for name, value in fields])

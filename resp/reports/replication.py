"""INFO's section `replication`: as an owner with its standbys, or as a replica of one.

A Redis replica has one offset. A standby has one for each partition that it follows: what is shown is its owner's
offset less all that it is behind, so that the difference of the two is its lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resp.cluster.standbys import standbys_of
from resp.reports.info_commands import Fields
from resp.statistics.partitions import applied_offsets

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.clients.shared import Shared

_NO_BACKLOG: Final = (
    ("second_repl_offset", -1),
    *((f"repl_backlog_{name}", 0) for name in ("active", "size", "first_byte_offset", "histlen")),
)


def as_master(server: Shared[Session]) -> Fields:
    """Of an owner, whether it has standbys or not."""
    offset, standbys = applied_offsets(server.pipelines), standbys_of(server)
    yield "role", "master"
    yield "connected_slaves", len(standbys)
    for number, each in enumerate(standbys):
        host, port = each.replica.address
        state = "online" if each.is_online else "wait_bgsave"
        shown = f"ip={host},port={port},state={state},offset={offset - each.lag_offsets}"
        yield f"slave{number}", f"{shown},lag={round(each.heard_seconds)}"
    yield "master_failover_state", "no-failover"
    yield "master_replid", server.run_id
    yield "master_replid2", "0" * 40
    yield "master_repl_offset", offset
    yield from _NO_BACKLOG


def as_replica(server: Shared[Session]) -> Fields:
    """Of a worker as the replica of whose partitions it follows: the first of several owners."""
    cluster, peers = server.cluster, server.bus.peers
    mine = [each for each in cluster.replicas if each.worker is cluster.me]
    offset = applied_offsets(server.replicas)
    yield "role", "slave"
    host, port = mine[0].master.address if mine else ("", 0)
    yield "master_host", host
    yield "master_port", port
    is_up = bool(mine) and all(peers.seen(each.master).connected for each in mine)
    yield "master_link_status", "up" if is_up else "down"
    yield "master_last_io_seconds_ago", round(max((peers.heard_seconds(each.master) for each in mine), default=-1))
    yield "master_sync_in_progress", int(not all(each.is_ready for each in server.replicas.values()))
    yield "slave_read_repl_offset", offset
    yield "slave_repl_offset", offset
    yield "slave_priority", 100
    yield "slave_read_only", 1
    yield "replica_announced", 1
    yield "connected_slaves", 0
    yield "master_failover_state", "no-failover"
    yield "master_replid", server.run_id
    yield "master_replid2", "0" * 40
    yield "master_repl_offset", offset
    yield from _NO_BACKLOG

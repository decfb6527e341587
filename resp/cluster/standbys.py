"""The followers of this worker's partitions: who they are, and how far behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from resp.cluster.bus import Bus
    from resp.cluster.nodes import Replica
    from resp.cluster.topology import ClusterMap
    from resp.writes.write_pipeline import WritePipeline


class Followed(Protocol):
    """A worker whose partitions others may follow.

    Attributes:
        bus: the links to them.
        cluster: who they are.
        pipelines: of the partitions that it owns.
    """

    bus: Bus
    cluster: ClusterMap
    pipelines: dict[int, WritePipeline]


class Standby(NamedTuple):
    """A worker that follows partitions of this one.

    Attributes:
        replica: the worker as a node.
        is_online: whether it answers clients in all of them.
        lag_offsets: how far it is behind, all of them together.
        heard_seconds: how long ago it said so.
    """

    replica: Replica
    is_online: bool
    lag_offsets: int
    heard_seconds: float


def standbys_of(server: Followed) -> list[Standby]:
    """Of a worker; those to whom the link is up."""
    cluster, peers, applied = server.cluster, server.bus.peers, applied_here(server)
    found = []
    for replica in cluster.replicas:
        if replica.master is not cluster.me or not peers.seen(replica.worker).connected:
            continue
        followed = {partition: peers.followed_to(replica.worker, partition) for partition in replica.partitions}
        lag = sum(max(0, applied.get(each, 0) - (offset or 0)) for each, offset in followed.items())
        is_online = None not in followed.values()
        found.append(Standby(replica, is_online, lag, peers.heard_seconds(replica.worker)))
    return found


def applied_here(server: Followed) -> dict[int, int]:
    """The offset before which this worker has applied everything, of each partition that it owns."""
    positions = {partition: pipeline.owned.committed for partition, pipeline in server.pipelines.items()}
    return {partition: position.next_offset for partition, position in positions.items() if position is not None}


def standbys_at(server: Followed, offsets: dict[int, int]) -> int:
    """How many standbys have applied everything before these offsets, by partition: of the fewest where they differ."""
    peers, standbys = server.bus.peers, server.cluster.standbys
    counts = [
        sum((peers.followed_to(worker, partition) or -1) >= offset for worker in standbys.get(partition, ()))
        for partition, offset in offsets.items()
    ]
    return min(counts, default=0)


def standbys_planned(server: Followed, partitions: Iterable[int]) -> int:
    """How many standbys there are to be, of the partition that has the fewest."""
    return min((len(server.cluster.standbys.get(partition, ())) for partition in partitions), default=0)


def hurry(server: Followed) -> None:
    """Ask the followers soon how far they are."""
    for replica in server.cluster.replicas:
        if replica.master is server.cluster.me:
            server.bus.peers.hurry(replica.worker)

"""Tells what this worker knows of the others, by what they last said over their links.

Redis' words: a node that has not answered for the node time-out is suspected (`fail?`), by this worker alone; once a
majority of the others who own slots say the same, it has failed. With two workers that majority is whoever is left.
Nothing but what is told depends on it: slots are not given to others, and clients are still sent to their owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from resp.cluster.bus import wire
from resp.cluster.bus.link import Link
from resp.cluster.nodes import Node, NodeHealth, Replica, Seen
from resp.statistics.partitions import applied_offsets

if TYPE_CHECKING:
    from resp.cluster.topology import ClusterMap
    from resp.settings.startup import Address
    from resp.writes.replica_pipeline import ReplicaPipeline
    from resp.writes.write_pipeline import WritePipeline


class OwnPartitions(Protocol):
    """The partitions of this worker.

    Attributes:
        cluster: which worker has which slots.
        pipelines: of the partitions of this worker.
        replicas: of those that it follows.
        run_id: of this process.
    """

    cluster: ClusterMap
    pipelines: dict[int, WritePipeline]
    replicas: dict[int, ReplicaPipeline]
    run_id: str

    @property
    def held(self) -> tuple[int, ...]:
        """The partitions that are served, or whose last writes are not answered yet."""
        ...


class Peers:
    """The other workers of a topic, as this one sees them.

    Args:
        server: this worker, which tells the others how it is in the same words.
        links: to the others, by node id; they come and go.
    """

    def __init__(self, server: OwnPartitions, links: Mapping[str, Link]) -> None:
        self._server = server
        self._links = links

    # ------------------------------------------------------------------ this worker

    def beat(self) -> wire.Beat:
        """What this worker says of itself."""
        server = self._server
        failing = tuple(node_id for node_id, link in self._links.items() if link.is_silent)
        applied = {
            partition: position.next_offset
            for partition, pipeline in server.pipelines.items()
            if (position := pipeline.owned.committed) is not None
        }
        return wire.Beat(
            server.run_id,
            server.held,
            self.is_loading,
            applied_offsets(server.pipelines),
            failing,
            applied,
            {partition: replica.answers_at for partition, replica in server.replicas.items() if replica.is_ready},
            tuple(partition for partition, pipeline in server.pipelines.items() if pipeline.is_coming),
        )

    @property
    def is_loading(self) -> bool:
        """Whether a partition of this worker is being opened, or behind what was in the log at its start."""
        return any(pipeline.is_coming for pipeline in self._server.pipelines.values())

    # ------------------------------------------------------------------ health

    def health_of(self, link: Link) -> NodeHealth:
        """The health of the worker at the other end of a link."""
        if not link.is_silent:
            return NodeHealth.ONLINE
        cluster = self._server.cluster
        voters = sum(bool(node.partitions) for node in cluster.nodes if node is not link.node)
        votes = self.reports(link.node) + bool(cluster.me.partitions)
        return NodeHealth.FAILED if votes > voters // 2 else NodeHealth.SUSPECTED

    def reports(self, node: Node) -> int:
        """How many of the other workers say that this one does not answer them."""
        links = self._links.values()
        return sum(
            link.beat is not None and node.node_id in link.beat.failing
            for link in links
            if not link.is_silent and link.node.partitions
        )

    def count(self, health: NodeHealth) -> int:
        """How many of the other workers are so."""
        return sum(self.health_of(link) is health for link in self._links.values())

    def seen(self, node: Node) -> Seen:
        """How a worker looks from here."""
        link = self._links.get(node.node_id)
        if link is None:
            return Seen(loading=self.is_loading, offset=applied_offsets(self._server.pipelines))
        beat = link.beat
        return Seen(
            health=self.health_of(link),
            connected=link.is_up,
            loading=beat is not None and beat.loading,
            offset=0 if beat is None else beat.offset,
            asked_ms=link.asked_ms,
            answered_ms=link.answered_ms,
        )

    def seen_replica(self, replica: Replica) -> Seen:
        """How a replica looks from here."""
        seen = self.seen(replica.worker)
        offsets = [self.followed_to(replica.worker, partition) for partition in replica.partitions]
        there = [offset for offset in offsets if offset is not None]
        return replace(seen, loading=len(there) < len(offsets), offset=sum(there))

    def hurry(self, worker: Node) -> None:
        """Ask a worker soon how it is."""
        if link := self._links.get(worker.node_id):
            link.hurry()

    def heard_seconds(self, worker: Node) -> float:
        """How long ago a worker last said how it is."""
        link = self._links.get(worker.node_id)
        return 0.0 if link is None else max(0.0, monotonic() - link.heard_at)

    # ------------------------------------------------------------------ their partitions

    def followed_to(self, worker: Node, partition: int) -> int | None:
        """The offset before which a follower has applied everything; None: it does not say so, or not any more."""
        link = self._links.get(worker.node_id)
        if link is None:
            replica = self._server.replicas.get(partition)
            return replica.answers_at if replica is not None and replica.is_ready else None
        return link.beat.follows.get(partition) if link.is_up and link.beat is not None else None

    def serves(self, worker: Node, partition: int) -> bool:
        """Whether a worker takes commands in a partition, as far as it has said so."""
        link = self._links.get(worker.node_id)
        if link is None:
            pipeline = self._server.pipelines.get(partition)
            return pipeline is not None and pipeline.refusal(write=True) is None
        beat = link.beat
        return link.is_up and beat is not None and partition in beat.own and partition not in beat.opening

    def is_taking(self, worker: Node, partition: int) -> bool:
        """Whether a worker that answers does not serve a partition yet, as far as it has said so; it is asked anew."""
        link = self._links.get(worker.node_id)
        if link is None or not link.is_up or link.beat is None:
            return False
        if partition in link.beat.own and partition not in link.beat.opening:
            return False
        link.hurry()
        return True

    def has_let_go(self, address: Address, partition: int, since: float) -> bool:
        """Whether the worker there has said that it does not hold a partition, at or after a monotonic time."""
        for link in self._links.values():
            if link.node.address == address:
                link.hurry()
                return link.beat is not None and link.heard_at >= since and partition not in link.beat.own
        return False

    def held_at(self, address: Address, partition: int) -> float:
        """When the worker there said that it holds a partition, if that was the last that it said; else 0."""
        for link in self._links.values():
            if link.node.address == address and link.beat is not None and partition in link.beat.own:
                return link.heard_at
        return 0.0

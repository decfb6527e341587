"""Watches a group with one partition as a Redis Sentinel does, and tells its clients of a new master.

The owner of the partition is the master, its standbys are the replicas, and the other workers are the other Sentinels.
Nothing is decided here: the group says who owns what. A new owner is the master once it takes commands, as clients come
to it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from resp.cluster.nodes import Node, NodeHealth, Replica
from resp.messages.pubsub import PubSub

if TYPE_CHECKING:
    from resp.cluster.bus import Bus
    from resp.cluster.topology import ClusterMap
    from resp.settings.startup import Address


class Watched(Protocol):
    """A worker of the group.

    Attributes:
        bus: the links to the others.
        cluster: who they are.
    """

    bus: Bus
    cluster: ClusterMap


class Sentinel:
    """One worker's view of the master and its replicas.

    Args:
        worker: which one.
        name: of the master.

    Attributes:
        pubsub: those who listen to events.
        master: None: it is not known yet.
    """

    def __init__(self, worker: Watched, name: str) -> None:
        self.name = name
        self.pubsub = PubSub()
        self.master: Node | None = None
        self._worker = worker
        self._replicas: dict[Address, None] = {}
        self._down: dict[str, None] = {}

    @property
    def replicas(self) -> list[Replica]:
        """The standbys."""
        return self._worker.cluster.listed

    @property
    def others(self) -> dict[Address, Node]:
        """The other Sentinels: where clients reach each of them, and its worker."""
        cluster = self._worker.cluster
        nodes = {node.address: node for node in cluster.nodes if node is not cluster.me}
        return {address: nodes[worker] for worker, address in cluster.sentinels.items() if worker in nodes}

    def health(self, node: Node) -> NodeHealth:
        """Whether a worker answers: suspected is Redis' `s_down`, failed its `o_down`."""
        return self._worker.bus.peers.seen(node).health

    def look(self) -> None:
        """Find out who is there, and tell those who listen what has changed."""
        cluster, bus = self._worker.cluster, self._worker.bus
        owner = cluster.owner_node(0)
        if owner is None:
            return
        if self.master is None or self.master.address != owner.address:
            if not bus.peers.serves(owner, 0):
                bus.peers.hurry(owner)
                return
            self._switch(owner)
        self.master = owner
        for replica in self.replicas:
            if replica.address not in self._replicas:
                self._tell("+slave", self._shown(replica))
        self._replicas = dict.fromkeys(replica.address for replica in self.replicas)
        self._look_at_health(owner)

    def _switch(self, owner: Node) -> None:
        if self.master is not None:
            addresses = (*self.master.address, *owner.address)
            self._tell("+switch-master", f"{self.name} {' '.join(map(str, addresses))}")
        self._replicas, self._down = {}, {}

    def _look_at_health(self, owner: Node) -> None:
        shown = {f"master {self.name} {owner.host} {owner.port}": owner}
        shown.update({self._shown(replica): replica.worker for replica in self.replicas})
        down = {name: None for name, node in shown.items() if self.health(node) is not NodeHealth.ONLINE}
        for name in down:
            if name not in self._down:
                self._tell("+sdown", name)
        for name in self._down:
            if name not in down and name in shown:
                self._tell("-sdown", name)
        self._down = down

    def _shown(self, replica: Replica) -> str:
        (host, port), master = replica.address, replica.master
        return f"slave {host}:{port} {host} {port} @ {self.name} {master.host} {master.port}"

    def _tell(self, event: str, text: str) -> None:
        self.pubsub.publish(event.encode(), text.encode())

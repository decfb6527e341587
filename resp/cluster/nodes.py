"""Nodes of a cluster: workers, and what they are as the followers of others' partitions.

A Redis node is either a master or the replica of one. A worker owns partitions and follows others, of several owners.
So clients are told of more nodes than there are workers: each worker as a master, and, at a second address, as the
replica of each owner whose partitions it follows. A node's id is the SHA-1 of its address, so that all workers name
each other alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1

from resp.settings.startup import Address


class NodeHealth(StrEnum):
    """The health of a node. The value is a metric's label."""

    ONLINE = "online"
    SUSPECTED = "suspected"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Seen:
    """This worker's view of a node.

    Attributes:
        health: whether it answers, this worker and the others.
        connected: whether the link to it is up.
        loading: it still applies its log.
        offset: how many offsets of the log it has applied.
        asked_ms, answered_ms: wall time of a question that is not answered yet, and of the last answer; 0 if none.
    """

    health: NodeHealth = NodeHealth.ONLINE
    connected: bool = True
    loading: bool = False
    offset: int = 0
    asked_ms: int = 0
    answered_ms: int = 0


See = Callable[["Node"], Seen]


@dataclass(frozen=True, slots=True)
class Node:
    """One worker.

    Attributes:
        partitions: that it owns, ascending.
        ranges: of slots, first and last, that these are.
    """

    address: Address
    partitions: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]

    @property
    def host(self) -> str:
        """Where clients reach it."""
        return self.address[0]

    @property
    def port(self) -> int:
        """Where clients reach it."""
        return self.address[1]

    @property
    def node_id(self) -> str:
        """40 hexadecimal digits."""
        return node_name(self.address, "node")

    @property
    def shard_id(self) -> str:
        """40 hexadecimal digits; a shard is one node here."""
        return node_name(self.address, "shard")


@dataclass(frozen=True, slots=True)
class Replica:
    """A worker as the follower of another one's partitions.

    Attributes:
        node_id: 40 hexadecimal digits.
        address: where clients reach it as a replica; that of the worker where there is none.
        master: the owner.
        worker: the follower.
        partitions: that the one owns and the other follows, ascending.
        is_listed: whether clients are told of it.
    """

    node_id: str
    address: Address
    master: Node
    worker: Node
    partitions: tuple[int, ...]
    is_listed: bool


SeeReplica = Callable[[Replica], Seen]


def replicas_of(
    owners: Mapping[int, Node], standbys: Mapping[int, tuple[Node, ...]], addresses: Mapping[Address, Address]
) -> list[Replica]:
    """The replicas in a cluster, by follower, then owner.

    Args:
        owners: of each partition.
        standbys: the followers of each partition.
        addresses: where clients reach a worker, by its address, as a replica.
    """
    followed: dict[Address, dict[Address, list[int]]] = {}
    nodes: dict[Address, Node] = {}
    for partition, workers in sorted(standbys.items()):
        master = owners.get(partition)
        if master is None:
            continue
        for worker in workers:
            nodes[worker.address], nodes[master.address] = worker, master
            followed.setdefault(worker.address, {}).setdefault(master.address, []).append(partition)
    made = []
    for worker_address, by_master in sorted(followed.items()):
        address = addresses.get(worker_address, worker_address)
        for number, (master_address, partitions) in enumerate(sorted(by_master.items())):
            master = nodes[master_address]
            node_id = node_name(address, f"node of {master.node_id} at" if number else "node")
            is_listed = worker_address in addresses
            made.append(Replica(node_id, address, master, nodes[worker_address], tuple(partitions), is_listed))
    return made


def node_name(address: Address, what: str) -> str:
    """The SHA-1 of what is at an address."""
    text = f"slotlog {what} {address[0]}:{address[1]}"
    return sha1(text.encode(), usedforsecurity=False).hexdigest()

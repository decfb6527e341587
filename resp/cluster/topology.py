"""The owners of all slots, for cluster clients and MOVED.

Every worker is told the same by its configuration, `--peers 0-1=HOST:PORT,2-3=HOST:PORT`: partitions, and the address
at which clients reach their owner; or it hears it from its group, again and again, and has a new map each time. How the
others are is learnt from them (`resp.cluster.bus`).

A node's id is the SHA-1 of its address, so that all workers name each other alike. Slots are cut into
partitions as `slotlog.shared.slots` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1
from typing import Final

from resp.settings.startup import Address, RespSettings
from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import partition_of, slot_range

ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - looked for, not listened on
"""Listening there says nothing of where clients reach it. They take an empty host for the one that they have asked."""

_PEER: Final = re.compile(r"(\d+)(?:-(\d+))?=(?:\[([^]]+)\]|([^:\[\]]+)):(\d+)", re.ASCII)


class NodeHealth(StrEnum):
    """The health of a node. The value is a metric's label."""

    ONLINE = "online"
    SUSPECTED = "suspected"
    FAILED = "failed"


_FLAGS: Final = {NodeHealth.ONLINE: "", NodeHealth.SUSPECTED: ",fail?", NodeHealth.FAILED: ",fail"}


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
        return _name(self.address, "node")

    @property
    def shard_id(self) -> str:
        """40 hexadecimal digits; a shard is one node here."""
        return _name(self.address, "shard")


class ClusterMap:
    """The owners of all slots.

    Args:
        partitions: of the topic.
        own: partitions of this worker.
        peers: as `--peers` has it; entries of this worker's own partitions may be among them. Empty: nobody else.
        announce: the address at which clients reach this worker; empty host: what `peers` says of `own`.

    Attributes:
        nodes: this worker, then the others, by their first partition.

    Raises:
        ValueError: `peers` is not such a list, two of its entries name the same partition, it does not say where this
            worker is, or what it says of this worker is not what `own` and `announce` say.
    """

    def __init__(self, partitions: int, own: Sequence[int], peers: str, announce: Address) -> None:
        addresses = parse_peers(peers, partitions)
        if peers and not announce[0]:
            announce = _own_address(addresses, own)
        _check_own(addresses, own, announce)
        addresses.update(dict.fromkeys(own, announce))
        self.partitions = partitions
        self._lay_out(addresses, announce, ())

    @classmethod
    def of_group(
        cls, partitions: int, me: Address, owners: Mapping[int, Address], others: Sequence[Address]
    ) -> ClusterMap:
        """The map that a group of workers has agreed on.

        Args:
            partitions: of the topic.
            me: where clients reach this worker.
            owners: where they reach the owner of each partition.
            others: all other workers; one may own nothing.
        """
        made = cls(partitions, (), "", me)
        made._lay_out(owners, me, others)
        return made

    def _lay_out(self, addresses: Mapping[int, Address], announce: Address, others: Sequence[Address]) -> None:
        owned: dict[Address, list[int]] = {announce: []}
        for partition in sorted(addresses):
            owned.setdefault(addresses[partition], []).append(partition)
        for address in others:
            owned.setdefault(address, [])
        partitions = self.partitions
        self.nodes = [_node(address, members, partitions) for address, members in owned.items()]
        self._owners = {partition: node for node in self.nodes for partition in node.partitions}

    @property
    def me(self) -> Node:
        """This worker."""
        return self.nodes[0]

    @property
    def assigned_slots(self) -> int:
        """How many slots have an owner."""
        return sum(last - first + 1 for node in self.nodes for first, last in node.ranges)

    @property
    def unknown(self) -> list[int]:
        """Partitions without a known owner."""
        return [partition for partition in range(self.partitions) if partition not in self._owners]

    @property
    def warnings(self) -> list[str]:
        """What an operator should hear at the start."""
        if not self.unknown:
            return []
        warning = (
            f"partitions {_partitions_text(self.unknown)} are neither this worker's nor in SLOTLOG_REDIS__PEERS: "
            "their keys are answered CLUSTERDOWN, and PUBLISH is refused, as it would not reach their worker's clients"
        )
        return [warning]

    def owner_of(self, slot: int) -> Address | None:
        """The address of the worker that owns the slot; None if no owner is known."""
        node = self._owners.get(partition_of(slot, self.partitions))
        return node.address if node is not None else None

    def find(self, node_id: str) -> Node | None:
        """The node of that id."""
        return next((node for node in self.nodes if node.node_id == node_id), None)

    def ranges(self) -> list[tuple[int, int, Node]]:
        """All ranges of slots that have an owner: first, last, node; ascending."""
        return sorted(
            ((first, last, node) for node in self.nodes for first, last in node.ranges), key=lambda range_: range_[0]
        )

    def nodes_text(self, see: See) -> str:
        """What CLUSTER NODES answers, a line a node. The bus port is 0: workers talk over the clients' port."""
        return "".join(f"{self._line(node, see(node))}\n" for node in self.nodes)

    def _line(self, node: Node, seen: Seen) -> str:
        role = ("myself,master" if node is self.me else "master") + _FLAGS[seen.health]
        times = f"{seen.asked_ms} {seen.answered_ms}"
        link = "connected" if seen.connected else "disconnected"
        shown = f"{node.node_id} {node.host}:{node.port}@0 {role} - {times} 0 {link}"
        return " ".join([shown, *(_range_text(first, last) for first, last in node.ranges)])

    def info_text(self, see: See, messages_sent: int, messages_received: int) -> str:
        """What CLUSTER INFO answers.

        The state is `ok` when every slot has an owner, none of the owners has failed, and most of them answer.
        """
        health = {node.node_id: see(node).health for node in self.nodes}
        slots = dict.fromkeys(NodeHealth, 0)
        for first, last, node in self.ranges():
            slots[health[node.node_id]] += last - first + 1
        masters = [node for node in self.nodes if node.partitions]
        online = sum(health[node.node_id] is NodeHealth.ONLINE for node in masters)
        assigned = self.assigned_slots
        is_ok = assigned == SLOTS and not slots[NodeHealth.FAILED] and online > len(masters) // 2
        fields: dict[str, str | int] = {
            "cluster_state": "ok" if is_ok else "fail",
            "cluster_slots_assigned": assigned,
            "cluster_slots_ok": slots[NodeHealth.ONLINE],
            "cluster_slots_pfail": slots[NodeHealth.SUSPECTED],
            "cluster_slots_fail": slots[NodeHealth.FAILED],
            "cluster_known_nodes": len(self.nodes),
            "cluster_size": len(masters),
            "cluster_current_epoch": 0,
            "cluster_my_epoch": 0,
            "cluster_stats_messages_sent": messages_sent,
            "cluster_stats_messages_received": messages_received,
            "total_cluster_links_buffer_limit_exceeded": 0,
        }
        return "".join(f"{name}:{value}\r\n" for name, value in fields.items())


def map_of(settings: RespSettings, port: int) -> ClusterMap:
    """The map of a worker with these settings that listens on `port`; clients reach it where the settings say.

    Raises:
        ValueError: as `ClusterMap`.
    """
    host = settings.address[0]
    listening = "" if host in ALL_ADDRESSES else host, port
    announce = settings.announce or (("", 0) if settings.peers else listening)
    return ClusterMap(settings.partitions, settings.own, settings.peers, announce)


def parse_peers(text: str, partitions: int) -> dict[int, Address]:
    """The address of each partition that `text` names: `0-1=host:port,2=[::1]:port`.

    Raises:
        ValueError: not such a list, a partition that is not there, or one that is named twice.
    """
    addresses: dict[int, Address] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _PEER.fullmatch(entry)
        if match is None:
            raise ValueError(f"peers: {entry!r} is not PARTITIONS=HOST:PORT, such as 0-3=worker-0:6379")
        first = int(match[1])
        last = int(match[2] or first)
        if first > last or last >= partitions:
            raise ValueError(f"peers: {entry!r} is not within partitions 0-{partitions - 1}")
        address = match[3] or match[4], int(match[5])
        if not 0 < address[1] < 1 << 16:
            raise ValueError(f"peers: {entry!r} has no port between 1 and 65535")
        for partition in range(first, last + 1):
            if partition in addresses:
                raise ValueError(f"peers: partition {partition} is named twice")
            addresses[partition] = address
    return addresses


def _own_address(addresses: Mapping[int, Address], own: Sequence[int]) -> Address:
    """Where the peers' list says that this worker is."""
    found = dict.fromkeys(addresses.get(partition) for partition in own)
    address = next(iter(found), None)
    if len(found) != 1 or address is None:
        names = ", ".join(map(str, own)) or "none"
        raise ValueError(
            f"peers: no single address for this worker's partitions ({names}): name them, or set `announce`"
        )
    return address


def _check_own(addresses: Mapping[int, Address], own: Sequence[int], announce: Address) -> None:
    """Hold what the peers' list says of this worker against what the worker says: others send clients by the list."""
    elsewhere = [partition for partition in own if addresses.get(partition, announce) != announce]
    if elsewhere:
        host, port = addresses[elsewhere[0]]
        raise ValueError(
            f"peers: partitions {_partitions_text(elsewhere)} are at {host}:{port} there, and this worker, which owns "
            f"them, announces {announce[0]}:{announce[1]}: two owners, or two addresses of one"
        )
    foreign = [partition for partition, address in addresses.items() if address == announce and partition not in own]
    if foreign:
        raise ValueError(
            f"peers: partitions {_partitions_text(foreign)} are at this worker's address there, and `own` does not "
            "name them: nobody would answer for them"
        )


def _node(address: Address, members: Sequence[int], partitions: int) -> Node:
    """A node whose ranges of slots are as long as they can be."""
    ranges: list[tuple[int, int]] = []
    for partition in members:
        first, last = slot_range(partition, partitions)
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1] = ranges[-1][0], last
        else:
            ranges.append((first, last))
    return Node(address, tuple(members), tuple(ranges))


def _name(address: Address, what: str) -> str:
    text = f"slotlog {what} {address[0]}:{address[1]}"
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def _partitions_text(partitions: Sequence[int]) -> str:
    """`0-2,5`."""
    runs: list[tuple[int, int]] = []
    for partition in partitions:
        if runs and runs[-1][1] == partition - 1:
            runs[-1] = runs[-1][0], partition
        else:
            runs.append((partition, partition))
    return ",".join(_range_text(first, last) for first, last in runs)


def _range_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"

"""The owners of all slots, for cluster clients and MOVED.

Every worker is told the same by its configuration, `--peers 0-1=HOST:PORT,2-3=HOST:PORT`: partitions, and the address
at which clients reach their owner; or it hears it from its group, again and again, and has a new map each time. How the
others are is learnt from them (`resp.cluster.bus`).

Slots are cut into partitions as `slotlog.shared.slots` says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from resp.cluster.nodes import Node, NodeHealth, Replica, See, Seen, SeeReplica, replicas_of
from resp.settings.startup import Address, RespSettings
from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import partition_of, slot_range

ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - looked for, not listened on
"""Listening there says nothing of where clients reach it. They take an empty host for the one that they have asked."""

_PEER: Final = re.compile(r"(\d+)(?:-(\d+))?=(?:\[([^]]+)\]|([^:\[\]]+)):(\d+)", re.ASCII)


_FLAGS: Final = {NodeHealth.ONLINE: "", NodeHealth.SUSPECTED: ",fail?", NodeHealth.FAILED: ",fail"}


class ClusterMap:
    """The owners of all slots.

    Args:
        partitions: of the topic.
        own: partitions of this worker.
        peers: as `--peers` has it; entries of this worker's own partitions may be among them. Empty: nobody else.
        announce: the address at which clients reach this worker; empty host: what `peers` says of `own`.

    Attributes:
        nodes: this worker, then the others, by their first partition.
        standbys: the workers that follow each partition.
        replicas: those workers as nodes of their own, each the replica of one owner.
        sentinels: where workers, by their address, answer as Sentinels.

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
        self.standbys: dict[int, tuple[Node, ...]] = {}
        self.replicas: list[Replica] = []
        self.sentinels: Mapping[Address, Address] = {}
        self._lay_out(addresses, announce, ())

    @classmethod
    def of_group(
        cls,
        partitions: int,
        me: Address,
        owners: Mapping[int, Address],
        others: Sequence[Address],
        standbys: Mapping[int, Sequence[Address]] | None = None,
        replicas: Mapping[Address, Address] | None = None,
        sentinels: Mapping[Address, Address] | None = None,
    ) -> ClusterMap:
        """The map that a group of workers has agreed on.

        Args:
            partitions: of the topic.
            me: where clients reach this worker.
            owners: where they reach the owner of each partition.
            others: all other workers; one may own nothing.
            standbys: the workers that follow each partition.
            replicas: where clients reach a worker as a replica; one that is not there is listed as none.
            sentinels: where they reach it as a Sentinel.
        """
        made = cls(partitions, (), "", me)
        made._lay_out(owners, me, others)
        made._add_standbys(standbys or {}, replicas or {})
        made.sentinels = sentinels or {}
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

    def _add_standbys(
        self, standbys: Mapping[int, Sequence[Address]], replica_addresses: Mapping[Address, Address]
    ) -> None:
        nodes = {node.address: node for node in self.nodes}
        for partition, workers in sorted(standbys.items()):
            self.standbys[partition] = tuple(nodes[each] for each in workers if each in nodes)
        self.replicas = replicas_of(self._owners, self.standbys, replica_addresses)

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
        node = self.owner_node(partition_of(slot, self.partitions))
        return node.address if node is not None else None

    def owner_node(self, partition: int) -> Node | None:
        """The worker that owns a partition; None if none is known."""
        return self._owners.get(partition)

    def find(self, node_id: str) -> Node | None:
        """The node of that id."""
        return next((node for node in self.nodes if node.node_id == node_id), None)

    def find_replica(self, node_id: str) -> Replica | None:
        """The replica of that id."""
        return next((replica for replica in self.listed if replica.node_id == node_id), None)

    @property
    def listed(self) -> list[Replica]:
        """The replicas that clients are told of."""
        return [replica for replica in self.replicas if replica.is_listed]

    def ranges(self) -> list[tuple[int, int, Node]]:
        """All ranges of slots that have an owner: first, last, node; ascending."""
        return sorted(
            ((first, last, node) for node in self.nodes for first, last in node.ranges), key=lambda range_: range_[0]
        )

    def shares(self) -> list[tuple[int, int, Node, tuple[Replica, ...]]]:
        """`ranges`, cut where other replicas begin, each with those that clients are told of."""
        found: list[tuple[int, int, Node, tuple[Replica, ...]]] = []
        for partition, node in sorted(self._owners.items()):
            first, last = slot_range(partition, self.partitions)
            replicas = tuple(each for each in self.listed if partition in each.partitions)
            if found and found[-1][1:] == (first - 1, node, replicas):
                first = found.pop()[0]
            found.append((first, last, node, replicas))
        return found

    def nodes_text(self, see: See, see_replica: SeeReplica, *, at_replica: bool = False) -> str:
        """What CLUSTER NODES answers, a line a node. The bus port is 0: workers talk over the clients' port.

        Args:
            see: how a node is.
            see_replica: how a replica is.
            at_replica: the client has come to this worker as to a replica.
        """
        lines = [self._line(node, see(node), is_me=node is self.me and not at_replica) for node in self.nodes]
        mine = next((replica for replica in self.listed if replica.worker is self.me), None)
        lines += [
            _node_line(replica.node_id, replica.address, "slave", replica.master.node_id, seen, is_me=is_me)
            for replica in self.listed
            for seen, is_me in [(see_replica(replica), at_replica and replica is mine)]
        ]
        return "".join(f"{line}\n" for line in lines)

    def _line(self, node: Node, seen: Seen, *, is_me: bool) -> str:
        shown = _node_line(node.node_id, node.address, "master", "-", seen, is_me=is_me)
        return " ".join([shown, *(_range_text(first, last) for first, last in node.ranges)])

    def node_line(self, replica: Replica, seen: Seen) -> str:
        """What CLUSTER REPLICAS answers of a replica."""
        return _node_line(replica.node_id, replica.address, "slave", replica.master.node_id, seen, is_me=False)

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
            "cluster_known_nodes": len(self.nodes) + len(self.listed),
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


def _node_line(node_id: str, address: Address, role: str, master: str, seen: Seen, *, is_me: bool) -> str:
    flags = ("myself," if is_me else "") + role + _FLAGS[seen.health]
    link = "connected" if seen.connected else "disconnected"
    return f"{node_id} {address[0]}:{address[1]}@0 {flags} {master} {seen.asked_ms} {seen.answered_ms} 0 {link}"


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

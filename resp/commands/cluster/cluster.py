"""CLUSTER, READONLY and READWRITE, for cluster clients. Source: https://valkey.io/commands/#cluster.

Who owns what is configuration here (`resp.cluster.topology`), so the commands that would change it do not exist. The
keys of a slot are read from the state in steps, with a pause after each one for everybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from engine.commands.options import read_integer
from engine.errors import CommandError
from engine.layouts.records import is_without_elements, scan_metadata, slot_records
from engine.values.replies import OK, Map, Reply, Verbatim
from resp.cluster.nodes import NodeHealth
from resp.commands.containers import help_of
from resp.commands.handlers import Client, server_command
from resp.writes.stopping import WAITS_FOR_GROUP
from slotlog.clock import now_ms
from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import partition_of, slot

if TYPE_CHECKING:
    from resp.cluster.bus import Bus
    from resp.cluster.nodes import Node, Replica, Seen
    from resp.cluster.topology import ClusterMap
    from resp.settings.startup import Address
    from resp.writes.write_pipeline import WritePipeline

_DISABLED: Final = "ERR This instance has cluster support disabled"
_KEYS_A_STEP: Final = 2000
_READ: Final = ("loading", "stale")
_ADMIN: Final = ("admin", "stale")
_ADMIN_CATEGORIES: Final = ("admin", "slow", "dangerous")


class Caller(Protocol):
    """A client that may be another worker.

    Attributes:
        peer: the id of that worker's node; empty for all others.
        created: when it came, on the monotonic clock.
    """

    peer: bytes
    created: float

    @property
    def output_bytes(self) -> int:
        """Of replies on their way to it."""
        ...


class Cluster(Protocol):
    """The cluster as a worker knows it.

    Attributes:
        clustered: whether there is one.
        cluster: who owns which slots.
        bus: the links to other workers.
        partitions: of the log, how many.
        pipelines: of the partitions that this worker owns.
    """

    clustered: bool
    cluster: ClusterMap
    bus: Bus
    partitions: int
    pipelines: dict[int, WritePipeline]

    @property
    def sessions(self) -> Mapping[int, Caller]:
        """Connected clients."""
        ...


class Visitor(Client[Cluster], Protocol):
    """A client of a node that may be a replica.

    Attributes:
        readonly: it has said READONLY.
    """

    readonly: bool

    @property
    def at_replica(self) -> bool:
        """Whether it has come to this worker as to a replica."""
        ...


_about_nodes = partial(
    server_command, group="cluster", flags=_READ, categories=("slow",), immediate=True, container=True
)
_about_slots = partial(server_command, group="cluster", flags=("stale",), categories=("slow",), container=True)
_admin = partial(
    server_command, group="cluster", flags=_ADMIN, categories=_ADMIN_CATEGORIES, immediate=True, container=True
)


def _map(client: Client[Cluster]) -> ClusterMap:
    """The cluster map; CommandError in standalone mode."""
    if not client.server.clustered:
        raise CommandError(_DISABLED)
    return client.server.cluster


def _owners(client: Client[Cluster]) -> ClusterMap:
    """The map, once anything is known of it: a client that takes an empty one has nobody to send its commands to."""
    cluster = _map(client)
    if not cluster.assigned_slots:
        raise WAITS_FOR_GROUP
    return cluster


# ---------------------------------------------------------------------- who is there


@_about_nodes("CLUSTER SLOTS", since="3.0.0", complexity="O(nodes)")
def cluster_slots(client: Client[Cluster], args: list[bytes]) -> Reply:
    """The ranges of slots with the node that owns each, then its replicas: address, port and id."""
    peers = client.server.bus.peers
    return [
        [
            first,
            last,
            _endpoint(node.address, node.node_id),
            *(
                _endpoint(each.address, each.node_id)
                for each in replicas
                if peers.seen_replica(each).health is not NodeHealth.FAILED  # as in Redis
            ),
        ]
        for first, last, node, replicas in _owners(client).shares()
    ]


@_about_nodes("CLUSTER SHARDS", since="7.0.0", complexity="O(nodes)")
def cluster_shards(client: Client[Cluster], args: list[bytes]) -> Reply:
    """The nodes with their ranges of slots; a shard is an owner with its replicas."""
    cluster, peers = _owners(client), client.server.bus.peers
    return [
        _shard(
            node, peers.seen(node), [(each, peers.seen_replica(each)) for each in cluster.listed if each.master is node]
        )
        for node in cluster.nodes
    ]


@_about_nodes("CLUSTER NODES", since="3.0.0", complexity="O(nodes)")
def cluster_nodes(client: Visitor, args: list[bytes]) -> Reply:
    """The nodes as text, a line each."""
    peers = client.server.bus.peers
    return Verbatim(_owners(client).nodes_text(peers.seen, peers.seen_replica, at_replica=client.at_replica).encode())


@_about_nodes("CLUSTER INFO", since="3.0.0")
def cluster_info(client: Client[Cluster], args: list[bytes]) -> Reply:
    """The state of the cluster as text: `ok` when every slot has an owner that answers."""
    cluster, bus = _map(client), client.server.bus
    return Verbatim(cluster.info_text(bus.peers.seen, bus.messages_sent, bus.messages_received).encode())


@_about_nodes("CLUSTER MYID", since="3.0.0")
def cluster_myid(client: Visitor, args: list[bytes]) -> Reply:
    """The id of this node: as a replica, where the client has come to it as to one."""
    cluster = _map(client)
    mine = _own_replica(client)
    return (cluster.me if mine is None else mine).node_id.encode()


@_about_nodes("CLUSTER MYSHARDID", since="7.2.0")
def cluster_myshardid(client: Visitor, args: list[bytes]) -> Reply:
    """The id of this node's shard, which is that of its owner where the client has come to a replica."""
    cluster = _map(client)
    mine = _own_replica(client)
    return (cluster.me if mine is None else mine.master).shard_id.encode()


@_about_slots("CLUSTER LINKS", since="7.0.0", immediate=True)
def cluster_links(client: Client[Cluster], args: list[bytes]) -> Reply:
    """The connections to other workers, and from them."""
    _map(client)
    server = client.server
    there = [
        _link(b"to", node_id, link.up_since_ms, link.waiting_bytes)
        for node_id, link in server.bus.links.items()
        if link.is_up
    ]
    here = [
        _link(b"from", each.peer.decode(), now_ms() - int((monotonic() - each.created) * 1000), each.output_bytes)
        for each in server.sessions.values()
        if each.peer
    ]
    return [*there, *here]


@_admin("CLUSTER REPLICAS node-id", since="5.0.0")
def cluster_replicas(client: Client[Cluster], args: list[bytes]) -> Reply:
    """The replicas of a node, each as a line of CLUSTER NODES."""
    return _replicas(client, args)


@_admin("CLUSTER SLAVES node-id", since="3.0.0")
def cluster_slaves(client: Client[Cluster], args: list[bytes]) -> Reply:
    """What CLUSTER REPLICAS answers, by its old name."""
    return _replicas(client, args)


def _replicas(client: Client[Cluster], args: list[bytes]) -> Reply:
    cluster, peers = _map(client), client.server.bus.peers
    if cluster.find_replica(args[0].decode(errors="surrogateescape")) is not None:
        raise CommandError("ERR The specified node is not a master")
    node = _node(client, args[0])
    return [
        cluster.node_line(each, peers.seen_replica(each)).encode() for each in cluster.listed if each.master is node
    ]


@_admin("CLUSTER COUNT-FAILURE-REPORTS node-id", since="3.0.0")
def cluster_count_failure_reports(client: Client[Cluster], args: list[bytes]) -> Reply:
    """How many other workers report that a node does not answer them."""
    return client.server.bus.peers.reports(_node(client, args[0]))


@_about_nodes("CLUSTER HELP", since="5.0.0")
def cluster_help(client: Client[Cluster], args: list[bytes]) -> Reply:
    """Print this help; refused in standalone mode as everything here."""
    _map(client)
    return help_of(b"CLUSTER")


# ---------------------------------------------------------------------- what is in a slot


@_about_slots("CLUSTER KEYSLOT key", since="3.0.0", complexity="O(bytes of the key)", immediate=True)
def cluster_keyslot(client: Client[Cluster], args: list[bytes]) -> Reply:
    """The slot of a key, in standalone mode as well."""
    return slot(args[0])


@_about_slots("CLUSTER COUNTKEYSINSLOT slot", since="3.0.0", complexity="O(keys in the slot)")
async def cluster_countkeysinslot(client: Client[Cluster], args: list[bytes]) -> Reply:
    """How many keys this node has in a slot. Counts them: O(keys in the slot)."""
    _map(client)
    number = read_integer(args[0])
    if not 0 <= number < SLOTS:
        raise CommandError("ERR Invalid slot")
    count = 0
    async for names in _slot_names(client, number):
        count += len(names)
    return count


@_about_slots(
    "CLUSTER GETKEYSINSLOT slot count",
    since="3.0.0",
    complexity="O(count, and keys that are due on the way)",
)
async def cluster_getkeysinslot(client: Client[Cluster], args: list[bytes]) -> Reply:
    """Up to `count` keys that this node has in a slot, in the order in which the layout stores them."""
    _map(client)
    number, count = read_integer(args[0]), read_integer(args[1])
    if not 0 <= number < SLOTS or count < 0:
        raise CommandError("ERR Invalid slot or number of keys")
    found: list[bytes] = []
    async for names in _slot_names(client, number):
        found += names
        if len(found) >= count:
            break
    return found[:count]


async def _slot_names(client: Client[Cluster], number: int) -> AsyncIterator[list[bytes]]:
    """The keys of a slot that are alive, some at a time; none when the slot is another worker's.

    No scan is open while others run: an open one would keep the store from closing.
    """
    pipeline = client.server.pipelines.get(partition_of(number, client.server.partitions))
    start: bytes | None = b""
    while pipeline is not None and start is not None:
        with pipeline.owned.reading():
            names, start = _step(pipeline, number, start)
        yield names
        await asyncio.sleep(0)


def _step(pipeline: WritePipeline, number: int, start: bytes) -> tuple[list[bytes], bytes | None]:
    """The names of the next keys of the slot, and the metadata key to go on at; None at the slot's end."""
    machine, store = pipeline.machine, pipeline.owned.worker.store
    layout = machine.layout
    records = slot_records(layout, 0, number)
    names: list[bytes] = []
    for at, (key, value) in enumerate(scan_metadata(store, layout, start or records.prefix, records.end)):
        if at == _KEYS_A_STEP:
            return names, key
        _, key_slot, name = layout.parse_metadata_key(key)
        if key_slot != number:
            continue
        metadata = layout.parse_metadata(value)
        if not (0 < metadata.expire_ms <= machine.clock_ms or is_without_elements(store, layout, key, metadata)):
            names.append(name)
    return names, None


# ---------------------------------------------------------------------- what a client says of itself


@server_command(
    "READONLY", group="cluster", since="3.0.0", flags=("loading", "stale", "fast"), categories=("fast", "connection")
)
def readonly(client: Visitor, args: list[bytes]) -> Reply:
    """Allow reads of partitions that this node follows: they may be old."""
    _map(client)
    client.readonly = True
    return OK


@server_command(
    "READWRITE", group="cluster", since="3.0.0", flags=("loading", "stale", "fast"), categories=("fast", "connection")
)
def readwrite(client: Visitor, args: list[bytes]) -> Reply:
    """End READONLY."""
    _map(client)
    client.readonly = False
    return OK


@server_command("ASKING", group="cluster", since="3.0.0", flags=("fast",), categories=("fast", "connection"))
def asking(client: Client[Cluster], args: list[bytes]) -> Reply:
    """Announce a command that follows an ASK. Slots never migrate here, so nothing changes."""
    _map(client)
    return OK


# ---------------------------------------------------------------------- pieces


def _own_replica(client: Visitor) -> Replica | None:
    """What this worker is to a client that has come to it as to a replica."""
    cluster = _map(client)
    mine = [each for each in cluster.listed if each.worker is cluster.me]
    return mine[0] if mine and client.at_replica else None


def _endpoint(address: Address, node_id: str) -> list[Reply]:
    host, port = address
    return [host.encode(), port, node_id.encode(), Map()]


def _link(direction: bytes, node_id: str, created_ms: int, waiting_bytes: int) -> Map:
    return Map(
        [
            (b"direction", direction),
            (b"node", node_id.encode()),
            (b"create-time", created_ms),
            (b"events", b"rw" if waiting_bytes else b"r"),
            (b"send-buffer-allocated", waiting_bytes),
            (b"send-buffer-used", waiting_bytes),
        ]
    )


def _shard(node: Node, seen: Seen, replicas: list[tuple[Replica, Seen]]) -> Map:
    slots = [bound for range_ in node.ranges for bound in range_]
    nodes = [
        _described(node.node_id, node.address, b"master", seen),
        *(_described(each.node_id, each.address, b"replica", its) for each, its in replicas),
    ]
    return Map([(b"slots", slots), (b"nodes", nodes), (b"id", node.shard_id.encode())])


def _described(node_id: str, address: Address, role: bytes, seen: Seen) -> Map:
    host = address[0].encode()
    health = b"fail" if seen.health is NodeHealth.FAILED else b"loading" if seen.loading else b"online"
    return Map(
        [
            (b"id", node_id.encode()),
            (b"port", address[1]),
            (b"ip", host),
            (b"endpoint", host),
            (b"role", role),
            (b"replication-offset", seen.offset),
            (b"health", health),
        ]
    )


def _node(client: Client[Cluster], node_id: bytes) -> Node:
    node = _map(client).find(node_id.decode(errors="surrogateescape"))
    if node is None:
        raise CommandError(f"ERR Unknown node {node_id.decode(errors='surrogateescape')}")
    return node

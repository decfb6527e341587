"""Workers learn the owners of slots from `--peers`, and cluster clients from the workers."""

from __future__ import annotations

import pytest

from resp.cluster.nodes import Node, NodeHealth, See, Seen
from resp.cluster.topology import ClusterMap, parse_peers
from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import partition_of, slot_range

HERE = ("127.0.0.1", 7000)


@pytest.mark.parametrize("partitions", [1, 2, 3, 5, 7, 16, 1000, 1024])
def test_ranges_are_those_of_the_partitions(partitions: int) -> None:
    """The ranges of all partitions are every slot once, and each slot is in its own partition's range."""
    ranges = [slot_range(partition, partitions) for partition in range(partitions)]
    slots = [(partition, slot) for partition, (first, last) in enumerate(ranges) for slot in range(first, last + 1)]

    assert [(partition_of(slot, partitions), slot) for slot in range(SLOTS)] == slots


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("0=a:1", {0: ("a", 1)}),
        ("0-1=a:1,2-3=b.example:2", {0: ("a", 1), 1: ("a", 1), 2: ("b.example", 2), 3: ("b.example", 2)}),
        (" 0 = a:1", None),
        ("0=a:1 , 1=[::1]:2", {0: ("a", 1), 1: ("::1", 2)}),
        ("0=a", None),
        ("0=a:65536", None),
        ("0=a:0", None),
        ("0=::1:5", None),
        ("1-0=a:1", None),
        ("4=a:1", None),
        ("0=a:1,0=b:1", None),
        ("x=a:1", None),
    ],
)
def test_peers_are_read(text: str, expected: dict[int, tuple[str, int]] | None) -> None:
    """A list of peers gives each partition its address; a wrong one is an error that begins with `peers:`."""
    if expected is None:
        with pytest.raises(ValueError, match=r"^peers: "):
            parse_peers(text, 4)
    else:
        assert expected == parse_peers(text, 4)


def test_owner_of_every_slot() -> None:
    """Own slots are this worker's, others a peer's, and what nobody names has no owner."""
    cluster = ClusterMap(4, [0, 1], "2=b:7002", HERE)
    owners = [cluster.owner_of(slot) for slot in (0, 8191, 8192, 12287, 12288, SLOTS - 1)]

    assert [HERE, HERE, ("b", 7002), ("b", 7002), None, None] == owners


def test_neighbouring_partitions_are_one_range() -> None:
    """Partitions of one worker that follow each other are one range of slots."""
    cluster = ClusterMap(4, [0, 1, 3], "2=b:7002", HERE)

    assert [(0, 8191), (12288, 16383)] == list(cluster.me.ranges)
    assert [(0, 8191, HERE), (8192, 12287, ("b", 7002)), (12288, 16383, HERE)] == [
        (first, last, node.address) for first, last, node in cluster.ranges()
    ]


def test_workers_name_each_other_alike() -> None:
    """Two workers with the same peers give each node the same id, and each of them calls another one itself."""
    peers = "0-1=a:7001,2-3=b:7002"
    first, second = ClusterMap(4, [0, 1], peers, ("", 0)), ClusterMap(4, [2, 3], peers, ("", 0))

    assert first.ranges() == second.ranges()
    assert (first.me, second.me) == (second.find(first.me.node_id), first.find(second.me.node_id))
    assert len({first.me.node_id, second.me.node_id, first.me.shard_id}) == 3
    assert [40, 40] == [len(first.me.node_id), len(first.me.shard_id)]


def test_announced_address_is_told() -> None:
    """A worker whose partitions the peers do not name is at the address that it announces."""
    cluster = ClusterMap(2, [0], "1=b:2", HERE)

    assert (HERE, ("b", 2)) == (cluster.owner_of(0), cluster.owner_of(SLOTS - 1))
    assert [HERE, ("b", 2)] == [node.address for node in cluster.nodes]


@pytest.mark.parametrize(
    ("own", "peers", "announce", "message"),
    [
        ([0, 1], "0-2=a:1,3=b:2", HERE, "partitions 0-1 are at a:1 there, and this worker, which owns them, announces"),
        ([0], "0=127.0.0.1:7000,1=b:2", ("c", 3), "partitions 0 are at 127.0.0.1:7000 there"),
        ([0], "0-2=a:1,3=b:2", ("a", 1), "partitions 1-2 are at this worker's address there, and `own` does not name"),
        ([0], "0-2=a:1,3=b:2", ("", 0), "partitions 1-2 are at this worker's address there, and `own` does not name"),
    ],
)
def test_own_must_fit_the_peers(own: list[int], peers: str, announce: tuple[str, int], message: str) -> None:
    """What the peers say of a worker's partitions and of its address must be what it says itself."""
    with pytest.raises(ValueError, match=f"^peers: {message}"):
        ClusterMap(4, own, peers, announce)


@pytest.mark.parametrize(
    ("own", "peers", "unknown"),
    [([0], "", [1, 2, 3]), ([0], "2=b:7002", [1, 3]), ([0], "1-3=b:7002", []), ([0, 1, 2, 3], "", [])],
)
def test_partitions_of_nobody_are_warned_of(own: list[int], peers: str, unknown: list[int]) -> None:
    """Partitions that neither the worker nor the peers have are known, and there is a warning that names them."""
    cluster = ClusterMap(4, own, peers, HERE)

    assert unknown == cluster.unknown
    assert bool(unknown) == bool(cluster.warnings)


@pytest.mark.parametrize(("own", "peers"), [([0], "1=b:2"), ([0, 1], "0=a:1,1=b:2"), ([0, 1], "0=a:1"), ([], "0=a:1")])
def test_own_address_must_be_known(own: list[int], peers: str) -> None:
    """Without an announced address the peers must name one address for all of a worker's own partitions."""
    with pytest.raises(ValueError, match=r"^peers: no single address for this worker's partitions"):
        ClusterMap(2, own, peers, ("", 0))


def seeing(*others: Seen) -> See:
    """The first node as this one is, then these."""
    nodes: dict[str, Seen] = {}
    coming = iter((Seen(), *others))

    def see(node: Node) -> Seen:
        if node.node_id not in nodes:
            nodes[node.node_id] = next(coming)
        return nodes[node.node_id]

    return see


def test_nodes_as_text() -> None:
    """A line a node, this one first and called `myself`, each range of slots at its end."""
    cluster = ClusterMap(4, [0, 2], "1=b:7002", HERE)
    me, other = cluster.nodes
    expected = [
        f"{me.node_id} 127.0.0.1:7000@0 myself,master - 0 0 0 connected 0-4095 8192-12287",
        f"{other.node_id} b:7002@0 master - 5 7 0 connected 4096-8191",
    ]

    assert expected == cluster.nodes_text(seeing(Seen(asked_ms=5, answered_ms=7)), lambda _: Seen()).splitlines()


@pytest.mark.parametrize(
    ("health", "flags"),
    [(NodeHealth.ONLINE, "master"), (NodeHealth.SUSPECTED, "master,fail?"), (NodeHealth.FAILED, "master,fail")],
)
def test_nodes_that_do_not_answer_are_flagged(health: NodeHealth, flags: str) -> None:
    """CLUSTER NODES has Redis' flags for a node that is suspected or has failed, and its link as disconnected."""
    cluster = ClusterMap(2, [0], "1=b:7002", HERE)
    seen = seeing(Seen(health=health, connected=False))
    line = cluster.nodes_text(seen, lambda _: Seen()).splitlines()[1]

    assert f"b:7002@0 {flags} - 0 0 0 disconnected 8192-16383" == line.partition(" ")[2]


@pytest.mark.parametrize(
    ("peers", "others", "expected"),
    [
        ("1=b:2,2=c:3", [Seen(), Seen()], ("ok", SLOTS, 0, 0)),
        ("1=b:2,2=c:3", [Seen(health=NodeHealth.SUSPECTED), Seen()], ("ok", 10923, 5461, 0)),
        ("1=b:2,2=c:3", [Seen(health=NodeHealth.FAILED), Seen()], ("fail", 10923, 0, 5461)),
        ("1=b:2,2=c:3", [Seen(health=NodeHealth.SUSPECTED)] * 2, ("fail", 5462, 10922, 0)),
        ("1-2=b:2", [Seen(health=NodeHealth.SUSPECTED)], ("fail", 5462, 10922, 0)),
        ("1=b:2", [Seen()], ("fail", 10923, 0, 0)),
        ("", [], ("fail", 5462, 0, 0)),
    ],
)
def test_state_is_ok_when_all_slots_are_served(
    peers: str, others: list[Seen], expected: tuple[str, int, int, int]
) -> None:
    """CLUSTER INFO says `ok` when every slot has an owner that has not failed, and most owners answer."""
    lines = ClusterMap(3, [0], peers, HERE).info_text(seeing(*others), 3, 4).splitlines()
    fields = dict(line.split(":") for line in lines)

    state, ok, suspected, failed = expected
    assert {
        "cluster_state": state,
        "cluster_slots_ok": str(ok),
        "cluster_slots_pfail": str(suspected),
        "cluster_slots_fail": str(failed),
        "cluster_slots_assigned": str(ok + suspected + failed),
        "cluster_stats_messages_sent": "3",
        "cluster_stats_messages_received": "4",
    } == {name: fields[name] for name in fields if name.startswith(("cluster_sta", "cluster_slots"))}


def test_worker_without_partitions_is_a_node() -> None:
    """A worker that owns nothing knows the others, and itself without slots."""
    cluster = ClusterMap(2, [], "0-1=b:2", HERE)

    assert [(HERE, ()), (("b", 2), ((0, SLOTS - 1),))] == [(node.address, node.ranges) for node in cluster.nodes]


def test_standbys_are_replicas() -> None:
    """A worker that follows partitions of two owners is a replica of each, at its second address, with ids of its own.

    Ranges are cut where other replicas begin. One without such an address is a standby, and is not listed.
    """
    other, third = ("b", 1), ("c", 1)
    cluster = ClusterMap.of_group(
        4,
        HERE,
        {0: HERE, 1: HERE, 2: other, 3: other},
        [other, third],
        {0: [third], 1: [third, other], 2: [third], 3: [HERE]},
        {HERE: ("127.0.0.1", 7001), third: ("c", 2)},
    )
    me, at_other = cluster.nodes[:2]
    mine, first, second = cluster.listed
    lines = cluster.nodes_text(lambda _: Seen(), lambda _: Seen(), at_replica=True).splitlines()

    assert [(("127.0.0.1", 7001), at_other, (3,)), (("c", 2), me, (0, 1)), (("c", 2), at_other, (2,))] == [
        (each.address, each.master, each.partitions) for each in cluster.listed
    ]
    assert [(0, 8191, me, (first,)), (8192, 12287, at_other, (second,)), (12288, 16383, at_other, (mine,))] == (
        cluster.shares()
    )
    assert [f"{mine.node_id} 127.0.0.1:7001@0 myself,slave {at_other.node_id} 0 0 0 connected"] == [
        line for line in lines if "myself" in line
    ]
    assert 6 == len({line.split()[0] for line in lines})
    assert [(other, False)] == [(each.address, each.is_listed) for each in cluster.replicas if not each.is_listed]

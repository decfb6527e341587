"""Who owns which slots, as workers are told by `--peers` and as cluster clients ask for it."""

from __future__ import annotations

import pytest

from engine.limits import SLOTS
from engine.slots import partition_of
from ingest.resp.cluster import ClusterMap, parse_peers, slot_range

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
    """An address of this worker's own goes before the peers' entry for its partitions."""
    cluster = ClusterMap(2, [0], "0=wrong:1,1=b:2", HERE)

    assert (HERE, ("b", 2)) == (cluster.owner_of(0), cluster.owner_of(SLOTS - 1))
    assert [HERE, ("b", 2)] == [node.address for node in cluster.nodes]


@pytest.mark.parametrize(("own", "peers"), [([0], "1=b:2"), ([0, 1], "0=a:1,1=b:2"), ([0, 1], "0=a:1"), ([], "0=a:1")])
def test_own_address_must_be_known(own: list[int], peers: str) -> None:
    """Without an announced address the peers must name one address for all of a worker's own partitions."""
    with pytest.raises(ValueError, match=r"^peers: no single address for this worker's partitions"):
        ClusterMap(2, own, peers, ("", 0))


def test_nodes_as_text() -> None:
    """A line a node, this one first and called `myself`, each range of slots at its end."""
    cluster = ClusterMap(4, [0, 2], "1=b:7002", HERE)
    me, other = cluster.nodes
    expected = [
        f"{me.node_id} 127.0.0.1:7000@0 myself,master - 0 0 0 connected 0-4095 8192-12287",
        f"{other.node_id} b:7002@0 master - 0 0 0 connected 4096-8191",
    ]

    assert expected == cluster.nodes_text().splitlines()


@pytest.mark.parametrize(("peers", "state", "assigned"), [("1=b:2", "ok", SLOTS), ("", "fail", SLOTS // 2)])
def test_state_is_ok_when_all_slots_have_an_owner(peers: str, state: str, assigned: int) -> None:
    """CLUSTER INFO says `ok` when every slot has an owner, and how many have one."""
    lines = ClusterMap(2, [0], peers, HERE).info_text().splitlines()

    assert [f"cluster_state:{state}", f"cluster_slots_assigned:{assigned}"] == lines[:2]


def test_worker_without_partitions_is_a_node() -> None:
    """A worker that owns nothing knows the others, and itself without slots."""
    cluster = ClusterMap(2, [], "0-1=b:2", HERE)

    assert [(HERE, ()), (("b", 2), ((0, SLOTS - 1),))] == [(node.address, node.ranges) for node in cluster.nodes]

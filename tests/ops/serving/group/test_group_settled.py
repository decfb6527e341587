"""The reasons why a group is not at rest, which `/readyz` names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ingest.membership import Member, Plan, Role
from ops.serving.group.settled import unsettled
from resp.cluster.nodes import Node
from resp.cluster.topology import ClusterMap

_ME, _OTHER = ("10.0.0.1", 6379), ("10.0.0.2", 6379)


class _Group:
    """This worker, `a`, owns partition 0 and follows 1; `b` does it the other way round. All is well at first."""

    def __init__(self) -> None:
        members = {name: Member(name, resp=f"{host}:{port}") for name, (host, port) in (("a", _ME), ("b", _OTHER))}
        self.plan = Plan(members, {0: "a", 1: "b"}, {0: ("b",), 1: ("a",)}, {}, {})
        self.owned: dict[int, Any] = {
            partition: SimpleNamespace(role=role, worker=SimpleNamespace(is_open=True))
            for partition, role in enumerate([Role.OWNER, Role.FOLLOWER])
        }
        self.served = {(_ME, 0), (_OTHER, 1)}
        self.followed = {(_ME, 1), (_OTHER, 0)}
        self.cluster = ClusterMap.of_group(2, _ME, {0: _ME, 1: _OTHER}, [_OTHER], {0: [_OTHER], 1: [_ME]})
        self.bus = SimpleNamespace(peers=self)

    def serves(self, worker: Node, partition: int) -> bool:
        """As `Peers`."""
        return (worker.address, partition) in self.served

    def followed_to(self, worker: Node, partition: int) -> int | None:
        """As `Peers`."""
        return 7 if (worker.address, partition) in self.followed else None

    def reason(self) -> str:
        """Why it is not at rest."""
        consumer: Any = SimpleNamespace(every=self.owned)
        return unsettled(self.plan, "a", consumer, cast("Any", self))


def test_a_group_is_at_rest_when_every_copy_answers() -> None:
    """Nothing moves, and every owner and standby answers as its worker says."""
    assert "" == _Group().reason()


def test_a_partition_that_is_to_move() -> None:
    """Somebody is warmed, wherever that is."""
    group = _Group()
    group.plan = Plan(group.plan.members, group.plan.owners, group.plan.standbys, {1: "a"}, {})
    assert group.reason().startswith("partition 1 is to move to a, ")


def test_a_role_that_this_worker_has_not_taken_yet() -> None:
    """Its own partitions are open, in the roles of the plan."""
    for spoil in ({"role": Role.NONE}, {"worker": SimpleNamespace(is_open=False)}):
        group = _Group()
        vars(group.owned[1]).update(spoil)
        assert "partition 1 is being opened, to have it as its follower" == group.reason()


def test_an_owner_or_a_standby_elsewhere_that_does_not_answer() -> None:
    """The next worker is not to be stopped while another one's partitions are not whole, which are named."""
    group = _Group()
    group.served.remove((_OTHER, 1))
    assert "partition 1 is not served yet, at 10.0.0.2:6379" == group.reason()
    group = _Group()
    group.followed.remove((_OTHER, 0))
    assert "partition 0 has 1 standby not at its end yet, at 10.0.0.2:6379" == group.reason()


def test_a_worker_without_clients_is_not_asked() -> None:
    """What a worker owns that has no address for clients nobody can ask about."""
    group = _Group()
    members = {**group.plan.members, "b": Member("b")}
    group.plan = Plan(members, group.plan.owners, {0: (), 1: ("a",)}, {}, {})
    group.cluster = ClusterMap.of_group(2, _ME, {0: _ME}, [], {1: [_ME]})
    assert "" == group.reason()

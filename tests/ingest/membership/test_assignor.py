"""The assignor: whatever the members are, and how a simulated group of them comes to rest."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.membership.assignor import WARM_EVENTS, assign
from ingest.membership.plan import Member, Plan, Role
from tests.ingest.membership.groups import Group

_PARTITIONS = 12
_SEEDS = int(os.environ.get("GROUP_SEEDS", "1"))
_CHANGES = int(os.environ.get("GROUP_CHANGES", "2"))

_events = st.sampled_from([0, 1, WARM_EVENTS, WARM_EVENTS + 1, 1_000_000])
_sets = st.frozensets(st.integers(0, _PARTITIONS + 1), max_size=_PARTITIONS)


@st.composite
def _members(draw: st.DrawFn) -> list[Member]:
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1))
    return [
        Member(
            name,
            draw(st.sampled_from(["", "x", "y"])),
            owns=draw(_sets),
            follows=draw(_sets),
            behind=draw(st.dictionaries(st.integers(0, _PARTITIONS + 1), _events)),
            leaves=draw(st.booleans()),
        )
        for name in names
    ]


def _staying(members: list[Member]) -> list[Member]:
    """Those who do not leave; all where everybody does."""
    return [member for member in members if not member.leaves] or members


def _warm(members: list[Member], partition: int) -> set[str]:
    return {member.name for member in members if member.behind.get(partition, WARM_EVENTS + 1) <= WARM_EVENTS}


def _final(plan: Plan) -> list[str]:
    """Every partition's owner once all that is being warmed is warm."""
    return [plan.warming.get(each, name) for each, name in plan.owners.items()]


@given(_members(), st.integers(0, 3))
def test_each_partition_has_one_owner_and_its_standbys(members: list[Member], standbys: int) -> None:
    """Each partition has one owner, and as many others who stay as asked for or as there are, each of them once."""
    plan = assign(members, _PARTITIONS, standbys)
    assert list(range(_PARTITIONS)) == sorted(plan.owners)
    for partition, owner in plan.owners.items():
        chosen, others = plan.standbys[partition], {member.name for member in _staying(members)} - {owner}
        assert min(standbys, len(others)) == len(chosen)
        assert others >= {*chosen}
        assert len(chosen) == len({*chosen} - {owner})
        assert plan.warming.get(partition) != owner


@given(_members(), st.integers(0, 3))
def test_no_cold_owner_where_somebody_is_warm(members: list[Member], standbys: int) -> None:
    """A partition of which somebody has a warm state is owned by one who has."""
    plan = assign(members, _PARTITIONS, standbys)
    cold = [each for each, owner in plan.owners.items() if (warm := _warm(members, each)) and owner not in warm]
    assert [] == cold


@given(_members())
def test_balanced_once_warm(members: list[Member]) -> None:
    """When all that is under way is done, those who stay own everything, each as much as another within one."""
    final = _final(assign(members, _PARTITIONS))
    counts = [final.count(member.name) for member in _staying(members)]
    assert max(counts) - min(counts) <= 1
    assert _PARTITIONS == sum(counts)


@given(_members())
def test_who_leaves_owns_what_nobody_else_can_serve(members: list[Member]) -> None:
    """A member that leaves owns nothing of which somebody who stays has a warm state that is open."""
    plan = assign(members, _PARTITIONS)
    staying = _staying(members)
    kept = [
        partition
        for partition, owner in plan.owners.items()
        if owner not in {member.name for member in staying}
        and {member.name for member in staying if partition in member.owns | member.follows} & _warm(members, partition)
    ]
    assert [] == kept


@given(_members())
def test_an_owner_that_is_warm_gives_up_to_nobody_who_has_to_open_its_state(members: list[Member]) -> None:
    """A partition that is served goes to a member that follows it: a state on a disk is followed first."""
    plan = assign(members, _PARTITIONS)
    by_name = {member.name: member for member in members}
    served = {
        partition
        for partition in plan.owners
        for member in members
        if partition in member.owns and member.behind.get(partition) == 0
    }
    cold = [each for each in served if each not in by_name[plan.owners[each]].owns | by_name[plan.owners[each]].follows]
    assert [] == cold


@given(_members(), st.integers(0, 3))
def test_standbys_in_another_zone(members: list[Member], standbys: int) -> None:
    """As many zones as can be have a copy of each partition."""
    zones = {member.name: member.zone for member in members}
    plan = assign(members, _PARTITIONS, standbys)
    for partition, owner in plan.owners.items():
        there = {zones[owner], *(member.zone for member in _staying(members))}
        found = {zones[name] for name in (owner, *plan.standbys[partition])}
        assert min(len(there), 1 + len(plan.standbys[partition])) == len(found)


@given(_members(), st.integers(0, 3), st.randoms())
@settings(max_examples=30)
def test_same_plan_in_any_order(members: list[Member], standbys: int, random: object) -> None:
    """The order in which Kafka names the members does not matter."""
    plan = assign(members, _PARTITIONS, standbys)
    random.shuffle(members)  # type: ignore[attr-defined]
    assert plan == assign(members, _PARTITIONS, standbys)


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 2), st.integers(0, 99))
@settings(max_examples=50)
def test_nothing_moves_without_a_change(partitions: int, workers: int, standbys: int, seed: int) -> None:
    """A group at rest gets the same plan again and again, however little its members' lag changes."""
    group = Group(partitions, standbys, seed)
    for number in range(workers):
        group.join(f"w{number}", f"z{number % 3}")
    group.settle()
    plan = group.plan
    for _ in range(3):
        group.round()
    assert (plan.owners, plan.standbys, {}) == (group.plan.owners, group.plan.standbys, group.plan.warming)


def test_a_new_worker_is_warmed_before_it_owns() -> None:
    """Who joins an only worker follows half of its partitions first, and owns them when it is near the log's end."""
    old = Member("old", owns=frozenset(range(4)), behind=dict.fromkeys(range(4), 0))
    first = assign([old, Member("new")], 4)
    assert {"old"} == {*first.owners.values()}
    assert 2 == len(first.warming)
    follows = frozenset(first.warming)
    warm = Member("new", follows=follows, behind=dict.fromkeys(follows, WARM_EVENTS))
    second = assign([old, warm], 4)
    assert follows == {each for each, owner in second.owners.items() if owner == "new"}
    assert {} == second.warming


def test_who_has_not_opened_yet_keeps_what_it_was_given() -> None:
    """A worker that was alone, and owns nothing until its state is open, loses nothing to one that joins meanwhile."""
    opening = Member("z", follows=frozenset({0}), behind={0: 1_000_000})
    plan = assign([Member("a"), opening], 1, 1)

    assert ({0: "z"}, {}, {0: ("a",)}) == (plan.owners, plan.warming, plan.standbys)


def test_a_worker_that_leaves_hands_over_to_its_standbys() -> None:
    """What it owns goes to who follows it, at once; what nobody follows is followed first, and nothing else moves."""
    leaver = Member("a", owns=frozenset({0, 1}), behind={0: 0, 1: 0}, leaves=True)
    standby = Member("b", owns=frozenset({2}), follows=frozenset({0}), behind={0: 5, 1: 9, 2: 0})
    other = Member("c", owns=frozenset({3}), behind={3: 0})
    plan = assign([leaver, standby, other], 4, 1)
    assert {0: "b", 1: "a", 2: "b", 3: "c"} == plan.owners
    assert {1: "c"} == plan.warming
    assert "a" == plan.former[0]
    assert "a" not in {name for names in plan.standbys.values() for name in names}


def test_who_is_alone_keeps_all_while_it_leaves() -> None:
    """Where nobody stays each owner keeps what it has: a group that ends as a whole moves nothing."""
    members = [Member(name, owns=frozenset({part}), behind={part: 0}) for part, name in enumerate("ab")]
    leaving = [Member(each.name, owns=each.owns, behind=each.behind, leaves=True) for each in members]
    assert assign(members, 2, 1).owners == assign(leaving, 2, 1).owners
    assert {0: "a", 1: "a"} == assign(leaving[:1], 2, 1).owners
    assert not assign(leaving, 2).stays


def test_roles_of_a_member() -> None:
    """A member's roles come from the three parts of a plan."""
    plan = Plan({}, {0: "a", 1: "b", 2: "b", 3: "b"}, {0: ("b",), 1: ("a",), 2: (), 3: ()}, {2: "a"}, {})
    assert {0: Role.OWNER, 1: Role.FOLLOWER, 2: Role.FOLLOWER} == plan.roles("a")


def test_nobody_is_there() -> None:
    """Without members nobody owns anything."""
    assert Plan({}, {}, {}, {}, {}) == assign([], 4, 1)


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_thousand_partitions_on_a_hundred_workers(seed: int) -> None:
    """1,000 partitions, 100 workers in 3 zones that come, go and come back: balanced, never cold, few moves.

    While a worker joins no more moves are made than balance needs. Of a worker that leaves or dies each partition goes
    to a standby at once, and some of them a second time: not every standby has room for it.
    """
    group = Group(1_000, 1, seed)
    for number in range(100):
        group.join(f"w{number:03}", f"z{number % 3}")
    group.settle()
    for change in range(_CHANGES):
        name = group.random.choice(sorted(group.behind))
        if change % 2:
            name = f"n{change:03}"
            group.join(name, f"z{change % 3}", held=range(change))
        elif change % 4:
            group.leave(name)
        else:
            group.end(name)
        fewest, group.moves = group.fewest_moves(), 0
        group.settle()
        assert [] == group.cold
        assert {10, 11} >= {*group.counts()}
        assert fewest <= group.moves <= (fewest if change % 2 else 2 * fewest)

"""Assigns partitions to the members of a group: a pure function, which whichever member leads the group calls.

The *goal* is balanced within one partition, and moves as few as that needs. A partition goes to a new owner only when
that one's state is *warm*, near the log's end. Until then whoever has a warm state owns it, and the new owner follows
the log (Kafka Streams does the same: KIP-441). A member whose state has become warm joins the group anew.

A partition that has an owner goes only to a member that follows it: a state that lies on a disk is followed first. A
member that leaves keeps what it owns until somebody who stays has it warm. Where all leave, all is as if they stayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ingest.membership.plan import Member, Plan

WARM_EVENTS: Final = 10_000
"""A state not further behind is warm: an owner applies so much in a moment."""


def assign(members: Iterable[Member], partitions: int, standbys: int = 0, *, warm_events: int = WARM_EVENTS) -> Plan:
    """The plan for these members.

    Args:
        members: all of the group, with names of their own.
        partitions: of the topic.
        standbys: followers that each partition is to have beside its owner, as far as there are members.
        warm_events: how far behind the log a warm state is at most.

    Returns:
        Which depends on the arguments alone, not on their order. Without members nobody owns anything.
    """
    by_name = {member.name: member for member in sorted(members, key=lambda each: each.name)}
    if not by_name:
        return Plan({}, {}, {}, {}, {})
    staying = {name: member for name, member in by_name.items() if not member.leaves} or by_name
    holders = _Holders(by_name, partitions, warm_events)
    goal = _goal(staying, holders, partitions)
    owners, moving = _owners_now(goal, holders, staying)
    chosen = _Standbys(staying, by_name, holders, owners, moving, standbys).choose()
    former = {partition: name for partition, name in holders.owners.items() if name != owners[partition]}
    return Plan(by_name, owners, chosen, moving, former)


class _Holders:
    """Who holds a state of which partition.

    Attributes:
        behind: partition -> member -> events behind the log.
        warm: partition -> members whose state is warm, the nearest to the log's end first.
        open: partition -> members that own or follow it now.
        owners: partition -> who owns it now and is there. Of two, the one that is less behind.
    """

    def __init__(self, members: Mapping[str, Member], partitions: int, warm_events: int) -> None:
        self.behind: dict[int, dict[str, int]] = {partition: {} for partition in range(partitions)}
        self.owners: dict[int, str] = {}
        for name, member in members.items():
            for partition, events in member.behind.items():
                if partition in self.behind:
                    self.behind[partition][name] = events
        self.warm = {
            partition: sorted((name for name in held if held[name] <= warm_events), key=lambda each: (held[each], each))
            for partition, held in self.behind.items()
        }
        self.open: dict[int, set[str]] = {partition: set() for partition in range(partitions)}
        for name, member in members.items():
            for partition in (member.owns | member.follows) & self.behind.keys():
                self.open[partition].add(name)
            for partition in member.owns & self.behind.keys():
                other = self.owners.get(partition)
                if other is None or self._is_nearer(partition, name, other):
                    self.owners[partition] = name

    def _is_nearer(self, partition: int, name: str, other: str) -> bool:
        held = self.behind[partition]
        return name in held and (other not in held or held[name] < held[other])


def _goal(members: Mapping[str, Member], holders: _Holders, partitions: int) -> dict[int, str]:
    """The owner that each partition is to have in the end: balanced within one, with the fewest moves."""
    owners = {partition: name for partition, name in holders.owners.items() if name in members}
    owned: dict[str, list[int]] = {name: [] for name in members}
    for partition, name in owners.items():
        owned[name].append(partition)
    share, extra = divmod(partitions, len(members))
    # One more is for who owns most, then for who holds most states: else it is soon moved to who holds none.
    held = {name: sum(name in each for each in holders.behind.values()) for name in members}
    by_count = sorted(members, key=lambda name: (-len(owned[name]), -held[name], name))
    quota = {name: share + (place < extra) for place, name in enumerate(by_count)}
    surplus = {name: max(0, len(owned[name]) - quota[name]) for name in members}
    room = {name: max(0, quota[name] - len(owned[name])) for name in members}
    goal = dict(owners)

    def give(partition: int, name: str) -> None:
        former = owners.get(partition)
        if former is not None:
            surplus[former] -= 1
        room[name] -= 1
        goal[partition] = name

    # What has no owner first, then what its owner has too much of, each to whoever is nearest to having it.
    given: set[int] = set()
    pairs = (
        (partition in owners, partition not in members[name].follows, events, partition, name)
        for partition, states in holders.behind.items()
        for name, events in states.items()
        if name in members
    )
    for is_owned, _, _, partition, name in sorted(pairs):
        if partition in given or not room[name] or (is_owned and not surplus[owners[partition]]):
            continue
        give(partition, name)
        given.add(partition)
    wanting = [name for name in members for _ in range(room[name])]
    for partition in sorted(range(partitions), key=lambda each: (each in owners, -each)):
        if partition in given:
            continue
        if partition not in owners or surplus[owners[partition]]:
            give(partition, wanting.pop())
    return goal


def _owners_now(
    goal: Mapping[int, str], holders: _Holders, staying: Mapping[str, Member]
) -> tuple[dict[int, str], dict[int, str]]:
    """Who owns each partition at once, and the goal of those that are not there yet."""
    owners: dict[int, str] = {}
    moving: dict[int, str] = {}
    load: dict[str, int] = {}
    for partition in sorted(goal):
        name = goal[partition]
        owners[partition] = owner = _owner_now(partition, name, holders, staying, load)
        load[owner] = load.get(owner, 0) + 1
        if owner != name:
            moving[partition] = name
    return owners, moving


def _owner_now(
    partition: int, name: str, holders: _Holders, staying: Mapping[str, Member], load: Mapping[str, int]
) -> str:
    """Who owns a partition at once that `name` is to own in the end.

    That one does as soon as it is warm, or when nobody is nearer to that.
    """
    warm, held, former = holders.warm[partition], holders.behind[partition], holders.owners.get(partition)
    is_served = former is not None and former in warm
    ready = [each for each in warm if each in staying and (not is_served or each in holders.open[partition])]
    if name in ready or not held:
        return name
    if former is not None and is_served and (former in staying or not ready):
        return former
    if warm:
        return min(ready or warm, key=lambda each: (load.get(each, 0), held[each], each))
    return min(held, key=lambda each: (held[each], each not in staying, each != former, each != name, each))


class _Standbys:
    """Chooses followers: in other zones than the owner's and each other's, who follows already, who has few."""

    def __init__(
        self,
        members: Mapping[str, Member],
        everybody: Mapping[str, Member],
        holders: _Holders,
        owners: Mapping[int, str],
        moving: Mapping[int, str],
        count: int,
    ) -> None:
        self._members = members
        self._everybody = everybody
        self._holders = holders
        self._owners = owners
        self._moving = moving
        self._count = count
        self._load = dict.fromkeys(members, 0)
        self._share = -(-len(owners) * min(count, len(members) - 1) // len(members))

    def choose(self) -> dict[int, tuple[str, ...]]:
        """The followers of each partition."""
        return {partition: tuple(self._of(partition)) for partition in sorted(self._owners)}

    def _of(self, partition: int) -> list[str]:
        chosen: list[str] = []
        owner = self._owners[partition]
        zones = {self._everybody[owner].zone}
        for _ in range(min(self._count, len(self._members) - (owner in self._members))):
            free = [name for name in self._members if name != owner and name not in chosen]
            name = min(free, key=lambda each: self._rank(partition, each, zones))
            chosen.append(name)
            zones.add(self._members[name].zone)
            self._load[name] += 1
        return chosen

    def _rank(self, partition: int, name: str, zones: set[str]) -> tuple[bool, bool, bool, bool, int, int, str]:
        """The lowest is chosen. One with more than its share gives up what it follows."""
        member, load, behind = self._members[name], self._load[name], self._holders.behind[partition].get(name)
        follows = partition in member.follows or self._moving.get(partition) == name
        return (
            member.zone in zones,
            load >= self._share,
            not follows,
            behind is None,
            0 if behind is None else behind,
            load,
            name,
        )

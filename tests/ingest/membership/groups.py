"""A simulated group: its members' states, and what a plan does to them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from ingest.membership.assignor import WARM_EVENTS, assign
from ingest.membership.plan import Member, Plan, Role

_COLD_EVENTS = 1_000_000


class Group:
    """Members with states of a topic's partitions. In each round they join anew, and do what the plan says.

    Attributes:
        plan: the last one.
        moves: owners that changed since `moves` was set to 0; the first owner of a partition is no move.
        cold: partitions that went to an owner without a warm state where somebody had one, ever.
    """

    def __init__(self, partitions: int, standbys: int, seed: int) -> None:
        self.partitions = partitions
        self.standbys = standbys
        self.random = Random(seed)
        self.zones: dict[str, str] = {}
        self.behind: dict[str, dict[int, int]] = {}
        self.plan = Plan({}, {}, {}, {}, {})
        self.moves = 0
        self.cold: list[int] = []
        self.leaving: set[str] = set()

    def join(self, name: str, zone: str, held: Iterable[int] = ()) -> None:
        """A worker starts; it has old states of the partitions in `held`."""
        self.zones[name] = zone
        self.behind[name] = dict.fromkeys(held, _COLD_EVENTS)

    def leave(self, name: str) -> None:
        """A worker dies with its disk."""
        del self.zones[name], self.behind[name]

    def end(self, name: str) -> None:
        """A worker says that it leaves, and does so when it owns nothing."""
        self.leaving.add(name)

    def members(self) -> list[Member]:
        """What each says of itself, in any order."""
        members = []
        for name, behind in self.behind.items():
            roles = self.plan.roles(name)
            owns = frozenset(each for each, role in roles.items() if role is Role.OWNER)
            follows, leaves = frozenset(roles) - owns, name in self.leaving
            members.append(
                Member(name, self.zones[name], owns=owns, follows=follows, behind=dict(behind), leaves=leaves)
            )
        self.random.shuffle(members)
        return members

    def fewest_moves(self) -> int:
        """How many partitions must change owners so that those who are there are balanced."""
        owned = dict.fromkeys(self.behind.keys() - self.leaving, 0)
        for name in self.plan.owners.values():
            if name in owned:
                owned[name] += 1
        share, extra = divmod(self.partitions, len(owned))
        quotas = [share + (place < extra) for place in range(len(owned))]
        kept = sum(min(count, quota) for count, quota in zip(sorted(owned.values(), reverse=True), quotas, strict=True))
        return len(self.plan.owners) - kept

    def round(self) -> bool:
        """Assign, and let followers come some way nearer; returns whether anything is still under way."""
        members = self.members()
        plan = assign(members, self.partitions, self.standbys)
        warm = {
            each: {m.name for m in members if m.behind.get(each, _COLD_EVENTS) <= WARM_EVENTS} for each in plan.owners
        }
        self.cold += [each for each, name in plan.owners.items() if warm[each] and name not in warm[each]]
        self.moves += sum(name != self.plan.owners.get(each, name) for each, name in plan.owners.items())
        changed = (plan.owners, plan.standbys, plan.warming) != (
            self.plan.owners,
            self.plan.standbys,
            self.plan.warming,
        )
        self.plan = plan
        for name in self.leaving - {*plan.owners.values()}:
            self.leave(name)
            self.leaving.remove(name)
            changed = True
        far = False
        for name, behind in self.behind.items():
            roles = plan.roles(name)
            for partition in {*behind, *roles}:
                events = behind.get(partition, _COLD_EVENTS)
                behind[partition] = max(0, events - _COLD_EVENTS // 2) if partition in roles else events + 1_000
                far |= partition in roles and behind[partition] > 0
        return changed or far or bool(plan.warming)

    def settle(self) -> None:
        """Rounds until nothing is under way."""
        for _ in range(20):
            if not self.round():
                return
        raise AssertionError("the group does not come to rest")

    def counts(self) -> list[int]:
        """How many partitions each member owns, ascending."""
        owners = list(self.plan.owners.values())
        return sorted(owners.count(name) for name in self.behind)

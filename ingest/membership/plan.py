"""The members of a group as their assignor sees them, and its plan: who owns, follows and warms which partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """The relation of a worker to a partition. The value is a metric's label.

    A follower applies the same log into a state of its own and says nothing: no dead letters, no ticks, no replies.
    """

    OWNER = "owner"
    FOLLOWER = "follower"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, as it describes itself when it joins.

    Attributes:
        name: its own among all members, the same after a restart where membership is static.
        zone: where it runs; members of one zone may fail together. Empty: not told.
        resp, http: the addresses at which Redis clients and operators reach it; empty: none.
        replica: the address at which Redis clients reach it as a replica; empty: none.
        sentinel: the address at which they reach it as a Sentinel; empty: none.
        leaves: it ends soon, and is to own and follow nothing.
        partitions, standbys: of its topic, and the followers that each of them is to have. For a leader that applies
            another topic. 0: an older release, which does not tell.
        owns, follows: the partitions that it owns now, and those that it follows.
        behind: partitions of which it holds a state, and by how many events that is behind the log.
    """

    name: str
    zone: str = ""
    resp: str = ""
    http: str = ""
    owns: frozenset[int] = frozenset()
    follows: frozenset[int] = frozenset()
    behind: Mapping[int, int] = field(default_factory=dict)
    replica: str = ""
    sentinel: str = ""
    leaves: bool = False
    partitions: int = 0
    standbys: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The owners and followers of all partitions, the same for all members.

    Attributes:
        members: by name; what they hold is left out of what is sent to them.
        owners: the owner of each partition.
        standbys: the followers of each partition that are to stay so.
        warming: partitions that shall move, and to whom: a follower until its state is warm, then the owner.
        former: of partitions that change owners with this plan, those who owned them and are still there.
    """

    members: Mapping[str, Member]
    owners: Mapping[int, str]
    standbys: Mapping[int, tuple[str, ...]]
    warming: Mapping[int, str]
    former: Mapping[int, str]

    def role(self, name: str, partition: int) -> Role:
        """What a member is to a partition."""
        if self.owners.get(partition) == name:
            return Role.OWNER
        follows = name in self.standbys.get(partition, ()) or self.warming.get(partition) == name
        return Role.FOLLOWER if follows else Role.NONE

    def roles(self, name: str) -> dict[int, Role]:
        """The partitions that a member owns or follows, ascending."""
        found = {partition: self.role(name, partition) for partition in sorted(self.owners)}
        return {partition: role for partition, role in found.items() if role is not Role.NONE}

    @property
    def stays(self) -> bool:
        """Whether there is a member that does not leave."""
        return any(not member.leaves for member in self.members.values())

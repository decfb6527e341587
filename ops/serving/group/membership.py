"""Keeps a worker's part of the last plan of its group, and whether it may own anything now."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import structlog

from ingest.membership import Plan, Role
from resp.server import Server

if TYPE_CHECKING:
    from ingest.membership.group_member import GroupMember

logger = structlog.get_logger(__name__)


class Membership:
    """One worker's membership of its group.

    A *term* is a time for which the worker is a member without a break. Between two terms others may have owned what
    it owned, so it owns a partition only in the term in which it has taken it.

    Args:
        name: of this worker among the members.
        server: is told until when it may own anything; None: nobody is served.

    Attributes:
        name: of this worker.
        plan: the last one of the group.
        planned_at: when that came, on the monotonic clock.
        rebalances: plans that have come.
        member: speaks for the worker in the group; None: it has not begun.
        is_current: whether it was a member at the last look.
        term: the number of the term.
    """

    def __init__(self, name: str, server: Server | None) -> None:
        self.name = name
        self.plan = Plan({}, {}, {}, {}, {})
        self.planned_at = 0.0
        self.rebalances = 0
        self.member: GroupMember | None = None
        self.is_current = False
        self.term = 0
        self._server = server
        self._current_until = 0.0
        self._taken_in: dict[int, int] = {}  # the term in which each partition was taken

    def planned(self, plan: Plan) -> None:
        """The group has a new plan."""
        self.plan, self.planned_at = plan, monotonic()
        self.rebalances += 1
        logger.info(
            "group_plan",
            members=len(plan.members),
            own=[each for each, owner in plan.owners.items() if owner == self.name],
            warming={each: name for each, name in plan.warming.items() if self.name in {name, plan.owners[each]}},
        )

    def renewed(self, until: float) -> None:
        """This worker is a member until then, on the monotonic clock, if nothing else is heard."""
        if monotonic() >= self._current_until:  # others may have owned what it owned, if nobody has looked meanwhile
            self.term += 1
        self._current_until = until
        if self._server is not None:
            self._server.owns_until = until

    def look(self) -> None:
        """Find out whether this worker is a member now."""
        self.is_current = self.member is not None and self.member.is_current and not self._has_lapsed()

    def took(self, partition: int, term: int) -> None:
        """Note in which term this worker has taken a partition."""
        self._taken_in[partition] = term

    def took_in_this_term(self, partition: int) -> bool:
        """Whether nobody else can have owned a partition since this worker has taken it."""
        return self._taken_in.get(partition) == self.term

    def may_speak(self) -> bool:
        """Whether nobody else can own what this worker owns.

        Asked where that counts: `is_current` is as of a moment ago, and the process may have stood still since.
        """
        return self.is_current and self.member is not None and self.member.is_current

    def may_speak_of(self, partition: int) -> bool:
        """Whether nobody else can own a partition that this worker owns, or can have since it has taken it."""
        return self.may_speak() and self.took_in_this_term(partition)

    def wanted_role(self, partition: int, role: Role) -> Role:
        """The role that this worker should have in a partition in which it now has `role`."""
        planned = self.plan.role(self.name, partition)
        is_old = role is Role.OWNER and not self.took_in_this_term(partition)
        return Role.FOLLOWER if planned is Role.OWNER and (is_old or not self.is_current) else planned

    def _has_lapsed(self) -> bool:
        """Whether the server has met the end of its time, even if Kafka has taken a heartbeat since."""
        if self._server is None or not self._server.has_lapsed:
            return False
        self._server.has_lapsed = bool(self._server.pipelines)
        return True

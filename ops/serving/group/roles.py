"""Keeps the roles that a group gives to this worker, and tells the group of it.

Where this worker cannot know that it still is a member, it owns nothing: it follows what it has owned. So it does where
it finds only afterwards that its time was over for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog

from ingest.applying.consumer import Consumer
from ingest.membership import Member, Plan, Role
from ingest.membership.assignor import WARM_EVENTS
from ops.config import Settings
from ops.metrics.workers import GroupFigures
from ops.serving.group.addresses import addresses_of, map_of
from ops.serving.group.lags import GroupLags
from ops.serving.group.membership import Membership
from ops.serving.group.role_changes import RETRY_SECONDS, RoleChanges, until
from ops.serving.group.settled import is_served, unsettled
from ops.serving.keeping.restoring import Restorer
from resp.server import Server
from slotlog.errors import LogUnavailableError

if TYPE_CHECKING:
    from ingest.membership.group_member import GroupMember

_LOOK_SECONDS: Final = 0.1
_REJOIN_SECONDS: Final = 2.0

logger = structlog.get_logger(__name__)


class GroupRoles:
    """The roles of one worker, as its group says.

    Args:
        settings: of the service.
        name: of this worker among the members.
        consumer: applies the partitions; in no role at the start.
        server: serves them; None: nobody is served.
        restorer: restores a state that is not there.
        lags: how far its states are behind.

    Attributes:
        membership: what the group says of this worker.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        consumer: Consumer,
        server: Server | None,
        restorer: Restorer,
        lags: GroupLags,
    ) -> None:
        self.membership = Membership(name, server)
        self._settings = settings
        self._name = name
        self._consumer = consumer
        self._server = server
        self._lags = lags
        self._changes = RoleChanges(settings, self.membership, consumer, server, restorer, lags)
        self._changing: dict[int, asyncio.Task[None]] = {}
        self._rejoin_at = 0.0
        self._leaves = self._has_come = False
        if server is not None:
            server.bus.on_applied = self.owner_at
        self._woken = asyncio.Event()

    # ------------------------------------------------------------------ of the member

    def describe(self) -> Member:
        """This worker, for the leader of the group."""
        roles = self.membership.plan.roles(self._name)
        owns = frozenset(each for each, role in roles.items() if role is Role.OWNER and self.membership.may_speak())
        behind = {partition: self._told_behind(partition) for partition in self._lags.there}
        resp, replica, sentinel = addresses_of(self._settings, self._server)
        follows = frozenset(roles) - owns
        return Member(
            self._name,
            self._settings.group.zone,
            resp,
            self._settings.http,
            owns,
            follows,
            behind,
            replica,
            sentinel,
            self._leaves,
            self._settings.partitions,
            self._settings.group.standbys,
        )

    def planned(self, plan: Plan) -> None:
        """The group has a new plan."""
        self.membership.planned(plan)
        self._woken.set()

    def positions(self) -> dict[int, int]:
        """How far it is in each partition that it owns, and has owned without a break: else others have said more."""
        mine = {each: owned for each, owned in self._consumer.every.items() if owned.role is Role.OWNER}
        offsets = {each: owned.said_to for each, owned in mine.items() if self.membership.took_in_this_term(each)}
        return {partition: offset for partition, offset in offsets.items() if offset is not None}

    def owner_at(self, partition: int, offset: int) -> None:
        """A partition's owner has applied everything before an offset."""
        self._lags.owner_at(partition, offset)
        if self._server is not None and partition in self._server.replicas:
            self._server.replicas[partition].heard(self._consumer.every[partition].owner_offset)

    def figures(self) -> GroupFigures:
        """The group as metrics tell of it."""
        group, plan = self._settings.group, self.membership.plan
        if not group.name:
            return GroupFigures()
        wanted = group.standbys * len(plan.owners)
        followed = [each for each, owned in self._consumer.every.items() if owned.role is Role.FOLLOWER]
        return GroupFigures(
            members=len(plan.members),
            rebalances=self.membership.rebalances,
            is_lost=not self.membership.is_current,
            standbys_missing=wanted - sum(map(len, plan.standbys.values())),
            moving=len(plan.warming),
            behind={partition: self._lags.behind(partition) for partition in followed},
        )

    # ------------------------------------------------------------------ life

    async def run(self, member: GroupMember) -> None:
        """Keep the roles until cancelled."""
        known: Plan | None = None
        self.membership.member = member
        for partition, owned in self._consumer.every.items():
            owned.worker.may_speak = partial(self.membership.may_speak_of, partition)
        try:
            while True:
                self.membership.look()
                plan = self.membership.plan
                if known is not plan and self._server is not None:
                    self._server.follow(map_of(plan, self._settings, self._name, self._server))
                known = plan
                self._begin_changes()
                if (self._has_warmed() or self._is_unheard()) and monotonic() >= self._rejoin_at:
                    self._rejoin_at = monotonic() + _REJOIN_SECONDS
                    member.join_anew()
                self._woken.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._woken.wait()
        finally:
            for task in self._changing.values():
                task.cancel()

    async def hand_over(self) -> None:
        """Let others have what this worker owns, as it is to end: wait until they serve it, for a time.

        One with a name of its own in the group is soon back, and keeps what it owns.
        """
        group = self._settings.group
        is_alone = len(self.membership.plan.members) == 1
        if is_alone or group.instance or not group.hand_over_seconds or not self.membership.may_speak():
            return
        self._leaves = True
        self._rejoin_at, began = 0.0, monotonic()
        self._woken.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(group.hand_over_seconds):
                await until(self._is_handed_over)
        logger.info("handed_over", seconds=round(monotonic() - began, 1), left=[*self._consumer.owned])

    def unready(self) -> str:
        """Why this worker, or its group since it has come, is not at rest yet; empty when it is, or has been.

        Later on only this counts: whether it is a member. Others may come and go, and it is of use all the same.
        """
        name = self._settings.group.name
        if not name:
            return ""
        if not self.membership.is_current:
            return f"it is no member of the group {name} now"
        reason = "" if self._has_come else unsettled(self.membership.plan, self._name, self._consumer, self._server)
        self._has_come = not reason
        return reason

    # ------------------------------------------------------------------ inside

    def _is_handed_over(self) -> bool:
        """Whether others serve all partitions, or nobody stays who could."""
        plan = self.membership.plan
        if not self.membership.may_speak() or (not self._is_unheard() and not plan.stays):
            return True
        if self._is_unheard() or self._changing or self._name in plan.owners.values() or self._consumer.owned:
            return False
        server = self._server
        return server is None or all(is_served(plan, partition, server) for partition in plan.owners)

    def _begin_changes(self) -> None:
        for partition in self._consumer.every:
            wanted = self._changes.wanted(partition)
            if partition not in self._changing and not self._changes.is_done(partition, wanted):
                self._changing[partition] = asyncio.create_task(self._change(partition, wanted))

    async def _change(self, partition: int, wanted: Role) -> None:
        try:
            await self._changes.change(partition, wanted)
        except LogUnavailableError:  # others say so
            await asyncio.sleep(RETRY_SECONDS)
        except Exception:
            logger.exception("role_not_changed", partition=partition, role=str(wanted))
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            del self._changing[partition]
            self._woken.set()

    def _has_warmed(self) -> bool:
        """Whether a partition that shall move to this worker is warm here."""
        return any(
            name == self._name
            and self._consumer.every[partition].role is Role.FOLLOWER
            and self._told_behind(partition) <= WARM_EVENTS
            for partition, name in self.membership.plan.warming.items()
        )

    def _is_unheard(self) -> bool:
        """Whether this worker leaves, and its group does not know yet: a rebalance under way may have missed it."""
        return self._leaves and not ((me := self.membership.plan.members.get(self._name)) and me.leaves)

    def _told_behind(self, partition: int) -> int:
        """How far behind it says it is; a state that is to be followed is not near the log's end before it is open."""
        is_open = self._consumer.every[partition].worker.is_open
        follows = self.membership.plan.role(self._name, partition) is Role.FOLLOWER
        return max(self._lags.behind(partition), WARM_EVENTS + 1 if follows and not is_open else 0)

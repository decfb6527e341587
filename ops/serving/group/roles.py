"""Keeps the roles that a group gives to this worker: owns, follows and gives up partitions while it runs.

A partition is given up before anything else is done with it: clients are sent on, and what they have written is
answered. One that is taken is restored if there is no state of it. It is served when its former owner, if that is
there, says that it has let go, and all that is in the log by then is applied. Up to where owners before have told the
group that they are it is applied in silence: the group is asked for that each time.

Where this worker cannot know that it still is a member, it owns nothing: it follows what it has owned. So it does where
it finds only afterwards that its time was over for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog

from ingest.applying.consumer import Consumer
from ingest.membership import Member, Plan, Role
from ingest.membership.assignor import WARM_EVENTS
from ingest.reporting.observer import Condition
from ops.addresses import parse_address
from ops.config import Settings
from ops.metrics.workers import GroupFigures
from ops.serving.group.addresses import addresses_of, map_of
from ops.serving.group.lags import GroupLags
from ops.serving.group.rest import is_served, unsettled
from ops.serving.keeping.restoring import Restorer
from resp.server import Server
from slotlog.errors import LogUnavailableError

if TYPE_CHECKING:
    from ingest.membership.group_member import GroupMember

_LOOK_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 1.0
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
        plan: the last one of the group.
        rebalances: plans that have come.
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
        self.plan = Plan({}, {}, {}, {}, {})
        self.rebalances = 0
        self._settings = settings
        self._name = name
        self._consumer = consumer
        self._server = server
        self._restorer = restorer
        self._lags = lags
        self._planned_at = 0.0
        self._member: GroupMember | None = None
        self._is_current = False
        self._current_until = 0.0
        self._term = 0  # a time for which this worker is a member without a break
        self._terms: dict[int, int] = {}  # in which each partition was taken
        self._rejoin_at = 0.0
        self._leaves = self._has_come = False
        self._changing: dict[int, asyncio.Task[None]] = {}
        if server is not None:
            server.bus.on_applied = self.owner_at
        self._woken = asyncio.Event()

    # ------------------------------------------------------------------ of the member

    def describe(self) -> Member:
        """This worker, for the leader of the group."""
        roles = self.plan.roles(self._name)
        owns = frozenset(each for each, role in roles.items() if role is Role.OWNER and self._may_speak())
        behind = {partition: self._told_behind(partition) for partition in self._lags.there}
        resp, replica, sentinel = addresses_of(self._settings, self._server)
        follows = frozenset(roles) - owns
        zone, http = self._settings.group.zone, self._settings.http
        return Member(self._name, zone, resp, http, owns, follows, behind, replica, sentinel, self._leaves)

    def planned(self, plan: Plan) -> None:
        """The group has a new plan."""
        self.plan, self._planned_at = plan, monotonic()
        self.rebalances += 1
        self._woken.set()
        logger.info(
            "group_plan",
            members=len(plan.members),
            own=[each for each, owner in plan.owners.items() if owner == self._name],
            warming={each: name for each, name in plan.warming.items() if self._name in {name, plan.owners[each]}},
        )

    def renewed(self, until: float) -> None:
        """This worker is a member until then, on the monotonic clock, if nothing else is heard."""
        if monotonic() >= self._current_until:  # others may have owned what it owned, if nobody has looked meanwhile
            self._term += 1
        self._current_until = until
        if self._server is not None:
            self._server.owns_until = until

    def positions(self) -> dict[int, int]:
        """How far it is in each partition that it owns, and has owned without a break: else others have said more."""
        mine = {each: owned for each, owned in self._consumer.every.items() if owned.role is Role.OWNER}
        offsets = {each: owned.said_to for each, owned in mine.items() if self._terms.get(each) == self._term}
        return {partition: offset for partition, offset in offsets.items() if offset is not None}

    def owner_at(self, partition: int, offset: int) -> None:
        """A partition's owner has applied everything before an offset."""
        self._lags.owner_at(partition, offset)
        if self._server is not None and partition in self._server.replicas:
            self._server.replicas[partition].heard(self._consumer.every[partition].owner_offset)

    def figures(self) -> GroupFigures:
        """The group as metrics tell of it."""
        group, plan = self._settings.group, self.plan
        if not group.name:
            return GroupFigures()
        wanted = group.standbys * len(plan.owners)
        followed = [each for each, owned in self._consumer.every.items() if owned.role is Role.FOLLOWER]
        return GroupFigures(
            members=len(plan.members),
            rebalances=self.rebalances,
            is_lost=not self._is_current,
            standbys_missing=wanted - sum(map(len, plan.standbys.values())),
            moving=len(plan.warming),
            behind={partition: self._lags.behind(partition) for partition in followed},
        )

    # ------------------------------------------------------------------ life

    async def run(self, member: GroupMember) -> None:
        """Keep the roles until cancelled."""
        known: Plan | None = None
        self._member = member
        for partition, owned in self._consumer.every.items():
            owned.worker.may_speak = partial(self._may_speak_of, partition)
        try:
            while True:
                self._is_current = member.is_current and not self._has_lapsed()
                if known is not self.plan and self._server is not None:
                    self._server.follow(map_of(self.plan, self._settings, self._name, self._server))
                known = self.plan
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
        is_alone = len(self.plan.members) == 1
        if is_alone or group.instance or not group.hand_over_seconds or self._member is None or not self._may_speak():
            return
        self._leaves = True
        self._rejoin_at, began = 0.0, monotonic()
        self._woken.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(group.hand_over_seconds):
                await _until(self._is_handed_over)
        logger.info("handed_over", seconds=round(monotonic() - began, 1), left=[*self._consumer.owned])

    def unready(self) -> str:
        """Why this worker, or its group since it has come, is not at rest yet; empty when it is, or has been.

        Later on only this counts: whether it is a member. Others may come and go, and it is of use all the same.
        """
        name = self._settings.group.name
        if not name:
            return ""
        if not self._is_current:
            return f"it is no member of the group {name} now"
        reason = "" if self._has_come else unsettled(self.plan, self._name, self._consumer, self._server)
        self._has_come = not reason
        return reason

    # ------------------------------------------------------------------ inside

    def _is_handed_over(self) -> bool:
        """Whether others serve all partitions, or nobody stays who could."""
        plan = self.plan
        if not self._may_speak() or (not self._is_unheard() and not plan.stays):
            return True
        if self._is_unheard() or self._changing or self._name in plan.owners.values() or self._consumer.owned:
            return False
        server = self._server
        return server is None or all(is_served(plan, partition, server) for partition in plan.owners)

    def _may_speak(self) -> bool:
        """Whether nobody else can own what this worker owns.

        Asked where that counts: `_is_current` is as of a moment ago, and the process may have stood still since.
        """
        return self._is_current and self._member is not None and self._member.is_current

    def _may_speak_of(self, partition: int) -> bool:
        """Whether nobody else can own a partition that it owns, or can have since it has taken it."""
        return self._may_speak() and self._terms.get(partition) == self._term

    def _has_lapsed(self) -> bool:
        """Whether the server has met the end of its time, even if Kafka has taken a heartbeat since."""
        if self._server is None or not self._server.has_lapsed:
            return False
        self._server.has_lapsed = bool(self._server.pipelines)
        return True

    def _wanted(self, partition: int) -> Role:
        role = self.plan.role(self._name, partition)
        is_old = self._consumer.every[partition].role is Role.OWNER and self._terms.get(partition) != self._term
        return Role.FOLLOWER if role is Role.OWNER and (is_old or not self._is_current) else role

    def _is_served(self, partition: int) -> bool:
        return self._server is not None and partition in self._server.pipelines

    def _begin_changes(self) -> None:
        for partition, owned in self._consumer.every.items():
            wanted = self._wanted(partition)
            is_done = owned.role is wanted and (not self._is_served(partition) or wanted is Role.OWNER)
            if not is_done and partition not in self._changing:
                self._changing[partition] = asyncio.create_task(self._change(partition, wanted))

    async def _change(self, partition: int, wanted: Role) -> None:
        try:
            if wanted is Role.OWNER:
                await self._take(partition)
            else:
                await self._give_up(partition, wanted)
        except LogUnavailableError:  # others say so
            await asyncio.sleep(_RETRY_SECONDS)
        except Exception:
            logger.exception("role_not_changed", partition=partition, role=str(wanted))
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            del self._changing[partition]
            self._woken.set()

    async def _take(self, partition: int) -> None:
        owned = self._consumer.every[partition]
        if self._server is not None and not self._is_served(partition):
            self._server.take(partition, owned)  # first: clients hear that it is being opened
        if owned.role is Role.NONE:
            await self._restorer.restore_if_missing(partition)
        await self._former_has_let_go(partition)
        term = self._term
        await self._hear_what_is_said(partition)
        if self._wanted(partition) is not Role.OWNER or term != self._term:
            return
        self._terms[partition] = term
        if self._server is not None:
            self._server.end_reads(partition)
        await self._consumer.roles.assume(partition, Role.OWNER)
        self._lags.applied_again(partition)
        await _until(lambda: owned.condition is not Condition.OPENING or self._wanted(partition) is not Role.OWNER)
        while self._server is not None and self._is_served(partition) and self._wanted(partition) is Role.OWNER:
            try:
                await self._server.begin(partition)
            except LogUnavailableError:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._server.refresh()
                break

    async def _give_up(self, partition: int, wanted: Role) -> None:
        owned = self._consumer.every[partition]
        if self._server is not None:
            await self._server.give_up(partition, map_of(self.plan, self._settings, self._name, self._server))
            self._server.end_reads(partition)
        has_owned = owned.role is Role.OWNER
        if owned.role is Role.NONE and wanted is Role.FOLLOWER:
            await self._restorer.restore_if_missing(partition)
        committed = owned.committed
        await self._consumer.roles.assume(partition, wanted)
        self._lags.tell(partition)
        if wanted is not Role.NONE:
            self._lags.applied_again(partition)
            if self._server is not None:
                shown_to = 0 if committed is None else committed.next_offset
                self._server.serve_reads(partition, owned, shown_to)
                if has_owned:  # perhaps nobody owns it now, as Kafka is away: so far it is a replica's answer
                    self._server.replicas[partition].heard(shown_to)
        elif committed is not None:
            self._lags.left(partition, committed.next_offset)

    async def _former_has_let_go(self, partition: int) -> None:
        """Wait until a former owner that is still a member does not serve any more, or cannot know that it is one.

        As long as it answers it has to say so itself: until then it may acknowledge what it has appended, which a
        transaction of others may keep it from applying for a while. Where it gets the partition back, it waits for us.
        """
        former = self.plan.members.get(self.plan.former.get(partition, ""))
        since, seconds = self._planned_at, self._settings.group.session_seconds
        if former is None or not former.resp or self._server is None or former.name == self._name:
            return
        address, bus = parse_address(former.resp), self._server.bus
        await _until(
            lambda: (
                bus.has_let_go(address, partition, since)
                or monotonic() >= max(since, bus.held_at(address, partition)) + seconds
                or self.plan.owners.get(partition) == former.name
            )
        )

    async def _hear_what_is_said(self, partition: int) -> None:
        """Learn what owners before have done of a partition's records, so that it is not done again.

        Where the group does not say, what was heard of it before has to do.
        """
        worker, said_to = self._consumer.every[partition].worker, self._lags.owner_was_at(partition)
        assert self._member is not None
        try:
            said_to = max(said_to, await self._member.said_to(partition))
        except LogUnavailableError as error:
            hint = "dead letters that its last owner has sent may be sent again"
            logger.warning("owner_offset_unknown", partition=partition, known=said_to, error=str(error), hint=hint)
        worker.said_to = max(worker.said_to, said_to)

    def _has_warmed(self) -> bool:
        """Whether a partition that shall move to this worker is warm here."""
        return any(
            name == self._name
            and self._consumer.every[partition].role is Role.FOLLOWER
            and self._told_behind(partition) <= WARM_EVENTS
            for partition, name in self.plan.warming.items()
        )

    def _is_unheard(self) -> bool:
        """Whether this worker leaves, and its group does not know yet: a rebalance under way may have missed it."""
        return self._leaves and not ((me := self.plan.members.get(self._name)) and me.leaves)

    def _told_behind(self, partition: int) -> int:
        """How far behind it says it is; a state that is to be followed is not near the log's end before it is open."""
        is_open = self._consumer.every[partition].worker.is_open
        follows = self.plan.role(self._name, partition) is Role.FOLLOWER
        return max(self._lags.behind(partition), WARM_EVENTS + 1 if follows and not is_open else 0)


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what other tasks and other workers bring about
        await asyncio.sleep(_POLL_SECONDS)

"""Takes a partition to own it, and gives one up, so that no two workers answer in it.

A partition is given up before anything else is done with it: clients are sent on, and what they have written is
answered. One that is taken is restored if there is no state of it. It is served when its former owner, if that is
there, says that it has let go, and all that is in the log by then is applied. Up to where owners before have told the
group that they are it is applied in silence: the group is asked for that each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

import structlog

from ingest.applying.consumer import Consumer
from ingest.membership import Role
from ingest.reporting.observer import Condition
from ops.addresses import parse_address
from ops.config import Settings
from ops.serving.group.addresses import map_of
from ops.serving.group.lags import GroupLags
from ops.serving.group.membership import Membership
from ops.serving.keeping.restoring import Restorer
from resp.server import Server
from slotlog.errors import LogUnavailableError

_POLL_SECONDS: Final = 0.02
RETRY_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)


class RoleChanges:
    """Changes the role that one worker has in a partition.

    Args:
        settings: of the service.
        membership: says what the role should be; asked anew at each step.
        consumer: applies the partitions.
        server: serves them; None: nobody is served.
        restorer: restores a state that is not there.
        lags: how far its states are behind.
    """

    def __init__(
        self,
        settings: Settings,
        membership: Membership,
        consumer: Consumer,
        server: Server | None,
        restorer: Restorer,
        lags: GroupLags,
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._consumer = consumer
        self._server = server
        self._restorer = restorer
        self._lags = lags

    def wanted(self, partition: int) -> Role:
        """The role that this worker should have in a partition now."""
        return self._membership.wanted_role(partition, self._consumer.every[partition].role)

    def is_done(self, partition: int, wanted: Role) -> bool:
        """Whether this worker has this role in a partition, and serves only what it owns."""
        has_role = self._consumer.every[partition].role is wanted
        return has_role and (not self._is_served(partition) or wanted is Role.OWNER)

    async def change(self, partition: int, wanted: Role) -> None:
        """Have this role in a partition, unless another one is wanted meanwhile.

        Raises:
            LogUnavailableError: the log is away; it is to be tried again.
        """
        if wanted is Role.OWNER:
            await self._take(partition)
        else:
            await self._give_up(partition, wanted)

    async def _take(self, partition: int) -> None:
        owned = self._consumer.every[partition]
        if self._server is not None and not self._is_served(partition):
            self._server.take(partition, owned)  # first: clients hear that it is being opened
        if owned.role is Role.NONE:
            await self._restorer.restore_if_missing(partition)
        await self._former_has_let_go(partition)
        term = self._membership.term
        await self._hear_what_is_said(partition)
        if self.wanted(partition) is not Role.OWNER or term != self._membership.term:
            return
        self._membership.took(partition, term)
        if self._server is not None:
            self._server.end_reads(partition)
        await self._consumer.roles.assume(partition, Role.OWNER)
        self._lags.applied_again(partition)
        await until(lambda: owned.condition is not Condition.OPENING or self.wanted(partition) is not Role.OWNER)
        while self._server is not None and self._is_served(partition) and self.wanted(partition) is Role.OWNER:
            try:
                await self._server.begin(partition)
            except LogUnavailableError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._server.refresh()
                break

    async def _give_up(self, partition: int, wanted: Role) -> None:
        owned, membership = self._consumer.every[partition], self._membership
        if self._server is not None:
            others = map_of(membership.plan, self._settings, membership.name, self._server)
            await self._server.give_up(partition, others)
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
        membership = self._membership
        former = membership.plan.members.get(membership.plan.former.get(partition, ""))
        since, seconds = membership.planned_at, self._settings.group.session_seconds
        if former is None or not former.resp or self._server is None or former.name == membership.name:
            return
        address, peers = parse_address(former.resp), self._server.bus.peers
        await until(
            lambda: (
                peers.has_let_go(address, partition, since)
                or monotonic() >= max(since, peers.held_at(address, partition)) + seconds
                or membership.plan.owners.get(partition) == former.name
            )
        )

    async def _hear_what_is_said(self, partition: int) -> None:
        """Learn what owners before have done of a partition's records, so that it is not done again.

        Where the group does not say, what was heard of it before has to do.
        """
        worker, said_to = self._consumer.every[partition].worker, self._lags.owner_was_at(partition)
        member = self._membership.member
        assert member is not None
        try:
            said_to = max(said_to, await member.said_to(partition))
        except LogUnavailableError as error:
            hint = "dead letters that its last owner has sent may be sent again"
            logger.warning("owner_offset_unknown", partition=partition, known=said_to, error=str(error), hint=hint)
        worker.said_to = max(worker.said_to, said_to)

    def _is_served(self, partition: int) -> bool:
        return self._server is not None and partition in self._server.pipelines


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what other tasks and other workers bring about."""
    while not is_so():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(_POLL_SECONDS)

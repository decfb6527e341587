"""A member of a group by Kafka's group protocol, and nothing else: it fetches no records.

Each member sends what it is; the one that Kafka names the leader assigns, and all get the same plan. To Kafka no
partition is assigned to anybody: aiokafka would fetch it, from offsets that are none of ours. A worker keeps what it
owns while the group rebalances, and gives up only what the next plan gives to another one.

A broker that is cut off from the others goes on to take heartbeats, while another one coordinates the group and gives
this member up. So an owner counts on no heartbeat, but on offsets that it commits to the group: what was acknowledged
of these, a majority of brokers has, and with them whoever coordinates from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.group import SyncGroupRequest

from ingest.membership.assignor import assign
from ingest.membership.plan import Member, Plan
from ingest.membership.user_data import UserDataError, pack_member, pack_plan, unpack_member, unpack_plan
from slotlog.errors import LogUnavailableError
from slotlog.log.kafka.clients import client_arguments, is_dead, stop_consumer, told, unavailable
from slotlog.log.kafka.settings import KafkaSettings

_BEATS_A_SESSION: Final = 20  # the others learn of a dead member with their next one
_COMMITS_A_SESSION: Final = 10
_RETRY_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 2.0
_LOOK_MS: Final = 500
_NEVER_MS: Final = 2**31 - 1  # aiokafka leaves a group whose consumer does not poll records: here none does

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Group:
    """The group that a worker joins.

    Attributes:
        name: Kafka's group id.
        instance: names this worker for static membership; empty: it is a new member at each start.
        session_seconds: a member that is silent for so long is gone.
        topic, partitions: whose partitions are assigned; members of other topics get those of theirs.
        standbys: followers of each partition.
    """

    name: str
    instance: str
    session_seconds: float
    topic: str
    partitions: int
    standbys: int


class GroupMember:
    """Joins a group, and stays in it while `run` runs.

    Args:
        servers: bootstrap servers.
        kafka: how to reach them.
        group: which one.
        describe: asked at each rebalance what this worker is.
        planned: told of each plan, in the event loop.
        renewed: told until when, on the monotonic clock, Kafka cannot give this member up.
        positions: asked how far this worker is in what it owns: what it commits.
    """

    def __init__(
        self,
        servers: str,
        kafka: KafkaSettings,
        group: Group,
        describe: Callable[[], Member],
        planned: Callable[[Plan], None],
        renewed: Callable[[float], None],
        positions: Callable[[], Mapping[int, int]],
    ) -> None:
        self._servers = servers
        self._kafka = kafka
        self._group = group
        self._planned = planned
        self._renewed = renewed
        self._positions = positions
        self._assignor = _Assignor(group, describe, self._on_plan)
        self._coordinator: Any = None
        self._synced_at = 0.0  # when the last plan was asked for
        self._current_until = 0.0
        self._commit: asyncio.Task[None] | None = None
        self._commit_at = 0.0

    @property
    def is_current(self) -> bool:
        """Whether Kafka cannot have given this member up yet, as far as its own clock tells.

        Only then it may speak as the owner of anything.
        """
        return monotonic() < self._current_until

    def join_anew(self) -> None:
        """Let the group rebalance, because this worker is no longer what it said."""
        if self._coordinator is not None:
            self._coordinator.request_rejoin()

    async def said_to(self, partition: int) -> int:
        """Before which offset the owners of a partition have done all that an owner does, as they have committed.

        Raises:
            LogUnavailableError: the group has not answered in time.
        """
        coordinator, asked, name = self._coordinator, TopicPartition(self._group.topic, partition), self._group.name
        if coordinator is None:
            raise LogUnavailableError(f"the group {name} cannot be asked: this worker is joining it")
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):  # aiokafka would try again for ever
                found: dict[TopicPartition, Any] = await coordinator.fetch_committed_offsets([asked])
        except Exception as error:
            raise unavailable(f"the group {name} cannot be asked", error) from error
        return found[asked].offset if asked in found else 0

    async def run(self) -> None:
        """Be a member until cancelled; then leave, unless membership is static."""
        while True:
            try:
                await self._stay()
            except (KafkaError, OSError, RuntimeError) as error:
                logger.warning("group_left", group=self._group.name, error=told(error))
            except Exception:
                logger.exception("group_left", group=self._group.name)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _stay(self) -> None:
        group = self._group
        session_ms = round(group.session_seconds * 1000)
        consumer = AIOKafkaConsumer(
            group.topic,
            group_id=group.name,
            group_instance_id=group.instance or None,
            partition_assignment_strategy=(self._assignor,),
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // _BEATS_A_SESSION,
            rebalance_timeout_ms=session_ms,
            max_poll_interval_ms=_NEVER_MS,
            enable_auto_commit=False,
            auto_offset_reset="none",
            **client_arguments(self._servers, self._kafka),
        )
        try:
            await consumer.start()
            self._coordinator = consumer._coordinator  # noqa: SLF001 - the public part neither rejoins nor tells of heartbeats
            self._listen(self._coordinator)
            while not (is_dead(consumer) or self._coordinator._coordination_task.done()):  # noqa: SLF001 - it never says
                await consumer.getmany(timeout_ms=_LOOK_MS)  # raises what the coordinator has met
            raise RuntimeError("aiokafka's coordinator has ended by itself")
        finally:
            self._coordinator = None
            if self._commit is not None:
                self._commit.cancel()
            await stop_consumer(consumer)

    def _listen(self, coordinator: Any) -> None:
        """Note when Kafka last took a heartbeat: by when that was sent, as its session counts from later on.

        Of an owner it is a commit instead, which goes out with a heartbeat, on another connection. Likewise of what
        asks for a plan: one may have come long ago, to a worker that stood still meanwhile. And that Kafka does not
        know this member any more, or not of this generation.
        """
        beat, send = coordinator._do_heartbeat, coordinator._send_req  # noqa: SLF001 - as above
        forget = coordinator.reset_generation

        async def sent(request: Any) -> Any:
            if isinstance(request, SyncGroupRequest):
                self._synced_at = monotonic()
            return await send(request)

        async def noted() -> bool:
            sent_at = monotonic()
            taken: bool = await beat()
            if taken and (positions := self._positions()):
                self._begin_commit(coordinator, positions)
            elif taken:
                self._renew(sent_at)
            return taken

        def forgotten() -> None:
            forget()
            self._set_current_until(0.0)

        coordinator._do_heartbeat, coordinator._send_req = noted, sent  # noqa: SLF001 - as above
        coordinator.reset_generation = forgotten

    def _begin_commit(self, coordinator: Any, positions: Mapping[int, int]) -> None:
        """Unless one is under way, or was sent a moment ago."""
        if (self._commit is None or self._commit.done()) and monotonic() >= self._commit_at:
            self._commit_at = monotonic() + self._group.session_seconds / _COMMITS_A_SESSION
            self._commit = asyncio.create_task(self._commit_positions(coordinator, positions))

    async def _commit_positions(self, coordinator: Any, positions: Mapping[int, int]) -> None:
        group, sent_at, member = self._group, monotonic(), (coordinator.generation, coordinator.member_id)
        offsets = [(partition, offset, "") for partition, offset in positions.items()]
        keep = OffsetCommitRequest.DEFAULT_RETENTION_TIME
        try:
            answer = await coordinator._client.send(  # noqa: SLF001 - as below
                coordinator.coordinator_id, OffsetCommitRequest(group.name, *member, keep, [(group.topic, offsets)])
            )
        except (KafkaError, OSError):
            return  # the next heartbeat finds out as well
        is_taken = not any(code for _, partitions in answer.topics for _, code in partitions)
        if is_taken and member == (coordinator.generation, coordinator.member_id):
            self._renew(sent_at)

    def _renew(self, sent_at: float) -> None:
        self._set_current_until(sent_at + self._group.session_seconds)

    def _set_current_until(self, until: float) -> None:
        self._current_until = until
        self._renewed(until)

    def _on_plan(self, plan: Plan) -> None:
        self._renew(self._synced_at)
        self._planned(plan)


class _Assignor:
    """An assignor as aiokafka takes it: an object with these names, as its own are classes."""

    name: Final = "slotlog"

    def __init__(self, group: Group, describe: Callable[[], Member], planned: Callable[[Plan], None]) -> None:
        self._group = group
        self._describe = describe
        self._planned = planned

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """What this worker is."""
        return ConsumerProtocolMemberMetadata(0, sorted(topics), pack_member(self._describe()))

    def assign(
        self, _cluster: object, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """The plan of each topic, for the members that have subscribed to it, by the leader.

        Of its own topic it counts on what it has been told itself.
        """
        found: dict[str, dict[str, Member]] = {}
        for member_id, metadata in members.items():
            (topic,) = metadata.subscription
            found.setdefault(topic, {})[member_id] = unpack_member(metadata.user_data)
        assignments: dict[str, ConsumerProtocolMemberAssignment] = {}
        for topic, by_id in found.items():
            packed = pack_plan(assign(by_id.values(), *self._wanted(topic, by_id.values())))
            assignments |= {member_id: ConsumerProtocolMemberAssignment(0, [], packed) for member_id in by_id}
        return assignments

    def _wanted(self, topic: str, members: Iterable[Member]) -> tuple[int, int]:
        """How many partitions a topic has, and how many followers each of them."""
        if topic == self._group.topic:
            return self._group.partitions, self._group.standbys
        told = [(member.partitions, member.standbys) for member in members]
        return max(partitions for partitions, _ in told), max(standbys for _, standbys in told)

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """The plan has come."""
        try:
            plan = unpack_plan(assignment.user_data)
        except UserDataError as error:
            logger.error("group_plan_refused", group=self._group.name, error=str(error))  # noqa: TRY400 - no bug of ours
            return
        self._planned(plan)

"""The time for which a member of a group may take itself for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.protocol.group import SyncGroupRequest

from ingest.membership import Member, Plan
from ingest.membership import group_member as module
from ingest.membership.group_member import Group, GroupMember
from slotlog.errors import LogUnavailableError
from slotlog.log.kafka.settings import KafkaSettings

_SESSION_SECONDS = 5.0
_PLAN = Plan({}, {}, {}, {}, {})


class _Coordinator:
    """What of aiokafka's coordinator a member listens to."""

    generation, member_id, coordinator_id = 1, "id", 1

    def __init__(self) -> None:
        self.takes_heartbeats = True
        self.commits: list[list[Any]] = []
        self.answers: asyncio.Queue[int] = asyncio.Queue()
        self._client = self
        self.committed: dict[TopicPartition, Any] = {}
        self.is_away = False

    async def fetch_committed_offsets(self, asked: list[TopicPartition]) -> dict[TopicPartition, Any]:
        """What is committed, without partitions of which nothing is."""
        if self.is_away:
            await asyncio.Event().wait()
        return {each: self.committed[each] for each in asked if each in self.committed}

    async def send(self, _node: int, request: Any) -> Any:
        """Take a commit, and answer it with the next of `answers`."""
        self.commits.append(request._topics)
        return SimpleNamespace(topics=[("topic", [(0, await self.answers.get())])])

    async def _do_heartbeat(self) -> bool:
        return self.takes_heartbeats

    async def _send_req(self, _request: object) -> None:
        """Nothing is sent."""

    def reset_generation(self) -> None:
        """It does not know this member."""


class _Clock:
    """A monotonic clock that is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """The member's clock."""
    clock = _Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def _listening(
    renewed: Callable[[float], None] = lambda _: None, positions: Mapping[int, int] | None = None
) -> tuple[GroupMember, _Coordinator]:
    group = Group("group", "", _SESSION_SECONDS, "topic", 4, 0)
    member = GroupMember(
        "localhost:1",
        KafkaSettings(),
        group,
        lambda: Member("me"),
        planned=lambda _: None,
        renewed=renewed,
        positions=lambda: positions or {},
    )
    coordinator = _Coordinator()
    member._listen(coordinator)
    return member, coordinator


async def test_a_heartbeat_counts_from_when_it_was_sent(clock: _Clock) -> None:
    """It is a member for a session from when it sent a heartbeat that Kafka took; a refused one counts nothing."""
    told: list[float] = []
    member, coordinator = _listening(told.append)
    was = [member.is_current]
    await coordinator._do_heartbeat()
    clock.now += _SESSION_SECONDS - 0.1
    was.append(member.is_current)
    coordinator.takes_heartbeats = False
    await coordinator._do_heartbeat()
    clock.now += 0.2
    was.append(member.is_current)

    assert ([False, True, False], [100.0 + _SESSION_SECONDS]) == (was, told)


async def test_a_plan_counts_from_when_it_was_asked_for(clock: _Clock) -> None:
    """A plan that waited in the socket while this process stood still makes it an owner of nothing."""
    member, coordinator = _listening()
    request = SyncGroupRequest("group", 1, "id", "", [])
    await coordinator._send_req(request)
    member._on_plan(_PLAN)
    assert member.is_current
    await coordinator._send_req(request)
    clock.now += _SESSION_SECONDS + 0.1
    member._on_plan(_PLAN)

    assert not member.is_current


async def test_a_member_that_kafka_does_not_know_is_none_at_once(clock: _Clock) -> None:
    """A heartbeat of an older generation, or of a member that was given up, ends what it owns, whatever its time."""
    told: list[float] = []
    member, coordinator = _listening(told.append)
    await coordinator._do_heartbeat()
    clock.now += 1
    coordinator.reset_generation()

    assert (False, 0.0) == (member.is_current, told[-1])


async def test_of_an_owner_only_a_commit_counts(clock: _Clock) -> None:
    """From when it was sent; a coordinator that takes heartbeats, and of commits none, has lost the other brokers."""
    told: list[float] = []
    member, coordinator = _listening(told.append, {0: 7, 3: 9})
    await coordinator._do_heartbeat()
    await asyncio.sleep(0)
    clock.now += 1
    await coordinator._do_heartbeat()  # the commit is under way
    was = [member.is_current]
    coordinator.answers.put_nowait(0)
    await _answered(coordinator)
    was.append(member.is_current)
    for answer in (15, 7, 27):
        clock.now += 1
        await coordinator._do_heartbeat()
        coordinator.answers.put_nowait(answer)
        await _answered(coordinator)

    assert ([False, True], [100.0 + _SESSION_SECONDS]) == (was, told)
    assert [[("topic", [(0, 7, ""), (3, 9, "")])]] * 4 == coordinator.commits


async def test_a_commit_of_who_is_no_member_any_more_counts_nothing(clock: _Clock) -> None:
    """What Kafka took before it gave the member up may be answered later."""
    told: list[float] = []
    member, coordinator = _listening(told.append, {0: 7})
    await coordinator._do_heartbeat()
    await asyncio.sleep(0)
    coordinator.generation = -1
    coordinator.reset_generation()
    coordinator.answers.put_nowait(0)
    await _answered(coordinator)

    assert (False, [0.0]) == (member.is_current, told)


@pytest.mark.parametrize("offset", [7, None])
async def test_a_group_says_how_far_owners_were(offset: int | None) -> None:
    """What they have committed; nothing is an offset as well: a new group."""
    member, coordinator = _listening()
    member._coordinator = coordinator
    if offset is not None:
        coordinator.committed[TopicPartition("topic", 3)] = SimpleNamespace(offset=offset)

    assert (offset or 0) == await member.said_to(3)


async def test_a_group_that_does_not_answer_is_asked_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator may be away for long, and aiokafka tries for ever; before it joins there is nobody to be asked."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.01)
    member, coordinator = _listening()
    with pytest.raises(LogUnavailableError, match=r"^the group group cannot be asked: this worker is joining it$"):
        await member.said_to(0)
    member._coordinator = coordinator
    coordinator.is_away = True
    with pytest.raises(
        LogUnavailableError, match=r"^the group group cannot be asked: the broker did not answer in time$"
    ):
        await member.said_to(0)


def test_members_get_partitions_of_their_own_topic() -> None:
    """Whichever member leads: the plan of a topic has its partitions and standbys, and those who subscribe to it."""
    sizes = {"orders": (4, 0), "users": (2, 1)}
    members = {"id-a": ("orders", "a"), "id-b": ("users", "b"), "id-c": ("users", "c")}

    def assignor(topic: str, name: str, plans: list[Plan]) -> Any:
        partitions, standbys = sizes[topic]
        told = Member(name, partitions=partitions, standbys=standbys)
        return module._Assignor(
            Group("group", "", _SESSION_SECONDS, topic, partitions, standbys), lambda: told, plans.append
        )

    plans: list[Plan] = []
    assignors = {member_id: assignor(topic, name, plans) for member_id, (topic, name) in members.items()}
    told = {member_id: each.metadata([members[member_id][0]]) for member_id, each in assignors.items()}
    for leader in assignors.values():
        assigned = leader.assign(None, told)
        for member_id in members:
            assignors[member_id].on_assignment(assigned[member_id])

    found = [(sorted(plan.members), sorted(plan.owners), {*map(len, plan.standbys.values())}) for plan in plans]
    orders, users = (["a"], [0, 1, 2, 3], {0}), (["b", "c"], [0, 1], {1})
    assert [orders, users, users] * 3 == found


async def _answered(coordinator: _Coordinator) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    assert coordinator.answers.empty()

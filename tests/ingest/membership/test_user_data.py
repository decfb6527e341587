"""The user data of the group's protocol."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.membership.assignor import assign
from ingest.membership.plan import Member
from ingest.membership.user_data import UserDataError, pack_member, pack_plan, unpack_member, unpack_plan

_MEMBERS = [
    Member("a", "x", "10.0.0.1:6379", "10.0.0.1:8640", frozenset({0, 3}), frozenset({1}), {0: 0, 1: 70_000, 3: 5}),
    Member("b", "y", "[::1]:6379"),
    Member("c", "y", "10.0.0.3:6379", replica="10.0.0.3:6380"),
]


def test_a_member_is_read_as_it_was_written() -> None:
    """What a member says of itself is what the leader reads."""
    assert _MEMBERS == [unpack_member(pack_member(member)) for member in _MEMBERS]


def test_a_plan_is_read_as_it_was_written() -> None:
    """Owners, standbys, what is warmed, and the members' addresses are those of the leader's plan."""
    plan = assign(_MEMBERS, 7, 1)
    read = unpack_plan(pack_plan(plan))
    assert (plan.owners, plan.standbys, plan.warming) == (read.owners, read.standbys, read.warming)
    assert plan.former == read.former
    assert ["", "", "10.0.0.3:6380"] == [member.replica for member in read.members.values()]
    assert ["10.0.0.1:6379", "[::1]:6379", "10.0.0.3:6379"] == [member.resp for member in read.members.values()]


def test_a_plan_of_a_large_group_is_small() -> None:
    """The plan of 1,000 partitions and 100 members takes less than 20 KB, and Kafka sends it to each of them."""
    members = [Member(f"worker-{number}", f"zone-{number % 3}", f"10.0.0.{number}:6379") for number in range(100)]
    assert len(pack_plan(assign(members, 1_000, 1))) < 20_000


@pytest.mark.parametrize("read", [unpack_member, unpack_plan])
def test_newer_user_data_is_refused(read: object) -> None:
    """What a newer slotlog has sent is refused, with the version and what to do."""
    with pytest.raises(UserDataError, match=r"version 2 of the user data, and this slotlog knows 1.*upgrade"):
        read(msgpack.packb({"v": 2, "what": 1}))  # type: ignore[operator]


@settings(max_examples=50)
@given(
    st.one_of(st.binary(max_size=60), st.recursive(st.integers(-5, 1 << 63) | st.text(), st.lists).map(msgpack.packb))
)
def test_any_other_bytes_are_refused(data: bytes) -> None:
    """Whatever another member of the group sends is refused, with one kind of error."""
    for read in (unpack_member, unpack_plan):
        with pytest.raises(UserDataError):
            read(data)

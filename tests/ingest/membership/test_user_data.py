"""The user data of the group's protocol."""

from __future__ import annotations

import zlib
from collections.abc import Callable

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
    Member("d", leaves=True, partitions=7, standbys=1),
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
    assert ["", "", "10.0.0.3:6380", ""] == [member.replica for member in read.members.values()]
    assert ["10.0.0.1:6379", "[::1]:6379", "10.0.0.3:6379", ""] == [member.resp for member in read.members.values()]
    assert ["d"] == [name for name, member in read.members.items() if member.leaves]


def test_a_large_group_fits_into_the_record_that_kafka_keeps_of_it() -> None:
    """What 100 members of 1,000 partitions say, and the plan for each, are less than 1 MB, a broker's default."""
    members = [
        Member(
            f"worker-{number:03}.orders.svc.cluster.local",
            f"zone-{number % 3}",
            f"10.0.7.{number}:6379",
            f"10.0.7.{number}:8640",
            owns=frozenset(range(number, 1_000, 100)),
            follows=frozenset(range((number + 1) % 100, 1_000, 100)),
            behind={partition: partition % 7 for partition in range(number % 2, 1_000, 50)},
            replica=f"10.0.7.{number}:6380",
        )
        for number in range(100)
    ]
    plan = pack_plan(assign(members, 1_000, 1))
    assert sum(len(pack_member(member)) + len(plan) for member in members) < 1_000_000


@pytest.mark.parametrize(("read", "pack"), [(unpack_member, bytes), (unpack_plan, zlib.compress)])
def test_newer_user_data_is_refused(read: Callable[[bytes], object], pack: Callable[[bytes], bytes]) -> None:
    """What a newer slotlog has sent is refused, with the version and what to do."""
    with pytest.raises(UserDataError, match=r"version 2 of the user data, and this slotlog knows 1.*upgrade"):
        read(pack(msgpack.packb({"v": 2, "what": 1})))


def test_a_plan_that_would_fill_memory_is_refused() -> None:
    """A few bytes that stand for a gigabyte are not unpacked."""
    with pytest.raises(UserDataError):
        unpack_plan(zlib.compress(bytes(64 * 1024 * 1024)))


@settings(max_examples=50)
@given(
    st.one_of(st.binary(max_size=60), st.recursive(st.integers(-5, 1 << 63) | st.text(), st.lists).map(msgpack.packb))
)
def test_any_other_bytes_are_refused(data: bytes) -> None:
    """Whatever another member of the group sends is refused, with one kind of error."""
    for read, sent in ((unpack_member, data), (unpack_plan, data), (unpack_plan, zlib.compress(data))):
        with pytest.raises(UserDataError):
            read(sent)

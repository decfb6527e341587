"""Sets where replies do not show it: the stored records, and how SPOP draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.model import SET, Metadata
from engine.values.encoding import pack_u64
from tests.engine.commands.watched import WatchedStore
from tests.engine.harness import NOW_MS, apply, event, feed, new_store, open_machine, records_of, send
from tests.engine.stored import key_of, prefix_of, put, stored
from tests.layouts import layout_of
from tests.layouts.differences import count_of, is_uncounted

KEY = key_of(b"s")
VERSION = NOW_MS * 1000 << 11  # of a key made at NOW_MS
PREFIX = prefix_of(b"s", VERSION)


def metadata(size: int) -> bytes:
    """The metadata value of a set that never expires."""
    return layout_of().pack_metadata(Metadata(SET, 0, VERSION, size))


def filled(members: Iterable[bytes]) -> tuple[WatchedStore, Machine]:
    """A committed set "s" with these members."""
    store = WatchedStore()
    machine = open_machine(store)
    offset = machine.next_offset
    apply(machine, (offset, NOW_MS, b"SADD", [b"s", *members], 0, None, None))
    machine.commit(None)
    return store, machine


def popped_at(machine: Machine, offset: int) -> Any:
    """What SPOP gives as the record at `offset`; the set stays as it is."""
    reply = apply(machine, event(offset, "SPOP s")).outcomes[offset]
    machine.rollback()
    return reply


def pops(machine: Machine, count: int) -> Counter[Any]:
    """How often each member comes out first, over the records at the next `count` offsets."""
    start = machine.next_offset
    return Counter(popped_at(machine, offset) for offset in range(start, start + count))


def test_a_set_is_one_metadata_record_and_one_empty_record_for_each_member() -> None:
    """The records are those of engine/FORMAT.md, byte for byte; a member named twice counts once."""
    store, _ = filled([b"b", b"", b"\xff", b"b"])

    assert {KEY: metadata(3)} == stored(store, Kind.METADATA)
    assert {PREFIX + b"b": b"", PREFIX: b"", PREFIX + b"\xff": b""} == stored(store, Kind.DATA)


@pytest.mark.exact
def test_adding_what_is_there_writes_nothing() -> None:
    """SADD of members that are in the set is no change."""
    store, machine = filled([b"a", b"b"])

    assert [0] == send(machine, "SADD s b a")
    assert {} == store.written


@pytest.mark.exact
def test_removing_members_deletes_their_records_and_the_key_with_the_last() -> None:
    """SREM and SPOP delete member by member; nothing is left for the reclaimer when the set is empty."""
    store, machine = filled([b"a", b"b", b"c"])

    assert [1] == send(machine, "SREM s b none")
    assert {Kind.METADATA: {KEY: metadata(2)}, Kind.DATA: {PREFIX + b"b": None}} == store.written
    assert [[b"a", b"c"]] == send(machine, "SPOP s 2")
    assert {Kind.METADATA: {KEY: None}, Kind.DATA: {PREFIX + b"a": None, PREFIX + b"c": None}} == store.written


def test_deleting_a_set_touches_none_of_its_members() -> None:
    """DEL writes two records whatever the size, the metadata delete and a grave, and walks over no elements."""
    store, machine = filled(b"%d" % number for number in range(1000))
    store.gets = store.scanned = 0

    assert [1] == send(machine, "DEL s")
    grave, buried = pack_u64(NOW_MS) + pack_u64(VERSION), b"\x04" + pack_u64(count_of(1000)) + KEY
    assert {Kind.METADATA: {KEY: None}, "graveyard": {grave: buried}} == store.written
    looked = is_uncounted()  # at the first one, whether there is any
    assert (0, looked, []) == (store.gets, store.scanned, store.ranges)


# ------------------------------------------------------------------ SPOP


def test_pops_repeat_at_replay_in_any_batch_size() -> None:
    """The same records give the same pops whether the set is in the store, in the batch, or parted between the two."""
    filling = [
        "SADD s " + " ".join(f"user:{number}" for number in range(start, start + 50)) for start in range(0, 600, 50)
    ]
    popping = ["SPOP s", "SPOP s 2", "SADD s again", "SPOP s 100"] * 5
    records = [event(offset, command) for offset, command in enumerate(filling + popping)]
    states = []

    for batch in (1, 7, len(records)):
        store = new_store()
        feed(open_machine(store), records, batch)
        states.append(records_of(store))

    assert states[0] == states[1] == states[2]


def test_a_small_set_is_drawn_from_evenly() -> None:
    """Of 20 members of very different shapes, each comes out first in 4 to 6 % of 5,000 records."""
    members = [b"", b"b", *(b"a" * length for length in range(1, 19))]
    _, machine = filled(members)

    drawn = pops(machine, 5000)

    assert sorted(members) == sorted(drawn)
    assert [] == [(member, times) for member, times in drawn.items() if not 200 <= times <= 300]


@pytest.mark.parametrize(
    "members",
    [
        [b"user:%05d" % number for number in range(2000)],
        [sha256(b"%d" % number).digest() for number in range(2000)],
        [sha256(b"%d" % number).hexdigest().encode() for number in range(2000)],
    ],
    ids=["numbers of one width", "digests", "digests in hex"],
)
def test_a_large_set_of_even_members_is_drawn_from_almost_evenly(members: list[bytes]) -> None:
    """Of 2,000 members of one length, each tenth has 5 to 15 % of 400 records, no member more than 5."""
    _, machine = filled(members)
    rank = {member: position for position, member in enumerate(sorted(members))}

    drawn = pops(machine, 400)

    tenths = Counter[int]()
    for member, times in drawn.items():
        tenths[rank[member] // 200] += times
    assert [] == [tenth for tenth in range(10) if not 20 <= tenths[tenth] <= 60]
    assert max(drawn.values()) <= 5


def test_a_lonely_branch_does_not_always_win() -> None:
    """Of 299 members "a…" and one "b", half of the descents find "b"; the walk spreads that over 64 members."""
    members = [b"a%03d" % number for number in range(299)]
    _, machine = filled([*members, b"b"])

    drawn = pops(machine, 640)

    first = sum(drawn[member] for member in members[:63])
    assert 1 <= drawn[b"b"] <= 15  # 1 in 128, and a little for the members before it
    assert 320 <= first <= 480  # a half, and what their own descents add
    assert 100 <= sum(drawn[member] for member in members[63:]) <= 320


def test_every_kind_of_branch_can_be_drawn() -> None:
    """Members that others begin with, the empty one, 0x00 and 0xff bytes: all of 300 come out, each once."""
    members = sorted(
        {b"", b"\x00", b"\x00\x00", b"\xff", b"\xff\xff", b"\xff\xff\xff", *(b"a" * n for n in range(1, 295))}
    )
    assert 300 == len(members)
    _, machine = filled(members)

    replies = send(machine, *["SPOP s"] * 301)

    assert [*members, None] == [*sorted(replies[:300]), replies[300]]


@pytest.mark.exact
def test_a_pop_from_a_large_set_reads_little_of_it() -> None:
    """SPOP of one of 3,000 members takes at most 24 seeks and a walk of 64, over 50 records."""
    store, machine = filled(sha256(b"%d" % number).hexdigest().encode() for number in range(3000))
    costs = []

    start = machine.next_offset
    for offset in range(start, start + 50):
        store.gets = store.scans = store.scanned = 0
        popped_at(machine, offset)
        costs.append((store.gets, store.scans, store.scanned - store.scans))

    assert [] == [(gets, scans, walked) for gets, scans, walked in costs if gets or scans > 24 or walked > 64]


@pytest.mark.parametrize("count", [1, 2, 5, 100, 299, 300, 400])
@pytest.mark.parametrize("size", [200, 300, 1500])
def test_a_count_takes_that_many_different_members(size: int, count: int) -> None:
    """SPOP with a count gives different members of the set, in stored order, and leaves all others."""
    members = [b"%d" % number for number in range(size)]
    _, machine = filled(members)

    popped, left = send(machine, f"SPOP s {count}", "SMEMBERS s")

    assert min(count, size) == len(popped)
    assert popped == sorted(popped)
    assert sorted(members) == sorted([*popped, *left])


def test_the_draws_of_a_transaction_differ() -> None:
    """Commands of one EXEC draw on: the second pop is not the first one's draw again."""
    _, machine = filled(b"%02d" % number for number in range(64))
    orders = set()

    start = machine.next_offset
    for offset in range(start, start + 20):
        first, second = apply(machine, event(offset, [[b"SPOP", b"s"], [b"SPOP", b"s"]])).outcomes[offset]
        machine.rollback()
        orders.add((int(second) - int(first)) % 64)

    assert len(orders) > 10


@pytest.mark.parametrize("command", ["SPOP s", "SPOP s 2", "SPOP s 5"])
@pytest.mark.damaging
@pytest.mark.exact
def test_missing_members_stop_the_partition(command: str) -> None:
    """Fewer records than the metadata says are damage, whichever way SPOP draws."""
    store, machine = filled([b"a", b"b", b"c"])
    put(store, Kind.DATA, *((PREFIX + member, None) for member in (b"a", b"b", b"c")))

    with pytest.raises(CorruptionError):
        send(machine, command)

"""The guards of a batch: each fault is planted, and the batch is not written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from engine.apply.machine import Machine
from engine.batch.keys.key import Key
from engine.batch.ranks import rank_counts
from engine.errors import PartitionStoppedError
from engine.layouts.layout import Form
from engine.model import LIST, SET
from engine.store.store import Changes
from engine.tables.compaction_notes import DeletedRange, delete_range
from engine.tables.dedup import Deduplicator
from engine.tables.system import Position, write_position
from engine.values.numbers import format_long_double, parse_long_double
from engine.values.replies import OK
from slotlog.shared.errors import InvariantError
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, WatchedStore, apply, event, records_of, send

CONTENTS: Final = (
    *("SET plain v", "SET timed v PX 1000", "HSET hash f v", "RPUSH list a b c", "SADD set a", "ZADD zset 1 a"),
    *("HSET fields f v g w", "HPEXPIRE fields 500 FIELDS 1 f", "ZADD dying 1 a"),
)
Fault = Callable[[Key], None]


@pytest.fixture
def store() -> WatchedStore:
    """An empty store that is watched."""
    return WatchedStore()


@pytest.fixture
def machine(store: WatchedStore) -> Machine:
    """A machine with a key of each type."""
    machine = Machine(store, HOME)
    send(machine, *CONTENTS)
    return machine


def setting(**values: int) -> Fault:
    """A fault: attributes of a key that is written get these values."""

    def plant(key: Key) -> None:
        key.changed = True
        for name, value in values.items():
            setattr(key, name, value)

    return plant


def newer_version(key: Key) -> None:
    """A new collection has a version that was never taken."""
    key.changed = key.data.fresh = True
    key.version += 1 << 40


def unnoticed_death(key: Key) -> None:
    """A time to live is set, and the key is not marked as changed."""
    key.expire_ms = NOW_MS + 5000


def lost_place(key: Key) -> None:
    """A hash is to die with the key, and its times say neither of the key nor of a field when."""
    assert key.times is not None
    key.changed, key.expire_ms = True, NOW_MS + 5000
    key.times.own_expire_ms = key.times.soonest_ms = 0


KEY_FAULTS: Final = [
    ("zset", setting(size=-1), "a zset has size -1"),
    ("zset", setting(size=0), "a zset has size 0"),
    ("set", newer_version, r"a set has version \d+, and the last one taken is \d+"),
    ("zset", setting(version=0), "a zset has no version"),
    ("list", setting(size=4), r"a list of size 4 reaches from \d+ to \d+"),
    ("list", setting(head=0), r"a list of size 3 reaches from 0 to \d+"),
    ("plain", setting(type=LIST), "a list has no version"),
    ("plain", setting(expire_ms=-5), "a string of version 0 is to die at -5"),
    ("plain", unnoticed_death, r"a key is to die at \d+ and is listed at 0, unchanged"),
    ("absent", setting(expire_ms=NOW_MS + 9), r"a none of version 0 is to die at \d+"),
]


LOST_PLACE: Final = r"a hash is to die at \d+ and has no place in the expiry index"


@pytest.mark.parametrize(
    ("name", "plant", "message"),
    [
        *(pytest.param(*fault, id=fault[2]) for fault in KEY_FAULTS),
        pytest.param("fields", lost_place, LOST_PLACE, id=LOST_PLACE, marks=pytest.mark.form(Form.FIELD_TIMES)),
    ],
)
def test_a_key_that_cannot_be_is_not_written(
    store: WatchedStore, machine: Machine, name: str, plant: Fault, message: str
) -> None:
    """Size, version, reach of a list and place in the expiry index are asked of each key; then nothing is written."""
    before = records_of(store)
    apply(machine, event(machine.next_offset, "SET other v"))
    tx = machine._tx
    tx.begin(machine.next_offset, NOW_MS, 0)
    tx.find(name.encode())
    plant(tx._keys[name.encode()])  # type: ignore[index]
    with pytest.raises(InvariantError, match=f"^{message}$"):
        machine.commit(FINGERPRINT)

    assert before == records_of(store)
    machine.rollback()
    assert [b"OK"] == send(machine, "SET other v")


@pytest.mark.parametrize(
    ("plant", "message"),
    [(newer_version, r"a zset has version \d+, and the last one taken is"), (setting(size=-2), "a zset has size -2")],
)
def test_a_grave_that_cannot_be_is_not_dug(machine: Machine, plant: Fault, message: str) -> None:
    """A key whose version was never taken, or whose size cannot be, is not buried: the record stops its partition."""
    tx = machine._tx
    tx.begin(machine.next_offset, NOW_MS, 0)
    key = tx.find(b"dying")
    assert key is not None
    plant(key)
    with pytest.raises(PartitionStoppedError, match=rf"\(DEL\) cannot be applied: InvariantError: {message}"):
        apply(machine, event(machine.next_offset, "DEL dying"))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Position(next_offset=9, clock_ms=50, last_version=7), "the next offset would go back from 10 to 9"),
        (Position(next_offset=10, clock_ms=49, last_version=7), "the clock would go back from 50 to 49 ms"),
        (Position(next_offset=10, clock_ms=50, last_version=6), "the last version would go back from 7 to 6"),
        (Position(next_offset=10, clock_ms=50, last_version=7, rules=0), "or the rules from 1 to 0"),
        (
            Position(next_offset=10, clock_ms=50, last_version=7, counts={(3, SET): -1}),
            "database 3 would have -1 keys of type 4",
        ),
    ],
)
def test_a_position_that_goes_back_is_not_written(fault: Position, message: str) -> None:
    """Offset, clock, last version and rules only grow, and no count of keys is below zero."""
    with pytest.raises(InvariantError, match=message):
        write_position(Changes(), fault, Position(next_offset=10, clock_ms=50, last_version=7))


def test_the_clock_goes_back_where_the_log_says_so() -> None:
    """Together with what SETCLOCK leaves, an earlier clock is written."""
    before = Position(next_offset=10, clock_ms=50)
    changes = Changes()
    write_position(changes, replace(before, clock_ms=40, set_backs=((50, 40),)), before)

    assert (40).to_bytes(8, "big") == changes.values["system"][b"clock_ms"]


@pytest.mark.parametrize(
    ("part", "attribute", "value", "message"),
    [
        ("", "_next_offset", 3, "the next offset would go back from 9 to 3"),
        ("_executor", "clock_ms", NOW_MS - 1, "the clock would go back"),
    ],
)
def test_a_machine_that_went_back_writes_nothing(
    store: WatchedStore, machine: Machine, part: str, attribute: str, value: int, message: str
) -> None:
    """A machine whose own offset or clock is behind what it has committed cannot commit."""
    before = records_of(store)
    setattr(getattr(machine, part, machine), attribute, value)
    with pytest.raises(InvariantError, match=message):
        machine.commit(FINGERPRINT)

    assert before == records_of(store)


def test_a_key_that_is_counted_out_twice_is_found(machine: Machine) -> None:
    """A count of keys below zero is not written."""
    apply(machine, event(machine.next_offset, "DEL set dying"))
    machine._tx.counts[0, SET] -= 1
    with pytest.raises(InvariantError, match="database 0 would have -1 keys of type 4"):
        machine.commit(FINGERPRINT)


def test_an_event_that_is_remembered_twice_is_found(store: WatchedStore) -> None:
    """An idempotency key has one outcome in a batch: a second one means that its event was applied twice."""
    dedup = Deduplicator(store)
    dedup.remember(b"id", NOW_MS, 4, OK)
    with pytest.raises(InvariantError, match="the id of the event at offset 5 was applied in this batch already"):
        dedup.remember(b"id", NOW_MS, 5, OK)


@pytest.mark.parametrize(("start", "end"), [(b"b", b"b"), (b"b", b"a")])
def test_a_range_that_ends_before_it_begins_is_not_deleted(start: bytes, end: bytes) -> None:
    """RocksDB takes such a range delete and does what it likes."""
    changes = Changes()
    with pytest.raises(InvariantError, match="a range to delete in data ends at or before its start"):
        delete_range(changes, DeletedRange("data", start, end))

    assert [] == changes.ranges


def test_more_records_than_offsets_are_not_applied(machine: Machine) -> None:
    """A batch with more records than offsets between its ends has one of them twice: none of it is applied."""
    offset = machine.next_offset
    with pytest.raises(InvariantError, match=f"3 records from {offset} to {offset + 1}"):
        apply(machine, *(event(offset + at, "INCR n") for at in (0, 1, 1)))

    assert offset == machine.next_offset


# ----------------------------------------------------------------------------------------------------- rank counts


@pytest.fixture
def ranked(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Key:
    """A sorted set with rank counts, whose groups are held."""
    monkeypatch.setattr(rank_counts, "PLAIN_SIZE_MAX", 4)
    send(machine, "ZADD ranked " + " ".join(f"{n} m{n}" for n in range(20)), "ZADD ranked 20 m20")
    machine.read(b"ZRANK", [b"ranked", b"m3"])
    key = machine._tx.find(b"ranked")
    assert key is not None
    assert key.ranks is not None
    assert key.ranks.groups is not None
    return key


@pytest.mark.form(Form.RANK_COUNTS)
def test_rank_counts_of_other_members_than_the_set_has_are_not_written(machine: Machine, ranked: Key) -> None:
    """The groups together have as many members as the set."""
    ranked.ranks.groups.counts[0] += 1  # type: ignore[union-attr]
    apply(machine, event(machine.next_offset, "ZADD ranked 0.5 more"))
    with pytest.raises(InvariantError, match="a zset of size 22 has rank counts of 23 members"):
        machine.commit(FINGERPRINT)


@pytest.mark.form(Form.RANK_COUNTS)
def test_a_block_of_less_than_no_member_is_found(machine: Machine, ranked: Key) -> None:
    """Taking a member from a block that counts none stops the partition at that record."""
    for blocks in ranked.ranks.blocks.values():  # type: ignore[union-attr]
        blocks.counts[:] = [0] * len(blocks.counts)
    with pytest.raises(
        PartitionStoppedError, match=r"\(ZREM\) .*InvariantError: a group of 20 members has a block of -1"
    ):
        apply(machine, event(machine.next_offset, "ZREM ranked m3"))


def test_no_infinite_number_is_printed() -> None:
    """Where a sum would be infinite INCRBYFLOAT fails; a value that is all the same is not written."""
    infinite = parse_long_double(b"inf")
    assert infinite is not None
    with pytest.raises(InvariantError, match="an infinite number would be written"):
        format_long_double(infinite)


# ------------------------------------------------------------------------------------------------------------ always


def test_it_holds_under_optimized_python() -> None:
    """`python -O` takes no guard away: none is an `assert` statement."""
    script = """if True:
        from slotlog.shared.errors import InvariantError
        from engine.store.store import Changes
        from engine.tables.system import Position, write_position
        try:
            write_position(Changes(), Position(next_offset=1), Position(next_offset=2))
        except InvariantError as error:
            print(__debug__, error)
    """
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=True)

    assert "False the next offset would go back from 2 to 1\n" == done.stdout

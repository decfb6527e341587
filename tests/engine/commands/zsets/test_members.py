"""Sorted sets where replies do not show it: the stored records, how many a command reads, and the pops' hints."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from engine.apply.machine import Machine
from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.layouts.records import has_index
from engine.model import UNCOUNTED, ZSET, Metadata
from engine.store.memory import MemoryStore
from engine.store.store import Store
from engine.values.encoding import pack_score
from tests.engine.harness import FAMILIES, NOW_MS, apply, event, family, feed, new_store, open_machine, records_of, send
from tests.engine.stored import described, is_of, key_of, prefix_of, put, stored
from tests.layouts import layout_of, member_kind

KEY = key_of(b"z")
VERSION = NOW_MS * 1000 << 11  # of a key made at NOW_MS
PREFIX = prefix_of(b"z", VERSION, member_kind())
SCORES = prefix_of(b"z", VERSION, Kind.SCORES)


class WatchedStore(MemoryStore):
    """A store in memory that notes where scans of the score column family begin, and counts the records they give."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.bounds: list[tuple[bytes, bytes | None]] = []
        self.read = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records of the range, each counted when it is taken."""
        records = super().scan(column_family, start, end, reverse=reverse)
        if not is_of(Kind.SCORES, column_family, start):
            return records
        self.bounds.append((start, end))
        return self._counted(records)

    def _counted(self, records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            self.read += 1
            yield record


class _NoHints(dict[int, bytes]):
    """Hints that forget what they are told."""

    def __setitem__(self, version: int, score_key: bytes) -> None:
        pass


def _score_keys(store: Store) -> list[bytes]:
    """The score keys of "z", without their prefix, in stored order; their values have to be empty."""
    records = stored(store, Kind.SCORES)
    assert {b""} >= set(records.values())
    return [record.removeprefix(SCORES) for record in records]


def _members(store: Store) -> dict[bytes, bytes]:
    """Member -> packed score of "z" as stored."""
    return {record.removeprefix(PREFIX): score for record, score in stored(store, member_kind()).items()}


def _filled(store: Store, members: int) -> Machine:
    """A machine whose "z" has the members m0, m1, … with the scores 0, 1, …, all of them written."""
    machine = open_machine(store)
    send(machine, *(f"ZADD z {n} m{n}" for n in range(members)))
    return machine


def _score_key(number: int) -> bytes:
    """The score key of one of the members of `_filled`."""
    return pack_score(float(number)) + b"m%d" % number


# ------------------------------------------------------------------------------------------------------------ records


def test_records_byte_for_byte() -> None:
    """A member is one data record with its score and one empty score record, in order; metadata has the size."""
    store = new_store()

    assert [2] == send(open_machine(store), "ZADD z 1 a -0.5 b")

    assert {
        PREFIX + b"a": bytes.fromhex("bff0000000000000"),
        PREFIX + b"b": bytes.fromhex("401fffffffffffff"),
    } == stored(store, member_kind())
    assert [
        (SCORES + bytes.fromhex("401fffffffffffff") + b"b", b""),
        (SCORES + bytes.fromhex("bff0000000000000") + b"a", b""),
    ] == list(stored(store, Kind.SCORES).items())
    assert {KEY: Metadata(ZSET, 0, VERSION, UNCOUNTED if has_index(layout_of()) else 2)} == described(store)


@pytest.mark.parametrize("update", ["ZADD z 2 a", "ZADD z XX GT 2 a", "ZADD z INCR 1 a", "ZINCRBY z 1 a"])
@pytest.mark.parametrize("batch", [1, 2])
def test_update_deletes_the_old_score_record(update: str, batch: int) -> None:
    """Another score replaces the score record, whether the old one was written or is in the same batch."""
    store = new_store()

    feed(open_machine(store), [event(0, "ZADD z 1 a"), event(1, update)], batch)

    assert {b"a": pack_score(2.0)} == _members(store)
    assert [pack_score(2.0) + b"a"] == _score_keys(store)


def test_negative_zero_is_stored_as_zero() -> None:
    """-0 and 0 are one score: one record, and turning one into the other is no update."""
    store = new_store()

    assert [1, 0] == send(open_machine(store), "ZADD z -0 a", "ZADD z CH 0 a")

    assert [bytes.fromhex("8000000000000000") + b"a"] == _score_keys(store)


@pytest.mark.parametrize("removal", ["ZREM z a", "ZPOPMIN z"])
def test_removal_deletes_both_records(removal: str) -> None:
    """A removed member leaves neither of its records behind."""
    store = new_store()

    send(open_machine(store), "ZADD z 1 a 2 b", removal)

    assert {b"b": pack_score(2.0)} == _members(store)
    assert [pack_score(2.0) + b"b"] == _score_keys(store)


@pytest.mark.parametrize("removal", ["ZREM z a b", "ZPOPMIN z 2", "ZPOPMAX z 9"])
def test_the_last_member_takes_the_key_with_it(removal: str) -> None:
    """A sorted set that becomes empty has no record left, no grave and no place in the key count."""
    store = new_store()
    machine = open_machine(store)

    send(machine, "ZADD z 1 a 2 b")
    send(machine, removal)

    for name in (*FAMILIES, "graveyard"):
        assert {} == family(store, name)
    assert 0 == machine.read(b"DBSIZE", [])


# ------------------------------------------------------------------------------------------------------ records read


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ZPOPMIN z", 1),
        ("ZPOPMIN z 3", 3),
        ("ZPOPMAX z 3", 3),
        ("ZPOPMIN z 99", 20),
        ("ZRANGE z 2 4", 5),
        ("ZRANGE z -3 -2", 3),
        ("ZRANGE z 17 18 REV", 3),
        ("ZREVRANGE z 0 1", 2),
        ("ZRANGEBYSCORE z (4 inf LIMIT 1 2", 3),
        ("ZRANK z m2", 2),
        ("ZREVRANK z m17", 2),
        ("ZCOUNT z 5 (9", 4),
    ],
)
def test_score_records_read(command: str, expected: int) -> None:
    """Of 20 stored members a pop reads those that it pops, and a range those between it and the end it walks from."""
    store = WatchedStore()
    machine = _filled(store, 20)

    send(machine, command)

    assert expected == store.read


@pytest.mark.parametrize("batch", [1, 3, 12])
@pytest.mark.parametrize("command", ["ZPOPMIN z 2", "ZPOPMAX z 2"])
def test_repeated_pops_read_what_they_pop(command: str, batch: int) -> None:
    """Pops one after the other read each record once, also where the batch's own pops are not written yet."""
    store = WatchedStore()
    machine = _filled(store, 30)
    first = machine.next_offset

    feed(machine, [event(first + n, command) for n in range(12)], batch)

    assert 24 == store.read


def test_members_of_one_score_are_found_by_seeking() -> None:
    """ZRANGEBYLEX reads the two ends of the set and the members of its range, not those before them."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, *(f"ZADD z 0 {name}" for name in "abcdefghij"))

    assert [[b"g", b"h"]] == send(machine, "ZRANGEBYLEX z [g [h")

    assert 4 == store.read


@pytest.mark.damaging
def test_missing_score_records_stop_the_partition() -> None:
    """A pop that finds fewer score records than the metadata says is damage, not a shorter reply."""
    store = new_store()
    machine = _filled(store, 2)
    put(store, Kind.SCORES, (SCORES + _score_key(1), None))

    with pytest.raises(CorruptionError):
        send(machine, "ZPOPMIN z 2")


# -------------------------------------------------------------------------------------------------------------- hints


def test_a_pop_scans_from_where_the_last_one_ended() -> None:
    """Two batches later, the scan of a pop still begins behind (or ends before) what was popped at that end."""
    store = WatchedStore()
    machine = _filled(store, 6)
    send(machine, "ZPOPMIN z 2")
    send(machine, "ZPOPMAX z")
    store.bounds.clear()

    send(machine, "ZPOPMIN z")

    assert [(SCORES + _score_key(1) + b"\0", SCORES + _score_key(5))] == store.bounds


@pytest.mark.parametrize(("pop", "added"), [("ZPOPMIN z", "ZADD z 0.5 new"), ("ZPOPMAX z", "ZADD z 9 new")])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_member_beyond_the_hint_is_popped_next(pop: str, added: str, batch: int) -> None:
    """A member added beyond what was popped from an end is the next one there, in the same batch or in another."""
    machine = _filled(new_store(), 6)
    first = machine.next_offset
    feed(machine, [event(first + n, command) for n, command in enumerate([pop, pop, added])], batch)

    assert [b"new"] == [reply[0] for reply in send(machine, pop)]


@pytest.mark.parametrize(("pop", "expected"), [("ZPOPMIN z", [b"m0", 0.0]), ("ZPOPMAX z", [b"m5", 5.0])])
def test_hints_end_with_a_rollback(pop: str, expected: list[bytes | float]) -> None:
    """What a batch popped before it was rolled back is popped again."""
    machine = _filled(new_store(), 6)
    apply(machine, event(machine.next_offset, pop))
    machine.rollback()

    assert [expected] == send(machine, pop)


def _random_command(random: Random) -> str:
    """Pops and additions at both ends, and reads that would miss a member if a hint were wrong."""
    score, member = random.randrange(40), f"m{random.randrange(25)}"
    return random.choice(
        [
            f"ZADD z {score} {member} {score} x",
            f"ZADD z {score} {member}",
            f"ZINCRBY z {score - 20} {member}",
            f"ZREM z {member}",
            f"ZPOPMIN z {random.randrange(1, 3)}",
            f"ZPOPMAX z {random.randrange(1, 3)}",
            "ZPOPMIN z",
            "ZPOPMAX z",
            "ZRANGE z 0 -1 WITHSCORES",
            f"ZRANK z {member}",
            f"ZCOUNT z -inf {score}",
        ]
    )


@pytest.mark.parametrize("seed", range(20))
def test_hints_change_no_result(seed: int) -> None:
    """Random pops and additions in small batches, some rolled back first: the same replies and bytes without hints."""
    random = Random(seed)
    stores = new_store(), new_store()
    hinted, plain = map(open_machine, stores)
    hints_seen = 0
    for _ in range(60):
        commands = [_random_command(random) for _ in range(random.randrange(1, 5))]
        plain._tx.floors, plain._tx.ceilings = _NoHints(), _NoHints()
        if random.random() < 0.2:
            apply(hinted, *(event(hinted.next_offset + n, command) for n, command in enumerate(commands)))
            hinted.rollback()
        assert send(plain, *commands) == send(hinted, *commands)
        hints_seen += len(hinted._tx.floors) + len(hinted._tx.ceilings)

    assert hints_seen > 0
    assert records_of(stores[0]) == records_of(stores[1])

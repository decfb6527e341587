"""Records that are applied in C come to what Python makes of them: outcomes, errors, reads, and every byte written."""

from __future__ import annotations

import gc
import sys
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import native
from engine.apply.machine import Applied, Machine, Record
from engine.batch.ranks import rank_counts
from engine.errors import PartitionStoppedError
from engine.layouts import DEFAULT_LAYOUT
from engine.limits import DEDUP_WINDOW_MS, OVERLAY_BYTES_MAX
from engine.tables.system import Home
from slotlog.shared.errors import InvariantError
from slotlog.shared.limits import TIME_MS_MAX
from slotlog.shared.slots import partition_of, slot
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, new_store
from tests.engine.native.twins import compare, machine_of, results
from tests.engine.native.usual_streams import of_kinds
from tests.engine.workload import random_records
from tests.layouts import home_of

pytestmark = pytest.mark.layout(DEFAULT_LAYOUT)

_NAMES: Final = [b"a", b"b", b"{t}c", b"{}", b"", b"\0\xff", b"k" * 1024, b"k" * 1025, b"d", b"e"]
_WORDS: Final = [b"", b"f", b"g", b"\xff" * 9, b"m" * 40, b"v" * 1024, b"v" * 1025, b"x" * 140_000]
_NUMBERS: Final = [
    *(
        b"0",
        b"-0",
        b"00",
        b"1",
        b"-1",
        b"007",
        b"+5",
        b" 5",
        b"5 ",
        b"1_0",
        b"12.5",
        b"1e3",
        b"inf",
        b"-inf",
        b"nan",
        b"",
    ),
    *(b"9223372036854775806", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"1" * 19),
    *(
        b"9007199254740992",
        b"9007199254740993",
        b"9007199254740995",
        b"1" * 16,
        b"1" * 17,
        b"9" * 299,
        b"9" * 310,
        b"\0",
    ),
]
_TIMES: Final = [0] * 6 + [1, 5, -3, 40_000, DEDUP_WINDOW_MS - 1, DEDUP_WINDOW_MS]
_names, _words, _numbers = st.sampled_from(_NAMES), st.sampled_from(_WORDS), st.sampled_from(_NUMBERS)

_MEMBERS: Final = st.sampled_from([b"f", b"g", b"h", b"i"])
_AMOUNTS: Final = st.sampled_from([b"1", b"6", b"50000", b"-1", b"0", b"x", b"9" * 16, b"9" * 19, b"-%d" % (1 << 63)])
_OF_MANY: Final = st.sampled_from([b"HDEL", b"SREM", b"ZREM", b"SADD", b"RPUSH", b"LPUSH", b"HSET", b"DEL", b"ZADD"])
_OF_NUMBERS: Final = st.sampled_from([b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT", b"INCRBY"])
_INDEXES: Final = st.sampled_from([b"0", b"1", b"-1", b"-2", b"3", b"x", b"%d" % ((1 << 63) - 1), b"-%d" % (1 << 62)])
_UNITS: Final = st.sampled_from([b"EX", b"px", b"EXAT", b"PXAT", b"NX", b"KEEPTTL", b"Px", b"PXA", b"EXAB"])

_COMMANDS: Final = st.one_of(
    st.tuples(st.just(b"SET"), _names, st.one_of(_words, _numbers)),
    st.tuples(st.just(b"HSET"), _names, _words, _words),
    st.tuples(st.just(b"HSET"), _names, _MEMBERS, _numbers, _MEMBERS, _words, _MEMBERS, _words),
    st.tuples(st.just(b"INCR"), _names),
    st.tuples(st.just(b"LPUSH"), _names, _words),
    st.tuples(st.just(b"RPUSH"), _names, _words, _words),
    st.tuples(st.just(b"SADD"), _names, _words, _words),
    st.tuples(st.just(b"ZADD"), _names, _numbers, _words),
    st.tuples(st.just(b"ZADD"), _names, _numbers, _MEMBERS, st.sampled_from([b"1", b"2.5", b"nx"]), _MEMBERS),
    st.tuples(_OF_MANY, _names, _MEMBERS, _MEMBERS),
    st.tuples(_OF_NUMBERS, _names, _AMOUNTS),
    st.tuples(st.sampled_from([b"HINCRBY", b"SETEX", b"PSETEX"]), _names, _MEMBERS, _AMOUNTS),
    st.tuples(st.sampled_from([b"SETEX", b"PSETEX"]), _names, _AMOUNTS, _words),
    st.tuples(st.just(b"SET"), _names, _words, _UNITS, _AMOUNTS),
    st.tuples(st.just(b"ZINCRBY"), _names, st.one_of(_numbers, _AMOUNTS), _MEMBERS),
    st.tuples(st.just(b"LTRIM"), _names, _INDEXES, _INDEXES),
    st.tuples(st.sampled_from([b"SET", b"HSET", b"INCR", b"LPUSH", b"SADD", b"ZADD", b"set", b"NOPE", b""]), _names),
    st.tuples(
        st.sampled_from([b"DEL", b"DECR", b"LPOP", b"RPOP", b"ZPOPMIN", b"ZPOPMAX", b"PERSIST", b"GET", b"HLEN"]),
        _names,
    ),
    st.tuples(st.just(b"HPEXPIRE"), _names, st.just(b"30"), st.just(b"FIELDS"), st.just(b"1"), _words),
    st.tuples(st.just(b"SWAPDB"), st.just(b"0"), st.just(b"1")),
    st.tuples(st.just(b"FLUSHDB")),
    st.tuples(st.just(b"SETCLOCK"), st.just(b"%d" % NOW_MS), st.just(b"%d" % (NOW_MS - 1))),
    st.tuples(st.just(b"HSET"), _names, _words),
)
_TRANSACTIONS: Final = st.lists(_COMMANDS.map(list), max_size=5).map(lambda steps: (b"EXEC", *steps))
_RECORDS: Final = st.lists(
    st.tuples(
        st.one_of(_COMMANDS, _COMMANDS, _COMMANDS, _TRANSACTIONS),
        st.sampled_from(_TIMES),
        st.sampled_from([0] * 12 + [1]),
        st.sampled_from([None] * 6 + [b"id", b"other id", b"i" * 64]),
        st.sampled_from([0] * 40 + [-NOW_MS - 1, TIME_MS_MAX]),
    ),
    max_size=60,
)
_SIZES: Final = st.lists(st.integers(1, 20), min_size=1, max_size=4)


def _stream(drawn: list[tuple[tuple[Any, ...], int, int, bytes | None, int]]) -> list[Record]:
    """Records with times that jump, some of them out of all bounds."""
    records: list[Record] = []
    at_ms = NOW_MS
    for offset, ((name, *args), step, db, event_id, off) in enumerate(drawn):
        at_ms = max(0, at_ms + step)
        records.append((2 * offset, at_ms + off, name, args, db, event_id, None))
    return records


def test_it_is_built() -> None:
    """The tests run with the part in C: else they would compare Python with itself."""
    assert native.FITS


@settings(max_examples=150)
@given(drawn=_RECORDS, sizes=_SIZES, waits=st.booleans())
def test_any_records_come_to_the_same(drawn: list[Any], sizes: list[int], *, waits: bool) -> None:
    """Outcomes, counts, clock, reads of the store and all that is written are equal, in batches of any sizes."""
    compare(_stream(drawn), sizes, waits=waits)


@settings(max_examples=60)
@given(drawn=_RECORDS, sizes=_SIZES)
def test_one_partition_of_two_takes_its_keys_alone(drawn: list[Any], sizes: list[int]) -> None:
    """So are they in a topic of two partitions, where half of the keys are another one's."""
    compare(_stream(drawn), sizes, home=home_of("topic", 1, 2))


@settings(max_examples=60)
@given(drawn=_RECORDS, sizes=_SIZES, fails_at=st.integers(1, 40))
def test_a_read_that_fails_stops_at_the_same_record(drawn: list[Any], sizes: list[int], fails_at: int) -> None:
    """When a read of the store fails, both stop the partition at the same record, and go on to the same state."""
    compare(_stream(drawn), sizes, fails_at=fails_at)


@pytest.mark.parametrize("seed", range(6))
def test_records_of_all_kinds_come_to_the_same(seed: int) -> None:
    """So do transactions, ids, field times and all other commands between the usual ones."""
    compare(random_records(seed, 1500), [1, 7, 100])


@pytest.mark.parametrize("seed", range(2))
def test_large_collections_come_to_the_same(seed: int) -> None:
    """So do sorted sets that grow until their members are counted, and sets from which members are popped."""
    compare(of_kinds(seed, 6000), [1000, 3])


@pytest.mark.parametrize("seed", range(3))
def test_ranked_sets_come_to_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """So do members of sets with rank counts, in blocks and groups that are soon split and joined."""
    for name, limit in (("PLAIN_SIZE_MAX", 8), ("BLOCK_MAX", 8), ("GROUP_MAX", 40), ("HELD_MAX", 60)):
        monkeypatch.setattr(rank_counts, name, limit)
    compare(of_kinds(seed, 2000), [100, 7])


def test_members_of_ranked_sets_are_moved_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a set with rank counts none of these commands is given to Python, once its counts are in memory."""
    monkeypatch.setattr(rank_counts, "PLAIN_SIZE_MAX", 8)
    machine = machine_of(new_store(), natively=True)
    records: list[Record] = [
        (n, NOW_MS, b"ZADD", [b"z", b"%d" % (n * 7 % 60), b"m%d" % (n % 50)], 0, None, None) for n in range(120)
    ]
    others = [(b"ZINCRBY", [b"z", b"2.5", b"m7"]), (b"ZINCRBY", [b"z", b"-3", b"new"]), (b"ZREM", [b"z", b"m7"])]
    records += [(120 + n, NOW_MS, name, args, 0, None, None) for n, (name, args) in enumerate(others)]
    machine.apply(records[:70], 0)
    assert machine.hot_path is not None
    run = machine.hot_path.others(records[70:], Applied(70), frozenset())

    assert [] == list(run)


@pytest.mark.parametrize("seed", range(3))
def test_scores_in_memory_are_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Reads between the commands hold scores of blocks in memory: they change alike, give the same and end alike."""
    _compare_held(monkeypatch, seed)


def test_a_twin_that_works_nothing_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """So they would not be if one of the two forgot to work in what has come or gone."""
    monkeypatch.setattr(rank_counts, "moved", lambda held, *_: held)

    with pytest.raises((AssertionError, InvariantError)):
        _compare_held(monkeypatch, 0)


@pytest.mark.parametrize("natively", [True, False], ids=["in C", "Python"])
def test_a_score_that_leaves_is_in_memory(monkeypatch: pytest.MonkeyPatch, *, natively: bool) -> None:
    """Else applying stops there: what is held of the block is of other members."""
    monkeypatch.setattr(rank_counts, "PLAIN_SIZE_MAX", 8)
    machine = machine_of(new_store(), natively=natively)
    records: list[Record] = [(n, NOW_MS, b"ZADD", [b"z", b"%d" % n, b"m%d" % n], 0, None, None) for n in range(21)]
    machine.apply(records[:20], 0)
    assert 5 == machine.read(b"ZRANK", [b"z", b"m5"])
    key = machine._tx._keys.get(b"z")
    assert key is not None
    ranks = key.ranks
    assert ranks is not None
    for blocks in ranks.blocks.values():
        blocks.scores[:] = [held and held[8:] + held[-8:] for held in blocks.scores]  # all but the first score

    with pytest.raises(PartitionStoppedError, match="no such score"):
        machine.apply([(20, NOW_MS, b"ZADD", [b"z", b"50", b"m0"], 0, None, None)], 20)


def _compare_held(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for limit, value in (("PLAIN_SIZE_MAX", 8), ("BLOCK_MAX", 16), ("GROUP_MAX", 60)):
        monkeypatch.setattr(rank_counts, limit, value)
    random = Random(seed)
    machines = [machine_of(new_store(), natively=natively) for natively in (True, False)]
    changed = 0
    before: dict[bytes, bytes] = {}
    for step in range(400):
        batch: list[Record] = []
        for at in range(random.randint(1, 4)):
            member, score = b"m%d" % random.randrange(60), b"%d" % random.randrange(40)
            adding = (b"ZADD", [b"z", score, member])
            others = [(b"ZREM", [b"z", member]), (b"ZINCRBY", [b"z", b"%d" % random.randint(-3, 3), member])]
            name, args = random.choice([adding] * 4 + others)
            batch.append((machines[0].next_offset + at, NOW_MS, name, args, 0, None, None))
        for machine in machines:
            machine.apply(batch, machine.next_offset)
        in_c, python = (_held(machine) for machine in machines)
        changed += any(end in before and before[end] != scores for end, scores in in_c.items())
        before = in_c

        assert python == in_c
        if step % 3:
            mine, twin = (machine.read(b"ZRANK", [b"z", b"m%d" % (step % 60)]) for machine in machines)
            assert twin == mine
        if step % 5 == 0:
            for machine in machines:
                machine.commit(FINGERPRINT)
    assert changed > 50


def _held(machine: Machine) -> dict[bytes, bytes]:
    """The scores of blocks that the sorted set "z" of a machine holds, by their ends."""
    key = machine._tx._keys.get(b"z")
    if key is None or key.ranks is None:
        return {}
    pairs = (pair for each in key.ranks.blocks.values() for pair in zip(each.ends, each.scores, strict=True))
    held = {end: scores for end, scores in pairs if scores is not None}
    assert key.ranks.holders.scored == key.ranks.scores == len(held)
    return held


def test_an_overlay_that_is_full_ends_a_batch_at_the_same_record() -> None:
    """Strings that were loaded and written count in both, and the batch ends behind the same one."""
    value = b"v" * 1000
    count = OVERLAY_BYTES_MAX // len(value) + 10
    records: list[Record] = [(n, NOW_MS, b"SET", [b"k%d" % n, value], 0, None, None) for n in range(count)]
    compare(records, [count])


@pytest.mark.parametrize(
    "record",
    [
        (0, NOW_MS, b"SET", ("k", "v"), 0, None, None),
        (0, NOW_MS, b"SET", [b"k", "v"], 0, None, None),
        (0, NOW_MS, b"HSET", [b"k", b"f", None], 0, None, None),
        (0, NOW_MS, b"ZADD", [b"k", 1, b"m"], 0, None, None),
        (0, NOW_MS, b"LPUSH", [bytearray(b"k"), b"m"], 0, None, None),
        (0, NOW_MS, "SET", [b"k", b"v"], 0, None, None),
        (0, float(NOW_MS), b"SET", [b"k", b"v"], 0, None, None),
        (0, 1 << 70, b"SET", [b"k", b"v"], 0, None, None),
        (0, NOW_MS, b"SET", [b"k", b"v"], 1 << 70, None, None),
        (0, NOW_MS, b"SET", [b"k", b"v"], False, None, None),
        (0, NOW_MS, b"SET", [b"k", b"v"], 0, None),
        [0, NOW_MS, b"SET", [b"k", b"v"], 0, None, None],
    ],
    ids=repr,
)
def test_a_record_of_other_types_is_for_python(record: Any) -> None:
    """What is no record, or holds other objects than bytes and integers, is given as it is, and nothing done."""
    machine = machine_of(new_store(), natively=True)
    assert machine.hot_path is not None
    run = machine.hot_path.others([record], Applied(0), frozenset())

    assert [record] == list(run)
    assert (0, -1) == run.end(-1)
    assert [] == machine._tx._touched


def test_usual_records_are_applied_in_c() -> None:
    """Of these none is given to Python, new keys and keys from the store included: so there is something to compare."""
    store = new_store()
    for _ in range(2):  # the second time all keys come from the store
        machine = machine_of(store, natively=True)
        first = machine.next_offset
        commands: list[list[Any]] = [
            *(
                [b"EXEC", [b"HSET", b"h2", b"f", b"v", b"g", b"v"], [b"PEXPIRE", b"h2", b"9000"], [b"INCR", b"n3"]],
                [b"EXEC", [b"LPUSH", b"l2", b"e"], [b"LTRIM", b"l2", b"0", b"3"]],
                [b"HSET", b"h", b"f", b"v", b"g", b"v", b"h", b"v"],
                [b"HINCRBY", b"h", b"n", b"-7"],
                [b"HDEL", b"h", b"g", b"none"],
                [b"SREM", b"m", b"none"],
                [b"SET", b"s3", b"v", b"EX", b"60"],
                [b"SETEX", b"s4", b"60", b"v"],
                [b"INCRBY", b"n4", b"70"],
                [b"DECR", b"n4"],
                [b"EXPIREAT", b"n4", b"9000000000"],
                [b"DEL", b"s4"],
                [b"ZADD", b"z2", b"1", b"e", b"2", b"f"],
                [b"ZREM", b"z2", b"f"],
                [b"ZINCRBY", b"z2", b"1.5", b"e"],
            ),
            *(
                [b"SET", b"s", b"v"],
                [b"HSET", b"h", b"f", b"v"],
                [b"INCR", b"n"],
                [b"LPUSH", b"l", b"e"],
                [b"RPUSH", b"l", b"e"],
            ),
            *(
                [b"SADD", b"m", b"e"],
                [b"ZADD", b"z", b"1.5", b"e"],
                [b"ZADD", b"z", b"7", b"e"],
                [b"SET", b"n2", b"5"],
                [b"INCR", b"n2"],
            ),
        ]
        records: list[Record] = [
            (first + n, NOW_MS, name, args, 0, b"id%d" % (first + n) if n % 2 else None, None)
            for n, (name, *args) in enumerate(commands)
        ]
        records.append((first + len(records), *records[1][1:]))  # a second time
        assert machine.hot_path is not None
        run = machine.hot_path.others(records, Applied(first), frozenset())

        assert [] == list(run)
        assert (len(records), records[-1][0]) == run.end(-1)
        machine._next_offset = records[-1][0] + 1
        machine.commit(FINGERPRINT)


@pytest.mark.parametrize("home", [HOME, home_of("topic", 1, 2)], ids=["one", "two"])
def test_what_has_begun_in_c_goes_on_in_python(home: Home) -> None:
    """A transaction whose second command is refused, for an unusual number, gives the same, and its third one runs."""
    name = next(
        name for name in (b"{%d}" % n for n in range(9)) if partition_of(slot(name), home.partitions) == home.partition
    )
    steps = [[b"SET", name, b"x"], [b"INCR", name], [b"HSET", name + b"h", b"f", b"v"]]
    records: list[Record] = [(n, NOW_MS, b"EXEC", steps, 0, b"id", None) for n in range(3)]
    compare(records, [2], home=home)
    machine = machine_of(new_store(), natively=True, home=home)
    assert machine.hot_path is not None

    assert [] == list(machine.hot_path.others(records, Applied(0), frozenset()))


def test_nothing_leaks() -> None:
    """Applied again and again, records leave as many objects and references behind as before, errors included."""
    records = of_kinds(3, 400) + [(10**6 + r[0], *r[1:]) for r in random_records(3, 300)]
    watched = [None, True, False, 0, 1, b"", *(b"SET", b"HSET", b"ZADD"), Machine]

    def once() -> tuple[int, list[int]]:
        for fails_at in (-1, 50, 120, 200):
            results(records, [40], natively=True, fails_at=fails_at)
        gc.collect()
        return sys.getallocatedblocks(), [sys.getrefcount(each) for each in watched]

    for _ in range(3):
        once()
    (blocks, references), (blocks_after, references_after) = once(), (0, [0])
    for _ in range(5):
        blocks_after, references_after = once()

    assert abs(blocks_after - blocks) < 500, (blocks, blocks_after)
    assert all(abs(after - before) < 200 for before, after in zip(references, references_after, strict=True)), (
        references,
        references_after,
    )

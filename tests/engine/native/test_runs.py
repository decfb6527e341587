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
from engine.batch.transaction import Transaction
from engine.layouts import DEFAULT_LAYOUT
from engine.limits import OVERLAY_BYTES_MAX
from engine.model import NONE
from engine.types import hash_fields, lists, sets, strings, zsets
from slotlog.shared.limits import TIME_MS_MAX
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store
from tests.engine.native.twins import machine_of, results
from tests.engine.workload import random_records

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
_TIMES: Final = [0, 0, 0, 1, 5, -3, 40_000]
_names, _words, _numbers = st.sampled_from(_NAMES), st.sampled_from(_WORDS), st.sampled_from(_NUMBERS)

_COMMANDS: Final = st.one_of(
    st.tuples(st.just(b"SET"), _names, st.one_of(_words, _numbers)),
    st.tuples(st.just(b"HSET"), _names, _words, _words),
    st.tuples(st.just(b"INCR"), _names),
    st.tuples(st.just(b"LPUSH"), _names, _words),
    st.tuples(st.just(b"RPUSH"), _names, _words, _words),
    st.tuples(st.just(b"SADD"), _names, _words, _words),
    st.tuples(st.just(b"ZADD"), _names, _numbers, _words),
    st.tuples(st.sampled_from([b"SET", b"HSET", b"INCR", b"LPUSH", b"SADD", b"ZADD", b"set", b"NOPE", b""]), _names),
    st.tuples(st.sampled_from([b"DEL", b"LPOP", b"RPOP", b"ZPOPMIN", b"ZPOPMAX", b"PERSIST", b"GET", b"HLEN"]), _names),
    st.tuples(st.just(b"PEXPIRE"), _names, st.sampled_from([b"1", b"6", b"50000", b"9" * 19])),
    st.tuples(st.just(b"HPEXPIRE"), _names, st.just(b"30"), st.just(b"FIELDS"), st.just(b"1"), _words),
    st.tuples(st.just(b"SWAPDB"), st.just(b"0"), st.just(b"1")),
    st.tuples(st.just(b"FLUSHDB")),
    st.tuples(st.just(b"SETCLOCK"), st.just(b"%d" % NOW_MS), st.just(b"%d" % (NOW_MS - 1))),
    st.tuples(st.just(b"HSET"), _names, _words),
    st.tuples(st.just(b"SET"), _names, _words, st.just(b"PX"), st.just(b"7")),
)
_RECORDS: Final = st.lists(
    st.tuples(
        _COMMANDS,
        st.sampled_from(_TIMES),
        st.sampled_from([0] * 12 + [1]),
        st.sampled_from([None] * 12 + [b"id"]),
        st.sampled_from([0] * 40 + [-NOW_MS - 1, TIME_MS_MAX]),
    ),
    max_size=60,
)
_SIZES: Final = st.lists(st.integers(1, 20), min_size=1, max_size=4)


def _stream(drawn: list[tuple[tuple[bytes, ...], int, int, bytes | None, int]]) -> list[Record]:
    """Records with times that jump, some of them out of all bounds."""
    records: list[Record] = []
    at_ms = NOW_MS
    for offset, ((name, *args), step, db, event_id, off) in enumerate(drawn):
        at_ms = max(0, at_ms + step)
        records.append((2 * offset, at_ms + off, name, args, db, event_id, None))
    return records


def _compare(records: list[Record], sizes: list[int], **how: Any) -> None:
    in_c = results(records, sizes, natively=True, **how)
    python = results(records, sizes, natively=False, **how)
    for step, (mine, twin) in enumerate(zip(in_c, python, strict=True)):
        assert twin == mine, f"step {step}"


def _of_kinds(seed: int, count: int) -> list[Record]:
    """A long stream of usual commands to a few keys, with some unusual ones between them."""
    random = Random(seed)
    records: list[Record] = []
    for offset in range(count):
        name = random.choice(
            [b"SET", b"HSET", b"INCR", b"LPUSH", b"RPUSH", b"SADD", b"ZADD", b"ZADD", b"DEL", b"ZPOPMIN"]
        )
        key = name[:1] + b"%d" % random.randrange(8)
        number, word = b"%d" % random.randrange(50), b"w%d" % random.randrange(700)
        args = {
            b"SET": [random.choice([key, b"I1", b"H1"]), number],
            b"HSET": [key, word, number],
            b"ZADD": [b"Z1" if random.random() < 0.8 else key, number, word],  # beyond the size that is counted
        }.get(name, [key] if name in {b"INCR", b"DEL", b"ZPOPMIN"} else [key, word])
        records.append((offset, NOW_MS + offset // 7, name, args, 0, None, None))
    return records


def test_it_is_built() -> None:
    """The tests run with the part in C: else they would compare Python with itself."""
    assert native.IS_BUILT


@settings(max_examples=150)
@given(drawn=_RECORDS, sizes=_SIZES, waits=st.booleans())
def test_any_records_come_to_the_same(drawn: list[Any], sizes: list[int], *, waits: bool) -> None:
    """Outcomes, counts, clock, reads of the store and all that is written are equal, in batches of any sizes."""
    _compare(_stream(drawn), sizes, waits=waits)


@settings(max_examples=60)
@given(drawn=_RECORDS, sizes=_SIZES, fails_at=st.integers(1, 40))
def test_a_read_that_fails_stops_at_the_same_record(drawn: list[Any], sizes: list[int], fails_at: int) -> None:
    """When a read of the store fails, both stop the partition at the same record, and go on to the same state."""
    _compare(_stream(drawn), sizes, fails_at=fails_at)


@pytest.mark.parametrize("seed", range(6))
def test_records_of_all_kinds_come_to_the_same(seed: int) -> None:
    """So do transactions, ids, field times and all other commands between the usual ones."""
    _compare(random_records(seed, 1500), [1, 7, 100])


@pytest.mark.parametrize("seed", range(2))
def test_large_collections_come_to_the_same(seed: int) -> None:
    """So do sorted sets that grow until their members are counted, and sets from which members are popped."""
    _compare(_of_kinds(seed, 6000), [1000, 3])


def test_an_overlay_that_is_full_ends_a_batch_at_the_same_record() -> None:
    """Strings that were loaded and written count in both, and the batch ends behind the same one."""
    value = b"v" * 1000
    count = OVERLAY_BYTES_MAX // len(value) + 10
    records: list[Record] = [(n, NOW_MS, b"SET", [b"k%d" % n, value], 0, None, None) for n in range(count)]
    _compare(records, [count])


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
    assert machine._hot is not None
    run = machine._hot.others([record], Applied(0), frozenset())

    assert [record] == list(run)
    assert (0, -1) == run.end(-1)
    assert [] == machine._tx._touched


def test_usual_records_are_applied_in_c() -> None:
    """Of these none is given to Python, new keys and keys from the store included: so there is something to compare."""
    store = new_store()
    for _ in range(2):  # the second time all keys come from the store
        machine = machine_of(store, natively=True)
        first = machine.next_offset
        commands = [
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
        records = [(first + n, NOW_MS, name, args, 0, None, None) for n, (name, *args) in enumerate(commands)]
        assert machine._hot is not None
        run = machine._hot.others(records, Applied(first), frozenset())

        assert [] == list(run)
        assert (len(records), records[-1][0]) == run.end(-1)
        machine._next_offset = records[-1][0] + 1
        machine.commit(FINGERPRINT)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Transaction, "put_string"),
        (hash_fields, "put_single"),
        (strings, "increment"),
        (lists, "push_head"),
        (lists, "push_tail"),
        (sets, "add"),
        (zsets, "add"),
    ],
    ids=str,
)
def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """If a twin did anything else than the part in C, however small, these comparisons would show it."""
    real = getattr(owner, name)

    def other(*args: Any) -> Any:
        result = real(*args)
        key = args[0]._touched[-1]
        if key.type != NONE:
            key.expire_ms, key.changed = NOW_MS + 10**9, True
        return result

    monkeypatch.setattr(owner, name, other)

    with pytest.raises(AssertionError, match="step"):
        _compare(_of_kinds(0, 400), [50])


def test_nothing_leaks() -> None:
    """Applied again and again, records leave as many objects and references behind as before, errors included."""
    records = _of_kinds(3, 400) + [(10**6 + r[0], *r[1:]) for r in random_records(3, 300)]
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

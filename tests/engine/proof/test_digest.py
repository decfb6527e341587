"""The digest of a logical state: equal for equal contents, different for any difference, blind to all else."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.layouts.layout import Form
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.proof.digest import Digest, combine, digest, digest_of_items, key_digest, running_digest
from engine.store.memory import MemoryStore
from engine.store.store import Store
from tests.engine.harness import NOW_MS, new_store, open_machine, send
from tests.layouts import layout_of

LAYOUT = layout_of()


def state(*lines: str, db: int = 0) -> MemoryStore:
    """A store after these commands."""
    store = new_store()
    send(open_machine(store), *lines, db=db)
    return store


def of(store: Store, now_ms: int = NOW_MS) -> Digest:
    """The digest of a store."""
    return digest(store, LAYOUT, now_ms)


def test_the_digest_of_nothing() -> None:
    """A state without live keys has the digest 0."""
    assert Digest(0, 0) == of(new_store()) == of(state("SET a 1", "DEL a")) == digest_of_items([]) == combine([])
    assert "0" * 64 == str(Digest())


def test_digests_do_not_change() -> None:
    """Digests are compared across releases: these are fixed. They were computed from the description, by other code."""
    items: list[tuple[int, bytes, int, int, Any]] = [
        (0, b"a", STRING, 0, b"1"),
        (15, b"h", HASH, NOW_MS, {b"f": b"v", b"": b""}),
        (0, b"l", LIST, 0, [b"x", b"y"]),
        (0, b"s", SET, 0, {b"m", b"k"}),
        (0, b"z", ZSET, 0, {b"m": -2.5, b"k": float("inf")}),
    ]

    assert "73cf1917d5e4ec841c23705094f0266a8c9a22c1df9a170cdf68388e0811bf2b" == str(digest_of_items(items[:1]))
    assert "ad3f2dbb3de1ff5e53950dd08f52b060111684e9a26e972cbf52ce3fc050db26" == str(digest_of_items(items))


def test_it_covers_live_contents_alone() -> None:
    """How a state came about does not show: deleted keys, orphans, versions, dead letters, order and batches."""
    first = state("SET a 1", "HSET h f v g w", "RPUSH l x y", "SADD s 1 2", "ZADD z 1 m 2 n")
    second = new_store()
    machine = open_machine(second)
    send(machine, "ZADD z 5 n", "ZADD z 2 n 1 m 9 k", "ZREM z k", "SADD h x", "SET gone 1", "NOSUCH", at_ms=5)
    send(machine, "DEL h", "HSET h g w", "HSET h f u", "HSET h f v", "RPUSH l y", "LPUSH l x", "SET due 1 PX 10")
    send(machine, "SADD s 2", "SADD s 1 3", "SREM s 3", "SET a 1 EX 100", "PERSIST a", "DEL gone")

    assert of(first) == of(second, NOW_MS + 10)
    assert of(first) != of(second, NOW_MS + 9)


VARIANTS = {
    "nothing": (),
    "a string": ("SET a 1",),
    "its value": ("SET a 2",),
    "its name": ("SET b 1",),
    "its time to live": ("SET a 1 PX 100",),
    "another time to live": ("SET a 1 PX 101",),
    "an empty string": ("SET a ",),
    "a hash": ("HSET a 1 2",),
    "its pairs the other way round": ("HSET a 2 1",),
    "a list": ("RPUSH a 1 2",),
    "its order": ("RPUSH a 2 1",),
    "other cuts": ("RPUSH a 12",),
    "a set": ("SADD a 1 2",),
    "a sorted set": ("ZADD a 2 1",),
    "its score": ("ZADD a 3 1",),
    "two keys": ("SET a 1", "SET b 1"),
    "a script": ("EVAL return(1) 0",),
    "one that was loaded": ("SCRIPT|LOAD return(1)",),
    "a library": ("FUNCTION|LOAD #!lua\tname=a\nredis.register_function('f',redis.log)",),
    "its code": ("FUNCTION|LOAD #!lua\tname=a\nredis.register_function('f',redis.log);",),
    "its function": ("FUNCTION|LOAD #!lua\tname=a\nredis.register_function('g',redis.log)",),
    "the name of a library": ("FUNCTION|LOAD #!lua\tname=b\nredis.register_function('f',redis.log)",),
}
TIMED = {
    "a field's time to live": ("HSETEX a PX 100 FIELDS 1 1 2",),
    "another one": ("HSETEX a PX 101 FIELDS 1 1 2",),
    "that of one of two fields": ("HSETEX a PX 100 FIELDS 2 1 2 3 4", "HPERSIST a FIELDS 1 1"),
    "that of the other one": ("HSETEX a PX 100 FIELDS 2 1 2 3 4", "HPERSIST a FIELDS 1 3"),
    "that of both": ("HSETEX a PX 100 FIELDS 2 1 2 3 4",),
    "and of the key": ("HSETEX a PX 100 FIELDS 2 1 2 3 4", "PEXPIRE a 200"),
}


def test_every_difference_shows() -> None:
    """Any two states that a client could tell apart have different digests."""
    variants = VARIANTS | (TIMED if Form.FIELD_TIMES in LAYOUT.forms else {})
    digests = {name: of(state(*lines)) for name, lines in variants.items()}
    digests["its database"] = of(state("SET a 1", db=1))

    assert [] == [pair for pair in combinations(digests, 2) if digests[pair[0]] == digests[pair[1]]]


@pytest.mark.form(Form.FIELD_TIMES)
def test_the_times_to_live_of_fields() -> None:
    """They follow the fields and values; what is due counts for nothing, and no more does that a field once had one."""
    timed = state("HSET h a 1 b 2 c 3", "HPEXPIRE h 7 FIELDS 1 b", "HPEXPIRE h 5 FIELDS 1 c", "PEXPIRE h 9")
    later = (NOW_MS + 7).to_bytes(8, "big")
    pieces = [b"a", b"1", b"b", b"2", b"b", later]
    plain = state("HSET h a 1 b 2", "HPEXPIRE h 7 FIELDS 1 b", "HPERSIST h FIELDS 1 b")

    assert Digest(key_digest(0, b"h", HASH, NOW_MS + 9, pieces), 1) == of(timed, NOW_MS + 5) == of(timed, NOW_MS + 6)
    assert Digest(key_digest(0, b"h", HASH, NOW_MS + 9, [b"a", b"1"]), 1) == of(timed, NOW_MS + 7)
    assert of(state("HSET h a 1 b 2")) == of(plain)


def test_keys_are_counted() -> None:
    """A digest says how many live keys it covers."""
    store = state("SET a 1 PX 5", "SET b 1", "HSET h f v", "SET c 1", "DEL c")

    assert (3, 2) == (of(store).keys, of(store, NOW_MS + 5).keys)


def test_the_digest_so_far_grows_key_by_key() -> None:
    """The running digest has a step for each live key; its last is the digest."""
    store = state("SET a 1", "HSET h f v", "SET due 1 PX 5", "SET c 1")
    steps = list(running_digest(store, LAYOUT, NOW_MS + 5))

    assert [1, 2, 3] == [step.keys for step in steps]
    assert of(store, NOW_MS + 5) == steps[-1]


@given(st.lists(st.builds(Digest, st.integers(0, 2**256 - 1), st.integers(0, 5))))
def test_digests_add_up_in_any_order(digests: list[Digest]) -> None:
    """Adding is modulo 2**256 and does not depend on the order; 64 digits show it all."""
    total = combine(digests)

    assert total == combine(digests[::-1])
    assert sum(part.value for part in digests) % 2**256 == total.value == int(str(total), 16)
    assert 64 == len(str(total))


NAMES = st.binary(max_size=3)
VALUES = st.one_of(
    st.tuples(st.just(STRING), NAMES),
    st.tuples(st.just(HASH), st.dictionaries(NAMES, NAMES, min_size=1, max_size=4)),
    st.tuples(st.just(LIST), st.lists(NAMES, min_size=1, max_size=4)),
    st.tuples(st.just(SET), st.sets(NAMES, min_size=1, max_size=4)),
    st.tuples(st.just(ZSET), st.dictionaries(NAMES, st.floats(allow_nan=False), min_size=1, max_size=4)),
)


@given(st.dictionaries(st.tuples(st.integers(0, 15), NAMES), st.tuples(VALUES, st.integers(0, 3)), max_size=6))
def test_a_model_of_plain_values_has_the_same_digest(
    model: dict[tuple[int, bytes], tuple[tuple[int, Any], int]],
) -> None:
    """The digest of dicts, lists and sets is that of a state which holds the same."""
    machine = open_machine(store := new_store())
    for (db, name), ((type_code, value), ttl_ms) in model.items():
        offset = machine.next_offset
        machine.apply([(offset, NOW_MS, *_write(name, type_code, value), db, None, None)], offset)
        if ttl_ms:
            machine.apply([(offset + 1, NOW_MS, b"PEXPIRE", [name, b"%d" % ttl_ms], db, None, None)], offset + 1)
    machine.commit(b"x")
    now_ms = NOW_MS + 1
    live = [
        (db, name, type_code, NOW_MS + ttl_ms if ttl_ms else 0, value)
        for (db, name), ((type_code, value), ttl_ms) in model.items()
        if ttl_ms != 1
    ]

    assert digest_of_items(live) == of(store, now_ms)


def _write(name: bytes, type_code: int, value: Any) -> tuple[bytes, list[bytes]]:
    """The command that gives `name` this value."""
    if type_code == STRING:
        return b"SET", [name, value]
    if type_code == HASH:
        return b"HSET", [name, *(part for pair in value.items() for part in pair)]
    if type_code == ZSET:
        return b"ZADD", [name, *(part for member, score in value.items() for part in (repr(score).encode(), member))]
    return b"RPUSH" if type_code == LIST else b"SADD", [name, *value]


@pytest.mark.parametrize("type_code", [HASH, ZSET])
def test_a_model_s_order_does_not_count(type_code: int) -> None:
    """Mappings are digested in the order of their keys, however they were filled."""
    value: dict[bytes, Any] = {b"b": 1.0, b"a": 2.0} if type_code == ZSET else {b"b": b"1", b"a": b"2"}
    swapped = dict(sorted(value.items()))

    assert list(swapped) != list(value)
    assert digest_of_items([(0, b"k", type_code, 0, value)]) == digest_of_items([(0, b"k", type_code, 0, swapped)])

"""Values dumped by one side and restored by the other, both ways: the same content, however the oracle holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from engine.store.store import Store
from slotlog.shared.doubles import format_double
from tests.differential.contents import of_engine, of_oracle
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store, open_machine
from tests.layouts import layout_of
from tests.real.oracle import Connection, ErrorReply

FAR_MS: Final = 4_102_444_800_000

_BOUNDS: Final = [
    sign * (1 << bits) + by for bits in (7, 12, 13, 15, 23, 31, 63) for sign in (1, -1) for by in (-1, 0, 1)
]
INTEGERS: Final = st.one_of(st.integers(-5, 300), st.sampled_from(_BOUNDS), st.integers(-(2**63), 2**63)).map(
    lambda number: b"%d" % number
)
TEXTS: Final = st.one_of(
    st.binary(max_size=80),
    INTEGERS,
    st.tuples(st.binary(min_size=1, max_size=3), st.sampled_from([30, 100, 1500, 9000])).map(lambda it: it[0] * it[1]),
)
SCORES: Final = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False)).map(format_double)


def flat(pairs: st.SearchStrategy[tuple[bytes, bytes]]) -> st.SearchStrategy[list[bytes]]:
    """Up to 40 pairs, one behind the other."""
    return st.lists(pairs, min_size=1, max_size=40).map(lambda some: [part for pair in some for part in pair])


COMMANDS: Final = st.one_of(
    st.tuples(st.just(b"SET"), st.lists(TEXTS, min_size=1, max_size=1)),
    st.tuples(st.just(b"RPUSH"), st.lists(TEXTS, min_size=1, max_size=40)),
    st.tuples(st.just(b"SADD"), st.lists(TEXTS, min_size=1, max_size=40)),
    st.tuples(st.just(b"SADD"), st.lists(INTEGERS, min_size=1, max_size=40)),
    st.tuples(st.just(b"HSET"), flat(st.tuples(TEXTS, TEXTS))),
    st.tuples(st.just(b"ZADD"), flat(st.tuples(SCORES, TEXTS))),
)


class Knobs(NamedTuple):
    """How many and how long elements the oracle packs, how large a node of a list is, and whether it compresses."""

    packed_max: int
    node_size: int
    compressed: bool

    def set(self, oracle: Connection) -> None:
        """Let the oracle hold, and dump, by them."""
        names = [f"{kind}-max-listpack-{unit}" for kind in ("hash", "set", "zset") for unit in ("entries", "value")]
        limits = dict.fromkeys([*names, "set-max-intset-entries"], self.packed_max)
        others = {
            "list-max-listpack-size": self.node_size,
            "list-compress-depth": int(self.compressed),
            "rdbcompression": "yes" if self.compressed else "no",
        }
        oracle.call("CONFIG", "SET", *(word for limit in {**limits, **others}.items() for word in limit))


ALL_KNOBS: Final = st.builds(Knobs, st.sampled_from([0, 5, 100_000]), st.sampled_from([1, 3, -1, -5]), st.booleans())
SETTINGS: Final = ("*max-listpack*", "set-max-intset-entries", "list-compress-depth", "rdbcompression")


@pytest.fixture
def knobs_restored(oracle: Connection) -> Iterator[Connection]:
    """The oracle, whose settings are put back afterwards."""
    before = oracle.call("CONFIG", "GET", *SETTINGS)
    yield oracle
    oracle.call("CONFIG", "SET", *before)


def run(machine: Machine, name: bytes, *args: bytes) -> Any:
    """The outcome of a command that is the next record."""
    offset = machine.next_offset
    applied = machine.apply([(offset, NOW_MS, name, list(args), 0, None, None)], offset, waiting={offset})
    machine.commit(FINGERPRINT)
    return applied.outcomes[offset]


def exchange(store: Store, machine: Machine, oracle: Connection, key: bytes, command: list[bytes]) -> None:
    """Make a key by `command` on each side, and restore what the other one made: under two names, both on both."""
    name, *args = command
    theirs, ours = key + b" of the oracle", key + b" of the engine"
    assert not isinstance(oracle.call(name, theirs, *args), ErrorReply)
    run(machine, name, ours, *args)
    payload = machine.read(b"DUMP", [ours])

    assert b"OK" == run(machine, b"RESTORE", theirs, b"0", oracle.call("DUMP", theirs))
    assert b"OK" == oracle.call("RESTORE", ours, 0, payload).text
    assert of_oracle(oracle) == of_engine(store, layout_of(), NOW_MS)


def test_random_values_are_the_same_on_both_sides(knobs_restored: Connection) -> None:
    """Any type, any bytes, small and large encodings, with and without compression."""
    oracle = knobs_restored

    @settings(max_examples=150)
    @given(COMMANDS, ALL_KNOBS)
    def search(command: tuple[bytes, list[bytes]], knobs: Knobs) -> None:
        oracle.call("FLUSHALL")
        knobs.set(oracle)
        store = new_store()
        exchange(store, open_machine(store), oracle, b"k", [command[0], *command[1]])

    search()


MANY: Final = [b"element %d" % number for number in range(5000)]
LARGE: Final = {
    "string": [b"SET", bytes(range(256)) * 4096],
    "compressible string": [b"SET", b"0123456789" * 200_000],
    "list": [b"RPUSH", *MANY, b"x" * 100_000, *MANY],
    "set": [b"SADD", *MANY],
    "integers": [b"SADD", *(b"%d" % (7 * number) for number in range(5000))],
    "hash": [b"HSET", *MANY],
    "sorted set": [b"ZADD", *(part for number, text in enumerate(MANY) for part in (b"%d.5" % (number % 77), text))],
}


@pytest.mark.parametrize("packed_max", [0, 100_000])
@pytest.mark.parametrize("kind", LARGE)
def test_large_values_are_the_same_on_both_sides(kind: str, packed_max: int, knobs_restored: Connection) -> None:
    """Thousands of elements and a megabyte of text, packed in one piece and not at all."""
    Knobs(packed_max, -2, compressed=True).set(knobs_restored)
    store = new_store()

    exchange(store, open_machine(store), knobs_restored, b"k", LARGE[kind])


@pytest.mark.form(Form.FIELD_TIMES)
def test_times_of_fields_go_along(oracle: Connection) -> None:
    """A hash of which some fields have a time to live, both ways; a field that is due is left out."""
    machine = open_machine(new_store())
    pairs = [word for number in range(300) for word in (b"f%d" % number, b"v%d" % number)]
    timed = [b"f%d" % number for number in range(0, 300, 7)]
    oracle.call("HSET", "k", *pairs)
    oracle.call("HPEXPIREAT", "k", FAR_MS, "FIELDS", len(timed), *timed)
    run(machine, b"RESTORE", b"k", b"0", oracle.call("DUMP", "k"))
    run(machine, b"HPEXPIREAT", b"k", b"%d" % (FAR_MS + 5), b"FIELDS", b"1", b"f1")
    run(machine, b"HPEXPIREAT", b"k", b"%d" % (NOW_MS + 5), b"FIELDS", b"1", b"f2")
    run(machine, b"HPEXPIREAT", b"k", b"%d" % (NOW_MS + 9), b"FIELDS", b"1", b"f3")
    early = machine.read(b"DUMP", [b"k"])
    machine.apply([(machine.next_offset, NOW_MS + 6, b"TICK", [], 0, None, None)], machine.next_offset)
    late = machine.read(b"DUMP", [b"k"])
    machine.apply([(machine.next_offset, NOW_MS + 10, b"TICK", [], 0, None, None)], machine.next_offset)
    oracle.call("RESTORE", "k", 0, machine.read(b"DUMP", [b"k"]), "REPLACE")
    fields = [b"f0", b"f1", b"f2", b"f3", b"f4"]

    assert [FAR_MS, FAR_MS + 5, -2, -2, -1] == oracle.call("HPEXPIRETIME", "k", "FIELDS", 5, *fields)
    assert [FAR_MS, FAR_MS + 5, -2, -2, -1] == machine.read(b"HPEXPIRETIME", [b"k", b"FIELDS", b"5", *fields])
    assert 298 == oracle.call("HLEN", "k") == machine.read(b"HLEN", [b"k"])
    assert len(early) > len(late)

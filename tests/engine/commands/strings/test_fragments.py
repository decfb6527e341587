"""Large strings: their stored form, the cost of a partial change, and random changes at the edges."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from engine.apply.machine import Machine, Record
from engine.batch.keys.fragments import INLINE_BYTES_MAX
from engine.errors import REPLY_TOO_LARGE, CommandError
from engine.layouts.layout import Form, Kind
from engine.limits import FRAGMENT_BYTES, REPLY_BYTES_MAX
from engine.model import STRING, Metadata
from engine.store.memory import MemoryStore
from engine.store.store import GRAVEYARD_CF
from engine.tables.graveyard import parse_grave
from tests.consistency import problems
from tests.differential.wire import RESP2, wire
from tests.engine.harness import (
    FINGERPRINT,
    HOME,
    NOW_MS,
    WatchedStore,
    event,
    family,
    new_store,
    open_machine,
    records_of,
)
from tests.engine.stored import described, key_of, stored, subkeys_of, written
from tests.real.oracle import Connection

KEY = key_of(b"k")
MIB = 1024 * 1024
LARGE = INLINE_BYTES_MAX + 1

# ------------------------------------------------------------------ the form


def run(machine: Machine, *commands: list[bytes]) -> list[Any]:
    """Apply each command as a record of its own and commit; the outcomes."""
    start = machine.next_offset
    records: list[Record] = [(start + n, NOW_MS, name, args, 0, None, None) for n, (name, *args) in enumerate(commands)]
    outcomes: dict[int, Any] = {}
    while records:
        applied = machine.apply(records, machine.next_offset, waiting=range(1 << 62))
        machine.commit(FINGERPRINT)
        outcomes |= applied.outcomes
        records = records[applied.records :]
    return [outcomes[offset] for offset in sorted(outcomes)]


def fragments_of(store: MemoryStore) -> dict[int, bytes]:
    """The fragments that are stored of the key `k`, by index; there must be no others."""
    fragments = fragments_of_live(store)
    assert len(fragments) == len(stored(store, Kind.DATA))
    return fragments


@pytest.mark.form(Form.FRAGMENTS)
@pytest.mark.parametrize("length", [INLINE_BYTES_MAX, LARGE])
def test_the_form_follows_from_the_length(length: int) -> None:
    """Up to the bound a value is in its metadata record, one byte more is in fragments, however it came to be."""
    value = b"x" * length
    ways = [
        [[b"SET", b"k", value]],
        [[b"SET", b"k", value[:10]], [b"APPEND", b"k", value[10:]]],
        [[b"SETRANGE", b"k", b"%d" % (length - 10), value[:10]], [b"SETRANGE", b"k", b"0", value[10:]]],
        [[b"SETRANGE", b"k", b"%d" % (length - 1), b"x"], [b"GETSET", b"k", value]],
        [[b"SET", b"s", value], [b"BITOP", b"OR", b"k", b"s"], [b"DEL", b"s"]],
    ]
    for way in ways:
        store = new_store()
        machine = Machine(store, HOME)
        run(machine, *way)
        metadata = described(store)[KEY]

        assert (length > INLINE_BYTES_MAX) == bool(metadata.version)
        assert value == (metadata.value or b"".join(fragments_of_live(store).values()))
        assert ([], value) == (problems(store), machine.read(b"GET", [b"k"]))


@pytest.mark.form(Form.FRAGMENTS)
def test_zeros_are_not_stored() -> None:
    """A fragment of zeros has no record, another one ends with its last byte that is not zero."""
    store = new_store()
    machine = open_machine(store)
    run(machine, [b"SETRANGE", b"k", b"%d" % (3 * MIB), b"x"], [b"SETRANGE", b"k", b"5", b"ab\0\0"])
    assert {0: bytes(5) + b"ab", 768: b"x"} == fragments_of(store)

    run(machine, [b"SETRANGE", b"k", b"5", b"\0\0"], [b"SETBIT", b"k", b"%d" % (3 * MIB * 8 + 4), b"0"])
    assert {768: b"p"} == fragments_of(store)

    run(machine, [b"SETRANGE", b"k", b"%d" % (3 * MIB), b"\0"])
    assert ({}, 3 * MIB + 1) == (fragments_of(store), machine.read(b"STRLEN", [b"k"]))
    assert bytes(3 * MIB + 1) == machine.read(b"GET", [b"k"])


@pytest.mark.form(Form.FRAGMENTS)
def test_overwriting_buries_the_fragments() -> None:
    """SET leaves the old fragments where they are and one grave with the length; the new value has its own version."""
    store = new_store()
    machine = open_machine(store)
    run(machine, [b"SETRANGE", b"k", b"%d" % (LARGE - 1), b"x"])
    old = stored(store, Kind.DATA)

    run(machine, [b"SET", b"k", b"y" * LARGE], [b"SET", b"k", b"short"])

    graves = [parse_grave(*record) for record in family(store, GRAVEYARD_CF).items()]
    assert [(STRING, LARGE, KEY)] * 2 == [(grave.type, grave.size, grave.metadata_key) for grave in graves]
    assert old.items() < stored(store, Kind.DATA).items()
    assert Metadata(STRING, 0, value=b"short") == described(store)[KEY]
    assert [] == problems(store)


@pytest.mark.parametrize(
    "change",
    [
        [b"APPEND", b"k", b"y" * LARGE],
        pytest.param([b"SETBIT", b"k", b"4294967295", b"1"], marks=pytest.mark.form(Form.FRAGMENTS)),
    ],
)
def test_growing_keeps_the_time_to_live(change: list[bytes]) -> None:
    """A value that outgrows its metadata record still dies when it was to, and is one key."""
    store = new_store()
    machine = open_machine(store)
    run(machine, [b"SET", b"k", b"x", b"EX", b"7"], change)

    assert (7000, 1) == (machine.read(b"PTTL", [b"k"]), machine.read(b"DBSIZE", []))
    assert ([], b"x") == (problems(store), machine.read(b"GETRANGE", [b"k", b"0", b"0"]))


# ------------------------------------------------------------------ what it costs


@pytest.mark.form(Form.FRAGMENTS)
def test_a_bit_of_64_mib_costs_one_fragment() -> None:
    """SETBIT in a dense bitmap of 64 MiB writes one fragment and the metadata record, whatever its length."""
    store = WatchedStore()
    machine = Machine(store, HOME)
    run(machine, *([b"APPEND", b"k", b"\xaa" * MIB] for _ in range(64)))
    del store.batches[:]

    assert [0] == run(machine, [b"SETBIT", b"k", b"%d" % (33 * MIB * 8 + 1), b"1"])

    records = [record for kind in Kind for record in written(store.batches[0], kind).items()]
    assert 2 == len(records)
    assert sum(len(key) + len(value or b"") for key, value in records) < FRAGMENT_BYTES + 200


def test_a_bit_that_is_so_already_is_not_written() -> None:
    """SETBIT of a bit to what it is changes no record, so that nobody's WATCH is lost."""
    store = WatchedStore()
    machine = Machine(store, HOME)
    run(machine, [b"SETRANGE", b"k", b"%d" % MIB, b"x"])
    del store.batches[:]

    run(machine, [b"SETBIT", b"k", b"7", b"0"], [b"BITFIELD", b"k", b"INCRBY", b"u8", b"0", b"0"])

    assert [{}] * len(Kind) == [written(store.batches[0], kind) for kind in Kind]


@pytest.mark.form(Form.FRAGMENTS)
def test_the_last_bit_of_all_costs_one_fragment() -> None:
    """512 MiB of which one bit is set are two records, and BITPOS, BITCOUNT and BITOP pass over what is not there."""
    store = new_store()
    machine = open_machine(store)
    run(machine, [b"SETBIT", b"k", b"4294967295", b"1"], [b"SETBIT", b"a", b"4294967294", b"1"])
    assert [536870912] == run(machine, [b"BITOP", b"OR", b"k", b"a", b"k"])

    assert {131071: bytes(FRAGMENT_BYTES - 1) + b"\x03"} == {
        index: content for index, content in fragments_of_live(store).items() if index
    }
    assert [2, 4294967294, 0, 2] == [
        machine.read(b"BITCOUNT", [b"k"]),
        machine.read(b"BITPOS", [b"k", b"1"]),
        machine.read(b"BITPOS", [b"k", b"0"]),
        machine.read(b"BITCOUNT", [b"k", b"-2", b"-1"]),
    ]


def fragments_of_live(store: MemoryStore) -> dict[int, bytes]:
    """The fragments of the version of `k` that its metadata names."""
    return {int.from_bytes(subkey): value for subkey, value in subkeys_of(store, b"k").items()}


@pytest.mark.form(Form.FRAGMENTS)
def test_what_was_read_does_not_stay_in_memory() -> None:
    """A value in fragments is read anew by every batch: between two of them only its metadata is kept."""
    machine = Machine(new_store(), HOME)
    run(machine, [b"SET", b"k", b"x" * MIB])
    machine.read(b"GET", [b"k"])

    key = machine._tx._overlay.databases[0][b"k"]
    assert (b"", {}) == (key.value, key.data.changed)


@pytest.mark.form(Form.FRAGMENTS)
def test_what_a_batch_holds_of_fragments_counts() -> None:
    """Fragments that are written or read count as the bytes that they are, so batches and transactions stay bounded."""
    machine = Machine(new_store(), HOME)
    run(machine, [b"SETRANGE", b"k", b"%d" % (64 * MIB), b"x"])
    machine.apply([event(1, f"SETRANGE k 0 {'x' * FRAGMENT_BYTES}"), event(2, "SETBIT k 8000 1")], 1)
    assert 2 * FRAGMENT_BYTES + 1 == machine._tx.value_bytes

    machine.apply([event(3, "GETRANGE k 0 99999")], 3)
    assert 2 * FRAGMENT_BYTES + 1 + 100_000 == machine._tx.value_bytes


def test_several_values_are_bounded_before_they_are_read() -> None:
    """MGET of more than a reply may hold is an error, and large values are not read for it; one alone may be larger."""
    machine = Machine(new_store(), HOME)
    run(machine, [b"SETRANGE", b"k", b"%d" % REPLY_BYTES_MAX, b"x"])

    with pytest.raises(CommandError, match=REPLY_TOO_LARGE):
        machine.read(b"MGET", [b"none", b"k"])
    assert REPLY_BYTES_MAX + 1 == len(machine.read(b"MGET", [b"k"])[0])


@pytest.mark.form(Form.FRAGMENTS)
def test_memory_usage_counts_the_fragments() -> None:
    """MEMORY USAGE of all samples is the bytes of the records; from some of them it takes the others to be alike."""
    store = new_store()
    machine = open_machine(store)
    run(machine, [b"SETRANGE", b"k", b"0", b"x" * 40 * FRAGMENT_BYTES], [b"SETRANGE", b"k", b"%d" % MIB, b"y"])
    records = [record for kind in Kind for record in stored(store, kind).items()]
    exact = sum(len(key) + len(value) for key, value in records)

    assert exact == machine.read(b"MEMORY|USAGE", [b"k", b"SAMPLES", b"0"])
    assert MIB + FRAGMENT_BYTES < machine.read(b"MEMORY|USAGE", [b"k"]) < 1.1 * MIB
    assert b"raw" == machine.read(b"OBJECT|ENCODING", [b"k"])


def test_copies_and_digests_have_the_whole_value() -> None:
    """COPY takes the fragments along, and RENAME gives the same digest as the value set under the new name."""
    value = bytes(5000) + b"abc" * 100_000
    moved, made = new_store(), new_store()
    machine = open_machine(moved)
    run(machine, [b"SET", b"s", value], [b"COPY", b"s", b"c"], [b"RENAME", b"s", b"k"], [b"DEL", b"c"])
    run(other := open_machine(made), [b"SET", b"k", value])

    assert value == machine.read(b"GET", [b"k"]) == other.read(b"GET", [b"k"])
    assert fragments_of_live(moved) == fragments_of_live(made)


# ------------------------------------------------------------------ at the edges, beside the oracle

NAMES: Final = (b"a", b"b", b"c")
EDGES: Final = (0, 1, FRAGMENT_BYTES, 2 * FRAGMENT_BYTES, INLINE_BYTES_MAX, INLINE_BYTES_MAX + FRAGMENT_BYTES)


def place(random: Random) -> int:
    """A byte near an edge."""
    return max(0, random.choice(EDGES) + random.randrange(-3, 4))


def some(random: Random) -> bytes:
    """Bytes to write: few or some fragments, zeros, ones or any."""
    length = random.choice([1, 2, 5, FRAGMENT_BYTES - 1, FRAGMENT_BYTES, 3 * FRAGMENT_BYTES + 1])
    return random.choice([bytes(length), b"\xff" * length, random.randbytes(length)])


def command(random: Random) -> list[bytes]:
    """A command that changes or reads parts of a string, or makes it short again."""
    k = random.choice(NAMES)
    at, bit, to = b"%d" % place(random), b"%d" % (place(random) * 8 + random.randrange(8)), b"%d" % place(random)
    unit = random.choice([b"BYTE", b"BIT"])
    start, end = (at, to) if unit == b"BYTE" else (bit, b"%d" % (int(to) * 8 + 3))
    integer = random.choice([b"i1", b"u8", b"i64", b"u63", b"i13"])
    return random.choice([
        *[[b"SETRANGE", k, at, some(random)]] * 3,
        *[[b"SETBIT", k, bit, random.choice([b"0", b"1"])]] * 3,
        [b"APPEND", k, some(random)],
        [b"SET", k, some(random)],
        [b"GETDEL", k],
        [b"BITOP", random.choice([b"AND", b"OR", b"XOR"]), k, *random.choices(NAMES, k=random.randrange(1, 4))],
        [b"BITOP", b"NOT", k, random.choice(NAMES)],
        [b"BITFIELD", k, b"SET", integer, bit, b"-77", b"GET", integer, bit, b"INCRBY", integer, b"#7", b"3"],
        [b"BITFIELD_RO", k, b"GET", b"i64", bit],
        [b"GETBIT", k, bit],
        [b"GETRANGE", k, at, to],
        [b"STRLEN", k],
        [b"BITCOUNT", k, start, end, unit],
        [b"BITPOS", k, random.choice([b"0", b"1"]), start, end, unit],
        [b"BITPOS", k, random.choice([b"0", b"1"]), at],
        [b"COPY", k, random.choice(NAMES), b"REPLACE"],
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_at_the_edges_are_those_of_the_oracle(seed: int, oracle: Connection) -> None:
    """Around the ends of fragments and the bound of the inline form, replies and values are those of the oracle."""
    random = Random(seed)
    commands = [command(random) for _ in range(150)]
    expected = oracle.pipeline(commands)
    values = oracle.pipeline([[b"GET", name] for name in NAMES])
    stores = []
    for batch in (1, 40):
        store = new_store()
        machine = Machine(store, HOME)
        actual = [reply for at in range(0, 150, batch) for reply in run(machine, *commands[at : at + batch])]
        for sent, theirs, ours in zip(commands, expected, actual, strict=True):
            assert theirs == wire(ours, RESP2), f"{[part[:20] for part in sent]}: {theirs!r}, not {ours!r}"[:400]
        assert values == [machine.read(b"GET", [name]) for name in NAMES]
        assert [] == problems(store)
        stores.append(records_of(store))
    assert stores[0] == stores[1]

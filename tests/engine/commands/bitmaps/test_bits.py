"""Bitmaps: ranges and offsets at every edge beside a plain calculation, and what a failed BITFIELD leaves."""

from __future__ import annotations

import tracemalloc
from functools import reduce
from operator import and_
from random import Random

import pytest

from engine.apply.machine import Machine
from engine.batch.keys.fragments import INLINE_BYTES_MAX
from engine.layouts.layout import Form
from engine.limits import FRAGMENT_BYTES
from engine.store.store import GRAVEYARD_CF
from tests.engine.commands.watched import WatchedStore
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, family, new_store, open_machine, send
from tests.real.oracle import Connection, NullArray


def holding(value: bytes, *others: bytes) -> Machine:
    """A machine with that string at `k`, and others at `k1`, `k2` and so on."""
    machine = Machine(new_store(), HOME)
    for number, content in enumerate((value, *others)):
        name = b"k%d" % number if number else b"k"
        offset = machine.next_offset
        machine.apply([(offset, NOW_MS, b"SET", [name, content], 0, None, None)], offset)
    machine.commit(FINGERPRINT)
    return machine


def digits(value: bytes) -> str:
    """The bits as `0` and `1`."""
    return "".join(f"{byte:08b}" for byte in value)


@pytest.mark.parametrize("length", [3, INLINE_BYTES_MAX + FRAGMENT_BYTES + 3])
def test_ranges_of_bits(length: int) -> None:
    """BITCOUNT and BITPOS between two bits or bytes are those of the digits, at edges and in gaps of zeros."""
    random = Random(1)
    value = random.randbytes(3) + bytes(max(0, length - 6)) + random.randbytes(3)
    value = value[:2] + b"\xff" * 2 * FRAGMENT_BYTES + value[2:] if length > 3 else value
    machine, bits = holding(value), digits(value)
    edges = [0, 1, 7, 8, 9, FRAGMENT_BYTES * 8 - 1, FRAGMENT_BYTES * 8, 2 * FRAGMENT_BYTES * 8 + 17, len(bits) - 1]
    for _ in range(300):
        first, last = (random.choice(edges) + random.randrange(-2, 3) for _ in range(2))
        if first < 0 or last < 0:
            continue
        within = bits[first : last + 1]
        sent = [b"%d" % first, b"%d" % last, b"BIT"]
        assert within.count("1") == machine.read(b"BITCOUNT", [b"k", *sent])
        for digit in "01":
            at = within.find(digit)
            assert (at if at < 0 else at + first) == machine.read(b"BITPOS", [b"k", digit.encode(), *sent])


@pytest.mark.form(Form.FRAGMENTS)
def test_a_scan_for_a_bit_stops_where_it_is_found() -> None:
    """BITPOS reads no further than the fragment that has the bit, and BITCOUNT only those of its range."""
    store = WatchedStore()
    machine = Machine(store, HOME)
    send(machine, "SETRANGE k 4096 x", f"SETRANGE k {64 * FRAGMENT_BYTES} {'y' * FRAGMENT_BYTES * 10}")
    store.gets = store.scans = store.scanned = 0

    assert 64 * FRAGMENT_BYTES * 8 == machine.read(b"BITPOS", [b"k", b"0", b"262144"])
    machine.read(b"BITCOUNT", [b"k", b"262144", b"262200"])
    machine.read(b"GETBIT", [b"k", b"9999"])
    machine.read(b"STRLEN", [b"k"])

    assert (2, 1, 1) == (store.gets, store.scans, store.scanned)


def bits_of(machine: Machine, name: bytes, size: int) -> int:
    """A string, or none, as a number of `size` bytes."""
    return int.from_bytes((machine.read(b"GET", [name]) or b"").ljust(size, b"\0"))


def as_documented(operation: bytes, first: int, *others: int) -> int:
    """What BITOP makes of numbers, as https://redis.io/docs/latest/commands/bitop/ says it of three bitmaps."""
    one, two, *_ = (*others, 0, 0)
    every = [first, *others]
    return {
        b"AND": reduce(and_, every),
        b"OR": first | one | two,
        b"XOR": first ^ one ^ two,
        b"DIFF": first & ~(one | two),
        b"DIFF1": (one | two) & ~first,
        b"ANDOR": first & (one | two),
        b"ONE": (first ^ one ^ two) & ~(first & one & two),
    }[operation]


@pytest.mark.parametrize("operation", [b"AND", b"OR", b"XOR", b"DIFF", b"DIFF1", b"ANDOR", b"ONE"])
@pytest.mark.parametrize("sources", [[b"k", b"k1"], [b"k1", b"k", b"k2"], [b"none", b"k", b"k1"], [b"k", b"none"]])
@pytest.mark.parametrize("size", [3, INLINE_BYTES_MAX + 5, FRAGMENT_BYTES * 2 + 1])
def test_bitop_combines_bit_by_bit(operation: bytes, sources: list[bytes], size: int) -> None:
    """Inline or in fragments, with missing keys; the destination may be a source; the result has the longest length."""
    machine = holding(*(Random(number).randbytes(size - number) for number in range(3)))
    longest = max(len(machine.read(b"GET", [name]) or b"") for name in sources)
    expected = as_documented(operation, *(bits_of(machine, name, longest) for name in sources))
    offset = machine.next_offset
    applied = machine.apply([(offset, NOW_MS, b"BITOP", [operation, b"k", *sources], 0, None, None)], offset, [offset])
    machine.commit(FINGERPRINT)

    assert longest == applied.outcomes[offset]
    assert expected.to_bytes(longest) == machine.read(b"GET", [b"k"])


@pytest.mark.parametrize("operation", ["DIFF", "DIFF1", "ANDOR"])
def test_bitop_of_first_and_others_wants_two(operation: str) -> None:
    """One source has no others; as in Redis 8.2 that is an error."""
    (refused,) = send(open_machine(new_store()), f"BITOP {operation} k k")

    assert f"ERR BITOP {operation} must be called with at least two source keys." == str(refused)


def test_bitop_replaces_any_type_and_an_empty_result_deletes() -> None:
    """The destination may be a list, which is buried; without a result it is gone, and its time to live never stays."""
    store = new_store()
    machine = open_machine(store)

    assert [2, 0, 1] == send(machine, "RPUSH l a b", "SETBIT k 7 1", "BITOP AND l k")
    assert (1, b"\x01") == (len(family(store, GRAVEYARD_CF)), machine.read(b"GET", [b"l"]))
    assert [1, 1, 0, 0] == send(machine, "EXPIRE l 9", "BITOP NOT l k", "BITOP OR l none", "EXISTS l")


def test_bitfield_reaches_over_the_end_of_a_fragment() -> None:
    """An integer of 64 bits may lie in two fragments, and may make the string longer than any other command can."""
    at = INLINE_BYTES_MAX * 8 + FRAGMENT_BYTES * 8 - 13
    machine = open_machine(new_store())

    assert [[0, -5]] == send(machine, f"BITFIELD k SET i64 {at} -5 GET i64 {at}")
    assert [[0, 0]] == send(machine, "BITFIELD k SET i64 4294967295 1 GET u8 4294967288")
    assert (536870920, -5) == (
        machine.read(b"STRLEN", [b"k"]),
        machine.read(b"BITFIELD_RO", [b"k", b"GET", b"i64", b"%d" % at])[0],
    )


def test_bitfield_holds_no_fragments_that_it_only_reads() -> None:
    """Reads in 4,000 fragments, 16 MiB of them, take less than 2 MiB of memory."""
    machine = open_machine(new_store())
    words = [word for at in range(4000) for word in (b"GET", b"u8", b"%d" % (at * FRAGMENT_BYTES * 8))]

    tracemalloc.start()
    replies = machine.read(b"BITFIELD_RO", [b"none", *words])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [0] * 4000 == replies
    assert peak_bytes < 2 << 20


def test_a_failed_bitfield_has_made_the_string_longer(oracle: Connection) -> None:
    """OVERFLOW FAIL leaves the bits, but the string reaches to them, as in Redis. Redis tells no WATCH of it; we do."""
    line = "BITFIELD k OVERFLOW FAIL INCRBY u2 100 9"
    machine = open_machine(new_store())

    assert [[None]] == send(machine, line) == [oracle.call(*line.split(" "))]
    assert 13 == machine.read(b"STRLEN", [b"k"]) == oracle.call("STRLEN", "k")
    oracle.pipeline([["DEL", "k"], ["WATCH", "k"], line.split(" ")])
    assert NullArray() != oracle.pipeline([["MULTI"], ["EXEC"]])[1]
    send(machine, "DEL k")
    assert 1 == len(modified(machine, line))


def modified(machine: Machine, line: str) -> list[tuple[object, ...]]:
    """What a server is told of the keys that a command modified."""
    machine.witnessing = True
    name, *args = line.encode().split(b" ")
    applied = machine.apply([(machine.next_offset, NOW_MS, name, args, 0, None, None)], machine.next_offset)
    machine.commit(FINGERPRINT)
    return list(applied.modified)

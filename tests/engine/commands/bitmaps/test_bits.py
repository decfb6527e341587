"""Bitmaps: ranges and offsets at every edge beside a plain calculation, and what a failed BITFIELD leaves."""

from __future__ import annotations

import tracemalloc
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


def test_bitop_reads_its_destination_first() -> None:
    """The destination may be one of the sources, inline or in fragments, and gets their longest length."""
    for size in (3, INLINE_BYTES_MAX + 5):
        a, b = Random(2).randbytes(size), Random(3).randbytes(size - 2)
        machine = holding(a, b)
        for operation in (b"OR", b"XOR", b"AND"):
            numbers = [int.from_bytes(machine.read(b"GET", [name]).ljust(size, b"\0")) for name in (b"k", b"k1")]
            expected = {
                b"OR": numbers[0] | numbers[1],
                b"XOR": numbers[0] ^ numbers[1],
                b"AND": numbers[0] & numbers[1],
            }
            offset = machine.next_offset
            machine.apply([(offset, NOW_MS, b"BITOP", [operation, b"k", b"k", b"k1"], 0, None, None)], offset)
            machine.commit(FINGERPRINT)
            assert expected[operation].to_bytes(size) == machine.read(b"GET", [b"k"])


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

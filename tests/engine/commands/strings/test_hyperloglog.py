"""HyperLogLog commands where random sequences seldom go: what they write, what they leave, values of other kinds."""

from __future__ import annotations

import pytest

from engine.layouts.layout import Kind
from tests.engine.harness import NOW_MS, new_store, open_machine, send
from tests.engine.stored import stored

_NOT_A_HLL = "WRONGTYPE Key is not a valid HyperLogLog string value."


def _texts(outcomes: list[object]) -> list[str]:
    return [getattr(outcome, "message", "") for outcome in outcomes]


def test_counting_writes_nothing() -> None:
    """PFCOUNT leaves the value as it is, so that a read needs no event."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "PFADD h a b c")
    before = stored(store, Kind.METADATA)

    assert 3 == machine.read(b"PFCOUNT", [b"h"])
    assert [3] == send(machine, "PFCOUNT h")
    assert before == stored(store, Kind.METADATA)


def test_a_value_says_that_its_count_is_not_known() -> None:
    """A new one as well: no reader takes 0 for its count."""
    machine = open_machine(new_store())
    send(machine, "PFADD h", "PFMERGE i", "PFADD j a", "PFMERGE j h")

    assert [0x80] * 3 == [machine.read(b"GET", [name])[15] for name in (b"h", b"i", b"j")]


def test_a_count_that_a_client_has_stored_is_taken_at_its_word() -> None:
    """By PFCOUNT of this key alone, and until an element changes a register: as in Redis."""
    machine = open_machine(new_store())
    value = b"HYLL\x01\0\0\0" + (77).to_bytes(8, "little") + b"\x7f\xff"
    send(machine, [[b"SET", b"h", value]])

    assert [77] == send(machine, "PFCOUNT h")
    assert [0, 1, 1] == send(machine, "PFCOUNT h none", "PFADD h a", "PFCOUNT h")


def test_the_expire_time_stays() -> None:
    """PFADD and PFMERGE change the value alone."""
    machine = open_machine(new_store())
    send(machine, "PFADD h a", "EXPIRE h 100", "PFADD h b", "PFMERGE h h")

    assert NOW_MS + 100_000 == machine.read(b"PEXPIRETIME", [b"h"])


@pytest.mark.parametrize("command", ["PFADD s x", "PFCOUNT s", "PFCOUNT none s", "PFMERGE s", "PFMERGE d s"])
@pytest.mark.parametrize("length", [0, 3, 12_304, 1 << 20])
def test_other_strings_are_refused(command: str, length: int) -> None:
    """Whatever their length, and however they are stored."""
    machine = open_machine(new_store())
    send(machine, [[b"SET", b"s", b"HYLM".ljust(length, b"\0")[:length]]])

    assert [_NOT_A_HLL] == _texts(send(machine, command))


def test_large_dense_values_of_a_wrong_length_are_refused() -> None:
    """A dense value has one length; the header alone decides, so nothing more of a large string is read."""
    machine = open_machine(new_store())
    send(machine, [[b"SET", b"s", b"HYLL" + bytes(1 << 20)]])

    assert [_NOT_A_HLL] == _texts(send(machine, "PFCOUNT s"))


def test_a_damaged_value_is_left_alone() -> None:
    """An element that finds no register behind one that did: none of the two is added."""
    machine = open_machine(new_store())
    value = b"HYLL\x01\0\0\0" + bytes(8) + b"\x5f\xff"  # the first half of the registers
    send(machine, [[b"SET", b"h", value]])
    outcomes = send(machine, "PFADD h 1 2 3 4 5 6 7 8 9 10")

    assert ["INVALIDOBJ Corrupted HLL object detected"] == _texts(outcomes)
    assert value == machine.read(b"GET", [b"h"])


def test_the_first_value_that_is_wrong_gives_the_error() -> None:
    """Values are looked at one by one: a damaged one before a key of another type, and the other way round."""
    machine = open_machine(new_store())
    damaged = b"HYLL\x01" + bytes(10) + b"\x80" + b"\x00"
    send(machine, [[b"SET", b"damaged", damaged]], "LPUSH list a")
    outcomes = send(machine, "PFCOUNT damaged list", "PFMERGE damaged list", "PFCOUNT list damaged", "PFMERGE list a")

    assert ["INVALIDOBJ"] * 2 + ["WRONGTYPE"] * 2 == [text.split()[0] for text in _texts(outcomes)]

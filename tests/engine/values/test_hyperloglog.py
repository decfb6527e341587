"""HyperLogLog values beside the oracle's: the same bytes for the same elements, the same counts, the same refusals."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from engine.errors import CommandError
from engine.values.hyperloglog import dense, sparse, values
from engine.values.hyperloglog.estimate import cardinality
from engine.values.hyperloglog.murmur import REGISTERS, murmur, position
from tests.real.oracle import Connection, ErrorReply

_COUNT = slice(8, 16)


def _uncounted(value: bytes) -> bytes:
    """Without the count, which the oracle's PFCOUNT writes into the value."""
    return value[: _COUNT.start] + value[_COUNT.stop :]


def _of_registers(registers: bytes) -> bytes:
    """A dense value, its count not known."""
    return b"HYLL" + bytes(11) + b"\x80" + dense.pack(registers)


def _of_opcodes(opcodes: bytes) -> bytes:
    """A sparse value, its count not known."""
    return b"HYLL\x01" + bytes(10) + b"\x80" + opcodes


def _attempt(action: Callable[[], object]) -> object:
    """What it gives, or the text of its refusal."""
    try:
        return action()
    except CommandError as error:
        return error.message


def _of_oracle(reply: object) -> object:
    return reply.text.decode() if isinstance(reply, ErrorReply) else reply


# -------------------------------------------------------------------------------------------------------------- hashes


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xD8DFEA6585BC9732),
        (b"a", 0x53D2470A9B43B1A7),
        (b"12345678", 0x95EBB86389132953),
        (b"123456789", 0x217532CB09F2A44D),
    ],
)
def test_murmur_keeps_its_values(data: bytes, expected: int) -> None:
    """The hash of an element is the same for good: registers that were written depend on it."""
    assert expected == murmur(data)


def test_position_counts_the_zeros_behind_the_index() -> None:
    """An element's register is in the low 14 bits of its hash; its count is 1 to 51."""
    random = Random(1)
    positions = [position(random.randbytes(random.randrange(20))) for _ in range(2000)]

    assert {count for _, count in positions} >= set(range(1, 9))
    assert all(0 <= index < REGISTERS and 1 <= count <= 51 for index, count in positions)


# ---------------------------------------------------------------------------------------------------- beside the oracle


@pytest.mark.parametrize(("seed", "space"), [(1, 10), (2, 300), (3, 3000), (4, 5000), (5, 10**6)])
def test_values_are_the_oracles(oracle: Connection, seed: int, space: int) -> None:
    """Few elements or many, sparse and dense, added and merged: bytes and replies are the oracle's."""
    random = Random(seed)
    ours: dict[str, bytes] = {}
    for _ in range(150):
        name, kind = random.choice("abc"), random.randrange(10)
        others = random.choices("abcd", k=random.randrange(1, 3))
        there = [ours[other] for other in others if other in ours]
        if kind < 7:
            elements = [b"%d" % random.randrange(space) for _ in range(random.choice((0, 1, 5, 60)))]
            changed = values.added(ours.get(name, values.EMPTY), elements)
            assert oracle.call("PFADD", name, *elements) == (changed is not None or name not in ours)
            ours[name] = changed or ours.get(name, values.EMPTY)
        elif kind < 8:
            oracle.call("PFMERGE", name, *others)
            ours[name] = values.merged(ours.get(name), there)
        else:
            assert oracle.call("PFCOUNT", *others) == (values.count(there) if there else 0)
        for each, value in ours.items():
            assert _uncounted(oracle.call("GET", each)) == _uncounted(value)


def test_a_sparse_value_becomes_dense_where_the_oracles_does(oracle: Connection) -> None:
    """One element after the other, until 3,000 bytes are full: dense in the same step."""
    random = Random(6)
    value = values.EMPTY
    while value[4]:
        element = random.randbytes(8)
        oracle.call("PFADD", "a", element)
        value = values.added(value, [element]) or value

    assert value == oracle.call("GET", "a")
    assert 12_304 == len(value)


def test_an_element_that_comes_again_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opcodes are walked once for each register and count of a command, however many elements have them."""
    walks: list[tuple[int, int]] = []
    put = sparse.Sparse.put

    def watched(opcodes: sparse.Sparse, index: int, count: int) -> bool | None:
        walks.append((index, count))
        return put(opcodes, index, count)

    monkeypatch.setattr(sparse.Sparse, "put", watched)

    assert values.added(values.EMPTY, [b"a", b"b"] * 1000) == values.added(values.EMPTY, [b"a", b"b"])
    assert [position(b"a"), position(b"b")] * 2 == walks


def test_a_count_above_32_makes_a_value_dense() -> None:
    """An opcode has room for 32."""
    value = _of_opcodes(sparse.EMPTY)
    registers = sparse.Sparse(sparse.EMPTY, 100)

    assert registers.put(7, 32)
    assert registers.put(8, 33) is None
    assert b"HYLL\x00" == values.merged(value, [_of_registers(bytes(REGISTERS - 1) + b"\x33")])[:5]


def test_registers_of_any_value_are_counted_as_by_the_oracle(oracle: Connection) -> None:
    """Also where no hash could have set them: what the estimate cannot say in 64 bits is -2^63."""
    random = Random(7)
    some = [
        bytes([value]) * (REGISTERS - 1) + bytes([other]) for value in (0, 1, 40, 50, 51, 63) for other in (0, 50, 51)
    ]
    some += [bytes(random.choices(range(random.randint(1, 64)), k=REGISTERS)) for _ in range(100)]
    for registers in some:
        oracle.call("SET", "a", _of_registers(registers))

        assert oracle.call("PFCOUNT", "a", "a") == cardinality(registers)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_value_is_refused_as_by_the_oracle(oracle: Connection, seed: int) -> None:
    """Opcodes for too many registers or too few: the oracle's text, or the oracle's bytes where it goes on."""
    random = Random(seed)
    for _ in range(300):
        value = _of_opcodes(_random_opcodes(random))
        elements = [b"%d" % random.randrange(10**6) for _ in range(random.choice((1, 4)))]
        oracle.call("SET", "a", value)
        assert _attempt(lambda: values.count([value, value])) == _of_oracle(oracle.call("PFCOUNT", "a", "a"))  # noqa: B023
        oracle.call("DEL", "b")
        merged = _of_oracle(oracle.call("PFMERGE", "b", "a"))
        expected = merged if isinstance(merged, str) else oracle.call("GET", "b")
        assert expected == _attempt(lambda: values.merged(None, [value]))  # noqa: B023
        added = _of_oracle(oracle.call("PFADD", "a", *elements))
        expected = added if isinstance(added, str) else oracle.call("GET", "a")
        assert expected == _attempt(lambda: values.added(value, elements) or value)  # noqa: B023


def _random_opcodes(random: Random) -> bytes:
    """Opcodes as they come; about half of the results are whole."""
    opcodes = bytearray()
    total = 0
    while total < REGISTERS and random.random() < 0.98:
        kind, length = random.randrange(10), random.randint(1, 64)
        if kind == 0:
            length *= 40
            opcodes += (0x4000 | length - 1).to_bytes(2, "big")
        elif kind < 5:
            opcodes.append(length - 1)
        else:
            length = random.randint(1, 4)
            opcodes.append(0x80 | random.randrange(32) << 2 | length - 1)
        total += length
    if total < REGISTERS and random.random() < 0.7:
        opcodes += (0x4000 | REGISTERS - total - 1).to_bytes(2, "big")
    return bytes(opcodes)


# ----------------------------------------------------------------------------------------------------------- registers


def test_dense_registers_come_back() -> None:
    """What is packed is unpacked again, register by register, and each stands where the format says."""
    random = Random(8)
    registers = bytes(random.choices(range(64), k=REGISTERS))
    packed = dense.pack(registers)
    bits = int.from_bytes(packed, "little")

    assert registers == dense.unpack(packed)
    assert list(registers) == [bits >> 6 * n & 63 for n in range(REGISTERS)]


def test_the_larger_register_is_taken() -> None:
    """Of each two registers, for all pairs of values."""
    first, second = (bytes(values_) * 4 for values_ in ([n // 64 for n in range(4096)], [n % 64 for n in range(4096)]))

    assert bytes(map(max, first, second)) == dense.larger(first, second)


def test_a_dense_value_changes_where_a_register_rises() -> None:
    """The last register too, which has no byte behind it; a count that is not higher changes nothing."""
    packed = dense.pack(bytes(REGISTERS))
    changed = dense.put(packed, [(0, 1), (REGISTERS - 1, 51), (5, 0)], 0)

    assert changed is not None
    assert b"\x01" + bytes(REGISTERS - 2) + b"\x33" == dense.unpack(changed)
    assert dense.put(changed, [(0, 1), (REGISTERS - 1, 50)], 0) is None


def test_sparse_registers_in_any_order_are_the_same_registers() -> None:
    """A put that goes on from the last one changes the same opcode as one that looks from the beginning."""
    random = Random(9)
    positions = sorted((random.randrange(REGISTERS), random.randint(1, 32)) for _ in range(700))
    going_on = sparse.Sparse(sparse.EMPTY, 3000)
    for index, count in positions:
        afresh = sparse.Sparse(bytes(going_on.body), 3000)

        assert afresh.put(index, count) == going_on.put(index, count)
        assert afresh.body == going_on.body

"""Adds elements to stored HyperLogLog values, merges them and counts.

Redis turns a sparse value into a dense one when it would grow beyond 3,000 bytes (`hll-sparse-max-bytes`), or a
register beyond 32. Its setting is a constant here: what is stored must not depend on a setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from engine.errors import NOT_A_HLL, CommandError
from engine.values.hyperloglog import dense, sparse
from engine.values.hyperloglog.estimate import cardinality
from engine.values.hyperloglog.murmur import REGISTERS, position

HEADER_BYTES: Final = 16
_MAGIC: Final = b"HYLL"
_DENSE: Final = 0
_SPARSE: Final = 1
_UNKNOWN: Final = 0x80  # in the last byte of the header
_SPARSE_BYTES_MAX: Final = 3000

EMPTY: Final = _MAGIC + bytes((_SPARSE,)) + bytes(10) + bytes((_UNKNOWN,)) + sparse.EMPTY
"""The value that Redis begins with."""


def check(header: bytes, length: int) -> None:
    """Refuse a value of `length` bytes by its first HEADER_BYTES.

    Raises:
        CommandError: WRONGTYPE, with the text that Redis has for it.
    """
    if (
        length < HEADER_BYTES
        or header[:4] != _MAGIC
        or header[4] not in {_DENSE, _SPARSE}
        or (header[4] == _DENSE and length != HEADER_BYTES + dense.BYTES)
    ):
        raise CommandError(NOT_A_HLL)


def added(value: bytes, elements: Iterable[bytes]) -> bytes | None:
    """The value with `elements` in it; None when that changes no register.

    Raises:
        CommandError: INVALIDOBJ, its opcodes make no sense where they were looked at.
    """
    positions = iter([position(element) for element in elements])
    if value[4] == _DENSE:
        changed = dense.put(value, positions, HEADER_BYTES)
        return None if changed is None else _uncounted(changed)
    opcodes = sparse.Sparse(value[HEADER_BYTES:], _SPARSE_BYTES_MAX - HEADER_BYTES)
    has_changed = False
    reached: dict[int, int] = {}  # what registers have by now at least: a million elements name each of them many times
    for index, count in positions:
        if reached.get(index, 0) >= count:
            continue
        reached[index] = count
        changes = opcodes.put(index, count)
        if changes is None:
            promoted = _dense(value, sparse.unpack(bytes(opcodes.body)))
            return _uncounted(dense.put(promoted, [(index, count), *positions], HEADER_BYTES) or promoted)
        has_changed |= changes
    return _uncounted(value[:HEADER_BYTES] + bytes(opcodes.body)) if has_changed else None


def merged(value: bytes | None, others: Iterable[bytes]) -> bytes:
    """`value`, None for a new one, with all that the others have. Dense when one of them is.

    The others are taken one by one, each when the ones before it have been found to make sense.

    Raises:
        CommandError: INVALIDOBJ, the opcodes of one of them do not stand for 16,384 registers.
    """
    value = value or EMPTY
    registers, is_dense = _registers(value), value[4] == _DENSE
    for other in others:
        registers, is_dense = dense.larger(registers, _registers(other)), is_dense or other[4] == _DENSE
    if is_dense:
        return _uncounted(_dense(value, registers))
    opcodes = sparse.Sparse(value[HEADER_BYTES:], _SPARSE_BYTES_MAX - HEADER_BYTES)
    for index, count in enumerate(registers):
        if count and opcodes.put(index, count) is None:
            return _uncounted(_dense(value, registers))
    return _uncounted(value[:HEADER_BYTES] + bytes(opcodes.body))


def count(values: Iterable[bytes]) -> int:
    """How many different elements all of the values have together. They are taken one by one, as in `merged`.

    Raises:
        CommandError: INVALIDOBJ, the opcodes of one of them do not stand for 16,384 registers.
    """
    return cardinality(reduce(dense.larger, map(_registers, values), bytes(REGISTERS)))


def known_count(value: bytes) -> int | None:
    """The count that the value itself tells; None when it is not known."""
    return None if value[HEADER_BYTES - 1] & _UNKNOWN else int.from_bytes(value[8:HEADER_BYTES], "little")


def packed_registers(value: bytes) -> bytes:
    """All registers, as a dense value has them behind its header. `check` has let the value pass.

    Raises:
        CommandError: INVALIDOBJ, its opcodes do not stand for 16,384 registers.
    """
    return value[HEADER_BYTES:] if value[4] == _DENSE else dense.pack(_registers(value))


def of_packed_registers(packed: bytes) -> bytes:
    """The dense value with these registers, whose cardinality is not known."""
    return _uncounted(_MAGIC + bytes((_DENSE,)) + bytes(HEADER_BYTES - 5) + packed)


def _registers(value: bytes) -> bytes:
    unpack = dense.unpack if value[4] == _DENSE else sparse.unpack
    return unpack(value[HEADER_BYTES:])


def _dense(value: bytes, registers: bytes) -> bytes:
    """A dense value with the rest of `value`'s header."""
    return value[:4] + bytes((_DENSE,)) + value[5:HEADER_BYTES] + dense.pack(registers)


def _uncounted(value: bytes) -> bytes:
    """The value, saying that its cardinality is not known."""
    return value[: HEADER_BYTES - 1] + bytes((value[HEADER_BYTES - 1] | _UNKNOWN,)) + value[HEADER_BYTES:]

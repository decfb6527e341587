"""Packs and parses integers, order-preserving doubles and key ranges, all big-endian.

u64      [8]   unsigned
score    [8]   IEEE-754 double whose bytes sort as its numbers do: sign bit set -> invert all 64 bits, else set the
sign bit. -0.0 is stored as +0.0, as Redis treats the two as equal; NaN is never stored.
Example: 1.0 -> bf f0 00 00 00 00 00 00, -1.0 -> 40 0f ff ff ff ff ff ff
"""

from __future__ import annotations

from struct import Struct
from typing import Final

U64: Final = Struct(">Q")
U32: Final = Struct(">I")
_DOUBLE: Final = Struct(">d")

_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_INVERTED: Final = bytes(range(255, -1, -1))

pack_u64 = U64.pack


def parse_u64(data: bytes) -> int:
    """The integer that `pack_u64` wrote as these eight bytes."""
    value: int = U64.unpack(data)[0]
    return value


def pack_score(score: float) -> bytes:
    """Eight bytes that sort as the scores do.

    Raises:
        ValueError: `score` is NaN, which has no place in the order.
    """
    if score >= 0:  # the sign's bit is set and the others are as they are, which is what -score has; -0.0 becomes 0.0
        return _DOUBLE.pack(-(score + 0.0))  # as `abs` has it, without a call
    if score != score:  # noqa: PLR0124 - the one value that differs from itself
        message = "NaN cannot be stored as a score"
        raise ValueError(message)
    return _DOUBLE.pack(score).translate(_INVERTED)  # as an integer, which is packed again, it takes twice as long


def parse_score(data: bytes) -> float:
    """The score that `pack_score` wrote as these eight bytes."""
    bits: int = U64.unpack(data)[0]
    value: float = _DOUBLE.unpack(U64.pack(bits & ~_SIGN if bits & _SIGN else bits ^ _ALL))[0]
    return value


def prefix_end(prefix: bytes) -> bytes:
    """The smallest key above every key that starts with `prefix`: the exclusive end of its range.

    Raises:
        ValueError: `prefix` is empty or all 0xff, so that no such key exists.
    """
    head = prefix.rstrip(b"\xff")
    if not head:
        message = "a prefix of 0xff bytes alone has no end"
        raise ValueError(message)
    return head[:-1] + bytes((head[-1] + 1,))

"""Bits of a string, counted from the highest bit of its first byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engine.batch.keys.fragments import Stretch, length, stretches
from engine.batch.keys.key import Key
from engine.limits import FRAGMENT_BYTES

_BITS: Final = 8

_Bits = dict[int, int]
"""The bits of fragments that are not zero, little-endian, by their offset in bytes."""


def count(key: Key, first: int, stop: int) -> int:
    """How many of the bits `first … stop - 1` are 1. They must be there."""
    if first >= stop:
        return 0
    begin, end = first // _BITS, (stop + _BITS - 1) // _BITS
    total = sum(int.from_bytes(content).bit_count() for _, content in stretches(key, begin, end))
    before, behind = first % _BITS, -stop % _BITS
    if before:
        total -= (_byte(key, begin) >> _BITS - before).bit_count()
    if behind:
        total -= (_byte(key, end - 1) & (1 << behind) - 1).bit_count()
    return total


def position(key: Key, bit: int, first: int, stop: int) -> int:
    """The first of the bits `first … stop - 1` that is `bit`, -1 when there is none. They must be there."""
    at = first
    while at % _BITS and at < stop:
        if _byte(key, at // _BITS) >> _BITS - 1 - at % _BITS & 1 == bit:
            return at
        at += 1
    if at >= stop:
        return -1
    end = (stop + _BITS - 1) // _BITS
    found = (_first_one if bit else _first_zero)(key, at // _BITS, end)
    return found if 0 <= found < stop else -1


def combined(operation: bytes, sources: Sequence[Key | None]) -> list[Stretch]:
    """The stretches of `sources` (None: an empty one), combined by one of the operations of BITOP.

    One source after the other is gone through, so no more is held than two results and one fragment.
    """
    first, *others = sources
    if operation == b"NOT":
        return [] if first is None else _inverted(_union([first]), length(first))
    if operation in {b"DIFF", b"DIFF1", b"ANDOR"}:
        result = _split(operation, _union([first]), _union(others))
    elif operation == b"OR":
        result = _union(sources)
    else:
        result = {b"AND": _intersection, b"XOR": _parity, b"ONE": _singles}[operation](sources)
    return [(at, _without_zeros(result.pop(at))) for at in sorted(result)]


def _union(sources: Sequence[Key | None]) -> _Bits:
    result: _Bits = {}
    for key in sources:
        for at, bits in _fragments(key):
            result[at] = result.get(at, 0) | bits
    return result


def _intersection(sources: Sequence[Key | None]) -> _Bits:
    result = _union(sources[:1])
    for key in sources[1:]:
        result = {at: result[at] & bits for at, bits in _fragments(key) if at in result}
    return result


def _parity(sources: Sequence[Key | None]) -> _Bits:
    result: _Bits = {}
    for key in sources:
        for at, bits in _fragments(key):
            result[at] = result.get(at, 0) ^ bits
    return result


def _singles(sources: Sequence[Key | None]) -> _Bits:
    """The bits that exactly one source has."""
    any_has: _Bits = {}
    several_have: _Bits = {}
    for key in sources:
        for at, bits in _fragments(key):
            before = any_has.get(at, 0)
            several_have[at] = several_have.get(at, 0) | before & bits
            any_has[at] = before | bits
    return {at: bits & ~several_have[at] for at, bits in any_has.items()}


def _split(operation: bytes, first: _Bits, others: _Bits) -> _Bits:
    """DIFF: the bits that only the first source has. ANDOR: that another has too. DIFF1: that only others have."""
    if operation == b"ANDOR":
        return {at: bits & others[at] for at, bits in first.items() if at in others}
    kept, taken = (first, others) if operation == b"DIFF" else (others, first)
    return {at: bits & ~taken.get(at, 0) for at, bits in kept.items()}


def _inverted(bits: _Bits, size: int) -> list[Stretch]:
    inverted = []
    for at in range(0, size, FRAGMENT_BYTES):
        width = min(FRAGMENT_BYTES, size - at)
        inverted.append((at, (bits.pop(at, 0) ^ (1 << width * _BITS) - 1).to_bytes(width, "little")))
    return inverted


def _without_zeros(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + _BITS - 1) // _BITS, "little")


def _fragments(key: Key | None) -> Iterator[tuple[int, int]]:
    """The offsets and the bits of all fragments that are not zero. Little-endian: the ends of two need not meet."""
    if key is None:
        return
    for offset, content in stretches(key, 0, length(key)):
        for at in range(0, len(content), FRAGMENT_BYTES):
            yield offset + at, int.from_bytes(content[at : at + FRAGMENT_BYTES], "little")


def _first_one(key: Key, begin: int, end: int) -> int:
    for offset, content in stretches(key, begin, end):
        rest = content.lstrip(b"\0")
        if rest:
            return (offset + len(content) - len(rest)) * _BITS + _BITS - rest[0].bit_length()
    return -1


def _first_zero(key: Key, begin: int, end: int) -> int:
    at = begin
    for offset, content in stretches(key, begin, end):
        if offset > at:
            break
        rest = content.lstrip(b"\xff")
        if rest:
            return (offset + len(content) - len(rest)) * _BITS + _BITS - (rest[0] ^ 0xFF).bit_length()
        at = offset + len(content)
    return at * _BITS if at < end else -1


def _byte(key: Key, at: int) -> int:
    return next((content[0] for _, content in stretches(key, at, at + 1)), 0)

"""Dense registers: 16,384 of 6 bits each, unpacked to one byte each without a loop.

The first of every three bytes, taken as one large number, holds the first of every four registers in the low 6 bits of
each byte, and so on: a few shifts of numbers of 4 KiB each take all registers apart, or put them together.

Measured: `unpack`, `pack` and `larger` 40 to 50 us each, `put` 1 us and 0.5 us for each register.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.values.hyperloglog.murmur import REGISTERS

BYTES: Final = REGISTERS * 6 // 8
_QUARTER: Final = REGISTERS // 4
_THIRD: Final = BYTES // 3
_REGISTER_MAX: Final = 63

_LOW_2: Final = int.from_bytes(b"\x03" * _QUARTER, "little")
_LOW_4: Final = int.from_bytes(b"\x0f" * _QUARTER, "little")
_LOW_6: Final = int.from_bytes(b"\x3f" * _QUARTER, "little")
_TOP_BITS: Final = int.from_bytes(b"\x80" * REGISTERS, "little")


def unpack(packed: bytes) -> bytes:
    """All registers, one byte each."""
    first, second, third = (int.from_bytes(packed[at::3], "little") for at in range(3))
    registers = bytearray(REGISTERS)
    registers[0::4] = (first & _LOW_6).to_bytes(_QUARTER, "little")
    registers[1::4] = (first >> 6 & _LOW_2 | (second & _LOW_4) << 2).to_bytes(_QUARTER, "little")
    registers[2::4] = (second >> 4 & _LOW_4 | (third & _LOW_2) << 4).to_bytes(_QUARTER, "little")
    registers[3::4] = (third >> 2 & _LOW_6).to_bytes(_QUARTER, "little")
    return bytes(registers)


def pack(registers: bytes) -> bytes:
    """What `unpack` takes apart."""
    one, two, three, four = (int.from_bytes(registers[at::4], "little") for at in range(4))
    packed = bytearray(BYTES)
    packed[0::3] = (one | (two & _LOW_2) << 6).to_bytes(_THIRD, "little")
    packed[1::3] = (two >> 2 & _LOW_4 | (three & _LOW_4) << 4).to_bytes(_THIRD, "little")
    packed[2::3] = (three >> 4 & _LOW_2 | four << 2).to_bytes(_THIRD, "little")
    return bytes(packed)


def larger(first: bytes, second: bytes) -> bytes:
    """The larger one of each two unpacked registers."""
    one, other = int.from_bytes(first, "little"), int.from_bytes(second, "little")
    # A byte's top bit survives the subtraction where the first is not the smaller; 0x80 - 0x01 is a mask for the rest.
    flags = (one | _TOP_BITS) - other & _TOP_BITS
    mask = flags - (flags >> 7)
    return (one & mask | other & ~mask).to_bytes(REGISTERS, "little")


def put(packed: bytes, positions: Iterable[tuple[int, int]], start: int) -> bytes | None:
    """Raise registers of `packed`, which begin at its byte `start`, to their counts. None when none was lower.

    Only the bytes of these registers are looked at.
    """
    changed: bytearray | None = None
    for index, count in positions:
        at, shift = start + (index * 6 >> 3), index * 6 & 7
        word = int.from_bytes((packed if changed is None else changed)[at : at + 2], "little")
        if word >> shift & _REGISTER_MAX < count:
            if changed is None:
                changed = bytearray(packed)
            word = word & ~(_REGISTER_MAX << shift) | count << shift
            changed[at : at + 2] = word.to_bytes(min(2, len(changed) - at), "little")
    return None if changed is None else bytes(changed)

"""Values that Kvrocks keeps in fragments and Redis as one string: bitmaps (type 6) and HyperLogLogs (type 11).

    bitmap        the number of the fragment's first byte, as decimal digits   ->  1 to 1024 bytes
    HyperLogLog   the number of the fragment, 0 to 15, as decimal digits       ->  768 bytes

A fragment that is not there has zeros. In a bitmap of Kvrocks bit n is the bit n % 8 from the right of byte n / 8, in a
string of Redis it is from the left. A fragment of a bitmap may be shorter than the bitmap needs, or longer than its
size. The fragments of a HyperLogLog in a row are the 12,288 bytes of Redis' dense registers.

Example: bits 0, 9 and 81,920 are the fragments `0` -> 0102 and `10240` -> 01, of size 10,241; a string 8040 00… 80.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from engine.errors import CorruptionError
from engine.values.hyperloglog.dense import BYTES as REGISTER_BYTES
from engine.values.numbers import parse_int

BITMAP_FRAGMENT_BYTES: Final = 1024
HYPERLOGLOG_FRAGMENTS: Final = 16
HYPERLOGLOG_FRAGMENT_BYTES: Final = REGISTER_BYTES // HYPERLOGLOG_FRAGMENTS

_TURNED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

Fragment = tuple[bytes, bytes]
"""A subkey and the bytes under it."""


def bitmap_fragment(stored: bytes) -> bytes:
    """The bytes of a bitmap's fragment as they are in a string of Redis.

    Raises:
        CorruptionError: there are too many of them.
    """
    if len(stored) > BITMAP_FRAGMENT_BYTES:
        message = f"a fragment of {len(stored)} bytes is none of a bitmap"
        raise CorruptionError(message)
    return stored.translate(_TURNED)


def join_registers(fragments: Iterable[Fragment]) -> bytes:
    """The registers of a HyperLogLog, packed as Redis' dense ones. The fragments may come in any order.

    Raises:
        CorruptionError: one of them is none of a HyperLogLog.
    """
    parts = [bytes(HYPERLOGLOG_FRAGMENT_BYTES)] * HYPERLOGLOG_FRAGMENTS
    for subkey, content in fragments:
        number = parse_int(subkey)
        if (
            number is None
            or not 0 <= number < HYPERLOGLOG_FRAGMENTS
            or len(content) != HYPERLOGLOG_FRAGMENT_BYTES
        ):  # fmt: skip
            message = f"a fragment {subkey!r} of {len(content)} bytes is none of a HyperLogLog"
            raise CorruptionError(message)
        parts[number] = content
    return b"".join(parts)


def split_registers(registers: bytes) -> Iterator[Fragment]:
    """The fragments of a HyperLogLog with these packed registers, without those that are all zeros."""
    for number in range(HYPERLOGLOG_FRAGMENTS):
        at = number * HYPERLOGLOG_FRAGMENT_BYTES
        content = registers[at : at + HYPERLOGLOG_FRAGMENT_BYTES]
        if any(content):
            yield b"%d" % number, content

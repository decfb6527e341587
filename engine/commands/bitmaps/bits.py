"""Commands on single bits of a string, the highest bit of each byte first. Source: https://valkey.io/commands/#bitmap.

`operations.py` has BITOP, `bitfields.py` has integers of any width.
"""

from __future__ import annotations

from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import (
    BIT_NOT_A_BIT,
    BIT_NOT_ZERO_OR_ONE,
    BIT_OFFSET,
    SYNTAX,
    CommandError,
)
from engine.limits import STRING_BYTES_MAX
from engine.model import STRING
from engine.types.string import bitmaps, strings
from engine.values.numbers import parse_int
from engine.values.replies import Reply

_BITS: Final = 8


@command(
    "SETBIT key offset value",
    group="bitmap",
    since="2.2.0",
    complexity="O(1)",
    write=True,
    grows=True,
    access="RW access update",
    notifies="setbit",
)
def setbit(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Set one bit; zero bytes fill the gap after the string's end. Returns the old bit.

    > SETBIT k 7 1
    (integer) 0
    > GET k
    "\x01"
    > SETBIT k 7 0
    (integer) 1
    """
    at, mask = _parse_offset(args[1])
    bit = parse_int(args[2])
    if bit not in {0, 1}:
        raise CommandError(BIT_NOT_A_BIT)
    name = args[0]
    key = tx.find_typed(name, STRING)
    old = b"" if key is None else strings.read_range(tx, key, at, at + 1)
    byte = old[0] if old else 0
    changed = byte | mask if bit else byte & ~mask
    if not old or changed != byte:  # else nobody's WATCH is lost, as in Redis
        strings.write_range(tx, name, key, at, bytes((changed,)))
    return int(byte & mask != 0)


@command("GETBIT key offset", group="bitmap", since="2.2.0", complexity="O(1)", fast=True)
def getbit(tx: Transaction, args: list[bytes]) -> Reply:
    """Return one bit; 0 after the string's end.

    > SET k "a"
    OK
    > GETBIT k 1
    (integer) 1
    > GETBIT k 100
    (integer) 0
    """
    at, mask = _parse_offset(args[1])
    key = tx.find_typed(args[0], STRING)
    byte = b"" if key is None else strings.read_range(tx, key, at, at + 1)
    return int(bool(byte) and byte[0] & mask != 0)


@command("BITCOUNT key [start end [BYTE|BIT]]", group="bitmap", since="2.6.0", complexity="O(bytes in the range)")
def bitcount(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the bits that are 1, in all or in a range of bytes or bits; negative indexes count from the end.

    > SET k "foobar"
    OK
    > BITCOUNT k
    (integer) 26
    > BITCOUNT k 1 1
    (integer) 6
    > BITCOUNT k 5 30 BIT
    (integer) 17
    """
    if len(args) == 2:  # Valkey takes a start alone, Redis does not
        raise CommandError(SYNTAX)
    start, end, unit = _parse_range(args[1:])
    key = tx.find_typed(args[0], STRING)
    if key is None or (start < 0 and end < 0 and start > end):
        return 0
    first, stop = _bits_between(start, end, unit, strings.length(key))
    return bitmaps.count(key, first, stop)


@command("BITPOS key bit [start [end [BYTE|BIT]]]", group="bitmap", since="2.8.7", complexity="O(bytes in the range)")
def bitpos(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Return the position of the first bit that is 1, or 0, in all or in a range; -1 when there is none.

    Without an end, there are zeros behind the last byte.

    > SET k "\xff\xf0\x00"
    OK
    > BITPOS k 0
    (integer) 12
    > BITPOS k 1 2
    (integer) -1
    > BITPOS k 1 2 7 BIT
    (integer) 2
    > SET k "\xff"
    OK
    > BITPOS k 0
    (integer) 8
    > BITPOS k 0 0 -1
    (integer) -1
    """
    bit = read_integer(args[1])
    if bit not in {0, 1}:
        raise CommandError(BIT_NOT_ZERO_OR_ONE)
    start, end, unit = _parse_range(args[2:])
    key = tx.find_typed(args[0], STRING)
    if key is None:
        return -1 if bit else 0
    first, stop = _bits_between(start, end, unit, strings.length(key))
    if first >= stop:
        return -1
    found = bitmaps.position(key, bit, first, stop)
    if found < 0 and not bit and len(args) < 4:  # no end was given
        return stop
    return found


def _bits_between(start: int, end: int, unit: int, length: int) -> tuple[int, int]:
    """The first bit, and the one behind the last, of a range given in units of so many to a byte."""
    units = length * unit
    first = max(start + units if start < 0 else start, 0)
    last = min(max(end + units if end < 0 else end, 0), units - 1)
    bits = _BITS // unit
    return first * bits, (last + 1) * bits


def _parse_offset(text: bytes) -> tuple[int, int]:
    """The byte that a bit is in, and the bit within it."""
    offset = parse_int(text)
    if offset is None or not 0 <= offset < STRING_BYTES_MAX * _BITS:
        raise CommandError(BIT_OFFSET)
    return offset // _BITS, 0x80 >> offset % _BITS


def _parse_range(words: list[bytes]) -> tuple[int, int, int]:
    """Start, end, and how many units a byte has."""
    if len(words) > 3:
        raise CommandError(SYNTAX)
    start = read_integer(words[0]) if words else 0
    unit = read_option(words[2]) if len(words) == 3 else b"BYTE"
    if unit not in {b"BYTE", b"BIT"}:
        raise CommandError(SYNTAX)
    end = read_integer(words[1]) if len(words) > 1 else -1
    return start, end, _BITS if unit == b"BIT" else 1

"""BITFIELD: integers of any width in a string. Source: https://valkey.io/commands/bitfield/ and valkey-server 9.1."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.batch.transaction import Transaction
from engine.commands.key_access import Access
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import (
    BIT_OFFSET,
    BITFIELD_ONLY_GET,
    BITFIELD_OVERFLOW,
    BITFIELD_TYPE,
    SYNTAX,
    CommandError,
)
from engine.limits import STRING_BYTES_MAX
from engine.model import STRING
from engine.types.string.bitfields import Draft, Encoding
from engine.values.numbers import INT_MAX, parse_int
from engine.values.replies import Reply

_OFFSETS: Final = STRING_BYTES_MAX * 8
_SIGNED_BITS_MAX: Final = 64
_UNSIGNED_BITS_MAX: Final = 63
_ALL_BITS: Final = (1 << 64) - 1
_VALUES: Final = {b"GET": 0, b"SET": 1, b"INCRBY": 1}
_OVERFLOWS: Final = frozenset((b"WRAP", b"SAT", b"FAIL"))


class _Step(NamedTuple):
    """One subcommand; `value` is what SET sets and INCRBY adds."""

    name: bytes
    encoding: Encoding
    offset: int
    value: int
    overflow: bytes


def _access_of_bitfield(args: list[bytes]) -> Access:
    """It writes unless all that it is asked for is GET."""
    words = {arg.upper() for arg in args[1:]}
    return ("RO", "access") if words.isdisjoint((b"SET", b"INCRBY")) else ("RW", "access", "update")


@command(
    "BITFIELD key [GET encoding offset|OVERFLOW <WRAP|SAT|FAIL>|SET encoding offset value|"
    "INCRBY encoding offset increment ...]",
    group="bitmap",
    since="3.2.0",
    complexity="O(subcommands)",
    write=True,
    grows=True,
    access="RW access update variable_flags",
    access_by=_access_of_bitfield,
    notifies="setbit",
)
def bitfield(tx: Transaction, args: list[bytes]) -> Reply:
    """Read, set and increment integers: `i8` has 8 bits and a sign, `u8` has no sign; `#1` is the second of its width.

    OVERFLOW says what becomes of a result that does not fit: WRAP around, SAT for the nearest one, FAIL for nil.

    > BITFIELD k SET u8 0 255 INCRBY u8 0 2 GET u4 4
    1) (integer) 0
    2) (integer) 1
    3) (integer) 1
    > BITFIELD k OVERFLOW SAT INCRBY i8 #1 200 OVERFLOW FAIL INCRBY i8 #1 1
    1) (integer) 127
    2) (nil)
    """
    steps = _parse(args[1:])
    writes = [step for step in steps if step.name != b"GET"]
    key = tx.find_typed(args[0], STRING)
    draft = Draft(tx, args[0], key)
    if writes:
        draft.grow(max(step.offset + step.encoding.bits - 1 for step in writes))
    replies = [_run(draft, step) for step in steps]
    draft.finish()
    return replies


@command(
    "BITFIELD_RO key [GET encoding offset ...]", group="bitmap", since="6.0.0", complexity="O(subcommands)", fast=True
)
def bitfield_ro(tx: Transaction, args: list[bytes]) -> Reply:
    """Read integers as BITFIELD does.

    > SET k "a"
    OK
    > BITFIELD_RO k GET u8 0 GET i4 4
    1) (integer) 97
    2) (integer) 1
    """
    steps = _parse(args[1:])
    if any(step.name != b"GET" for step in steps):
        raise CommandError(BITFIELD_ONLY_GET)
    draft = Draft(tx, args[0], tx.find_typed(args[0], STRING))
    return [draft.get(step.offset, step.encoding) for step in steps]


def _run(draft: Draft, step: _Step) -> int | None:
    """The reply of one step: the old integer, or the sum of INCRBY; None where it fails."""
    old = draft.get(step.offset, step.encoding)
    if step.name == b"GET":
        return old
    new = step.encoding.fitted(step.value + (old if step.name == b"INCRBY" else 0), step.overflow)
    if new is None:
        return None
    if new != old:  # else nobody's WATCH is lost, as in Redis
        draft.put(step.offset, step.encoding, new)
    return old if step.name == b"SET" else new


def _parse(words: list[bytes]) -> list[_Step]:
    steps: list[_Step] = []
    overflow = b"WRAP"
    at = 0
    while at < len(words):
        name = read_option(words[at])
        left = len(words) - at - 1
        if name == b"OVERFLOW" and left:
            overflow = read_option(words[at + 1])
            if overflow not in _OVERFLOWS:
                raise CommandError(BITFIELD_OVERFLOW)
            at += 2
            continue
        if name not in _VALUES or left < 2 + _VALUES[name]:
            raise CommandError(SYNTAX)
        encoding = _parse_encoding(words[at + 1])
        offset = _parse_offset(words[at + 2], encoding.bits)
        value = read_integer(words[at + 3]) if _VALUES[name] else 0
        if name == b"SET" and not encoding.signed:
            value &= _ALL_BITS  # so -1 is the largest one and not below zero
        steps.append(_Step(name, encoding, offset, value, overflow))
        at += 3 + _VALUES[name]
    return steps


def _parse_encoding(text: bytes) -> Encoding:
    signed = text[:1] == b"i"
    bits = parse_int(text[1:])
    most = _SIGNED_BITS_MAX if signed else _UNSIGNED_BITS_MAX
    if text[:1] not in {b"i", b"u"} or bits is None or not 1 <= bits <= most:
        raise CommandError(BITFIELD_TYPE)
    return Encoding(signed, bits)


def _parse_offset(text: bytes, bits: int) -> int:
    """The first bit; `#` counts in integers of that width, and Redis lets the product run over 64 bits."""
    offset = parse_int(text.removeprefix(b"#"))
    if offset is None:
        raise CommandError(BIT_OFFSET)
    if text[:1] == b"#":
        offset = (offset * bits + INT_MAX + 1) % (2 * INT_MAX + 2) - INT_MAX - 1
    if not 0 <= offset < _OFFSETS:
        raise CommandError(BIT_OFFSET)
    return offset

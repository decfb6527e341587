"""Parses times to live: the options of SET and GETEX, and the conditions of EXPIRE.

Sources: https://valkey.io/commands/set/, …/getex/, …/expire/; valkey-server 9.1 answered the rest.
A time is stored as absolute milliseconds, at most 2**63 - 1: Redis' own bound, far beyond that of the log's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.commands.options import read_integer, read_option
from engine.errors import (
    EXPIRE_CONDITIONS_GT_LT,
    EXPIRE_CONDITIONS_NX,
    SYNTAX,
    CommandError,
    invalid_expire,
    unsupported_option,
)
from engine.values.numbers import INT_MAX, INT_MIN

_CONDITIONS: Final = frozenset((b"NX", b"XX", b"IFEQ"))
_UNITS_MS: Final = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}
_RELATIVE: Final = frozenset((b"EX", b"PX"))

SET_OPTIONS: Final = frozenset((*_CONDITIONS, *_UNITS_MS, b"GET", b"KEEPTTL"))
GETEX_OPTIONS: Final = frozenset((*_UNITS_MS, b"PERSIST"))


class StringOptions(NamedTuple):
    """The options of a SET or GETEX.

    Attributes:
        condition: b"NX", b"XX", b"IFEQ" or b"".
        comparison: the value that IFEQ asks for.
        get: reply with the old value.
        lifetime: b"EX", b"PX", b"EXAT", b"PXAT", b"KEEPTTL", b"PERSIST" or b"".
        expire_ms: when the key will die, by `lifetime`; 0 when that names no time.
    """

    condition: bytes
    comparison: bytes
    get: bool
    lifetime: bytes
    expire_ms: int


def parse_string_options(words: list[bytes], allowed: frozenset[bytes], now_ms: int, command: str) -> StringOptions:
    """The options `words` of `command` (lower case, for its error text), which takes those in `allowed`.

    An option may stand twice and the last one counts, IFEQ apart; of those that exclude each other one may stand.

    Raises:
        CommandError: syntax error, a time that is no integer or is out of range.
    """
    condition = comparison = lifetime = amount = b""
    get = False
    remaining = iter(words)
    for word in remaining:
        option = read_option(word)
        if option not in allowed:
            raise CommandError(SYNTAX)
        if option == b"GET":
            get = True
        elif option in _CONDITIONS:
            if condition and (option != condition or option == b"IFEQ"):
                raise CommandError(SYNTAX)
            condition = option
            if option == b"IFEQ":
                comparison = _next(remaining)
        else:
            if lifetime and option != lifetime:
                raise CommandError(SYNTAX)
            lifetime = option
            if option in _UNITS_MS:
                amount = _next(remaining)
    if lifetime not in _UNITS_MS:
        return StringOptions(condition, comparison, get, lifetime, 0)
    start_ms = now_ms if lifetime in _RELATIVE else 0
    expire_ms = parse_positive_expire_ms(amount, _UNITS_MS[lifetime], start_ms, command)
    return StringOptions(condition, comparison, get, lifetime, expire_ms)


def parse_positive_expire_ms(text: bytes, unit_ms: int, start_ms: int, command: str) -> int:
    """`start_ms` plus the positive time that `text` spells in units of `unit_ms`, as SET, SETEX and GETEX read it.

    Raises:
        CommandError: not an integer, zero, negative or too far away.
    """
    expire_ms = parse_expire_ms(text, unit_ms, start_ms, command)
    if expire_ms <= start_ms:
        raise CommandError(invalid_expire(command))
    return expire_ms


def parse_expire_ms(text: bytes, unit_ms: int, start_ms: int, command: str) -> int:
    """`start_ms` plus the time that `text` spells in units of `unit_ms`, as EXPIRE reads it: it may be negative.

    Raises:
        CommandError: not an integer or too far away.
    """
    value = read_integer(text)
    value *= unit_ms
    if not INT_MIN <= value <= INT_MAX - start_ms:
        raise CommandError(invalid_expire(command))
    return value + start_ms


def parse_conditions(words: list[bytes]) -> frozenset[bytes]:
    """The conditions NX, XX, GT and LT of an EXPIRE.

    Raises:
        CommandError: another word, or conditions that exclude each other.
    """
    conditions = frozenset(map(read_option, words))
    for word in words:
        if read_option(word) not in {b"NX", b"XX", b"GT", b"LT"}:
            raise CommandError(unsupported_option(word))
    if b"NX" in conditions and len(conditions) > 1:
        raise CommandError(EXPIRE_CONDITIONS_NX)
    if b"GT" in conditions and b"LT" in conditions:
        raise CommandError(EXPIRE_CONDITIONS_GT_LT)
    return conditions


def conditions_hold(conditions: frozenset[bytes], old_ms: int, new_ms: int) -> bool:
    """Whether an expire time may change from `old_ms` (0: never, the latest of all) to `new_ms`."""
    if b"NX" in conditions:
        return old_ms == 0
    if b"XX" in conditions and old_ms == 0:
        return False
    if b"GT" in conditions:
        return 0 < old_ms < new_ms
    if b"LT" in conditions:
        return old_ms == 0 or new_ms < old_ms
    return True


def _next(words: Iterator[bytes]) -> bytes:
    """The argument of an option, which must follow it."""
    for word in words:
        return word
    raise CommandError(SYNTAX)

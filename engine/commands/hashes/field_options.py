"""Parses the times to live of fields: `FIELDS numfields field [field ...]` and the options before it.

Sources: https://valkey.io/commands/hexpire/, …/hsetex/, …/hgetex/; valkey-server 9.1 answered the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from engine.commands.expire_options import parse_conditions, parse_expire_ms
from engine.commands.options import read_integer, read_option
from engine.errors import (
    FIELD_TIME_NEGATIVE,
    FIELDS_MISSING,
    FIELDS_NOT_MATCHING,
    NUMFIELDS_INVALID,
    SYNTAX,
    CommandError,
    invalid_expire,
)
from engine.values.numbers import parse_int

_UNITS_MS: Final = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}
_RELATIVE: Final = frozenset((b"EX", b"PX"))


class FieldOptions(NamedTuple):
    """The options in front of FIELDS.

    Attributes:
        of_key: b"NX", b"XX" or b"".
        of_fields: b"FNX", b"FXX" or b"".
        lifetime: b"EX", b"PX", b"EXAT", b"PXAT", b"KEEPTTL", b"PERSIST" or b"".
        amount: what follows one of the first four.
    """

    of_key: bytes = b""
    of_fields: bytes = b""
    lifetime: bytes = b""
    amount: bytes = b""

    def expire_ms(self, now_ms: int, command: str) -> int | None:
        """When the fields die; None when `lifetime` names no time.

        Raises:
            CommandError: not an integer, negative or too far away.
        """
        unit_ms = _UNITS_MS.get(self.lifetime)
        if unit_ms is None:
            return None
        return parse_field_expire_ms(self.amount, unit_ms, now_ms if self.lifetime in _RELATIVE else 0, command)


HGETEX_OPTIONS: Final = {**dict.fromkeys((*_UNITS_MS, b"PERSIST"), "lifetime")}
HSETEX_OPTIONS: Final = {
    **dict.fromkeys((b"NX", b"XX"), "of_key"),
    **dict.fromkeys((b"FNX", b"FXX"), "of_fields"),
    **dict.fromkeys((*_UNITS_MS, b"KEEPTTL"), "lifetime"),
}


def parse_options(words: Sequence[bytes], allowed: Mapping[bytes, str]) -> FieldOptions:
    """The options `words`; `allowed` says for each which field of `FieldOptions` it is.

    One may stand twice, and the last amount counts; of those that exclude each other one may stand.

    Raises:
        CommandError: syntax error.
    """
    found: dict[str, bytes] = {}
    remaining = iter(words)
    for word in remaining:
        option = read_option(word)
        kind = allowed.get(option)
        if kind is None or found.setdefault(kind, option) != option:
            raise CommandError(SYNTAX)
        if option in _UNITS_MS:
            amount = next(remaining, None)
            if amount is None:
                raise CommandError(SYNTAX)
            found["amount"] = amount
    return FieldOptions(**found)


def split_at_fields(
    args: list[bytes], start: int, *, error: str = NUMFIELDS_INVALID
) -> tuple[list[bytes], list[bytes]]:
    """The words from `start` up to the first FIELDS, and those behind it: at least one.

    Raises:
        CommandError: `error`, it is not there.
    """
    for at in range(start, len(args) - 1):
        if read_option(args[at]) == b"FIELDS":
            return args[start:at], args[at + 1 :]
    raise CommandError(error)


def split_behind_key(args: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The options of HSETEX and HGETEX, and the words behind FIELDS.

    A key that is called FIELDS is taken for it, as in Redis.

    Raises:
        CommandError: it is not there.
    """
    words, behind = split_at_fields(args, 0)
    return words[1:], behind


def counted(words: list[bytes], *, width: int = 1) -> list[bytes]:
    """What follows the number `words[0]`, which must be that of fields, each of `width` words.

    Raises:
        CommandError: it is no number; or it is another one.
    """
    number = read_integer(words[0])
    if number < 1 or number * width != len(words) - 1:
        raise CommandError(NUMFIELDS_INVALID)
    return words[1:]


def exactly_counted(words: list[bytes], *, error: str) -> list[bytes]:
    """What follows the number `words[0]`, which must be that of fields; in Redis 7.4's words.

    Raises:
        CommandError: `error`, it is no number above 0; or there are not as many.
    """
    number = parse_int(words[0])
    if number is None or number < 1:
        raise CommandError(error)
    if number != len(words) - 1:
        raise CommandError(FIELDS_NOT_MATCHING)
    return words[1:]


def parse_field_conditions(words: list[bytes]) -> frozenset[bytes]:
    """The conditions of HEXPIRE, which stand in front of FIELDS.

    Raises:
        CommandError: one of them is none, or they exclude each other: Redis 7.4 had expected FIELDS there.
    """
    try:
        return parse_conditions(words)
    except CommandError:
        raise CommandError(FIELDS_MISSING) from None


def parse_positive_expire_ms(text: bytes, unit_ms: int, start_ms: int, command: str) -> int:
    """As `parse_field_expire_ms`, in Redis 7.4's words.

    Raises:
        CommandError: not an integer, negative or too far away.
    """
    number = parse_int(text)
    if number is not None and number < 0:
        raise CommandError(FIELD_TIME_NEGATIVE)
    return parse_field_expire_ms(text, unit_ms, start_ms, command)


def plain_fields(args: list[bytes]) -> list[bytes]:
    """The fields of `key FIELDS numfields field [field ...]`.

    Raises:
        CommandError: FIELDS is missing, or as `counted`.
    """
    if read_option(args[1]) != b"FIELDS":
        raise CommandError(SYNTAX)
    return counted(args[2:])


def parse_field_expire_ms(text: bytes, unit_ms: int, start_ms: int, command: str) -> int:
    """`start_ms` plus the time that `text` spells in units of `unit_ms`; it may be none, but not negative.

    Raises:
        CommandError: not an integer, negative or too far away.
    """
    expire_ms = parse_expire_ms(text, unit_ms, start_ms, command)
    if expire_ms < start_ms:
        raise CommandError(invalid_expire(command))
    return expire_ms

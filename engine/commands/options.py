"""Parses options and numbers, for all commands."""

from __future__ import annotations

from engine.errors import LIMIT_NEGATIVE, NOT_AN_INTEGER, SYNTAX, CommandError
from engine.values.numbers import parse_int


def read_option(word: bytes) -> bytes:
    """The option as Redis compares it: in any case, and a C string, so its first NUL ends it."""
    return word.partition(b"\0")[0].upper()


def read_integer(text: bytes) -> int:
    """The signed 64-bit integer that an argument spells.

    Raises:
        CommandError: it is none; the text is that of most of Redis' commands.
    """
    value = parse_int(text)
    if value is None:
        raise CommandError(NOT_AN_INTEGER)
    return value


def parse_limit(words: list[bytes]) -> int:
    """The last of the limits `LIMIT limit`, as SINTERCARD and ZINTERCARD take them, 0 for none.

    Raises:
        CommandError: something else stands there, or a limit is no number or negative.
    """
    limit = 0
    for at in range(0, len(words), 2):
        if read_option(words[at]) != b"LIMIT" or at + 1 == len(words):
            raise CommandError(SYNTAX)
        number = parse_int(words[at + 1])
        if number is None or number < 0:
            raise CommandError(LIMIT_NEGATIVE)
        limit = number
    return limit

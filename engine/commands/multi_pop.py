"""The arguments that LMPOP and ZMPOP share: `numkeys key [key ...] <end> [COUNT count]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from engine.commands.options import read_option
from engine.errors import COUNT_NOT_POSITIVE, NUMKEYS_NOT_POSITIVE, SYNTAX, CommandError
from engine.values.numbers import parse_int

LIST_ENDS: Final = {b"LEFT": True, b"RIGHT": False}
"""The ends of a list as LMOVE and LMPOP name them, and whether each is the head."""


class MultiPop(NamedTuple):
    """The keys in order, the end to take from, and the number of elements."""

    keys: list[bytes]
    end: bool
    wanted: int


def parse_multi_pop(args: list[bytes], ends: Mapping[bytes, bool]) -> MultiPop:
    """Read the arguments of LMPOP or ZMPOP, in the order in which Redis does.

    Raises:
        CommandError: of any of them.
    """
    number = parse_int(args[0])
    if number is None or number < 1:
        raise CommandError(NUMKEYS_NOT_POSITIVE)
    at = number + 1
    if at >= len(args):
        raise CommandError(SYNTAX)
    end = parse_end(args[at], ends)
    count, options = 1, args[at + 1 :]
    if options:
        if len(options) < 2 or read_option(options[0]) != b"COUNT":
            raise CommandError(SYNTAX)
        count = _parse_count(options[1])
        if len(options) > 2:
            raise CommandError(SYNTAX)
    return MultiPop(args[1:at], end, count)


def parse_end(word: bytes, ends: Mapping[bytes, bool]) -> bool:
    """Which end a word means.

    Raises:
        CommandError: neither.
    """
    end = ends.get(read_option(word))
    if end is None:
        raise CommandError(SYNTAX)
    return end


def _parse_count(text: bytes) -> int:
    count = parse_int(text)
    if count is None or count < 1:
        raise CommandError(COUNT_NOT_POSITIVE)
    return count

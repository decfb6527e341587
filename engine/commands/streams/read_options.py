"""Parses what XREAD and XREADGROUP are given: options, keys, and an id for each key."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.commands.options import read_integer, read_option
from engine.errors import SYNTAX, CommandError
from engine.values.numbers import INT_MAX, parse_int

_UNBALANCED: Final = "ERR Unbalanced '{}' list of streams: for each stream key an ID or '{}' must be specified."
_NOT_FOR_XREAD: Final = "ERR The {} option is only supported by XREADGROUP. You called XREAD instead."
_NO_GROUP: Final = "ERR Missing GROUP option for XREADGROUP"


class ReadOptions(NamedTuple):
    """The arguments of one of the two.

    Attributes:
        keys: of the streams.
        ids: one for each key, as they stand in the command.
        most: as many entries of each stream at most; None: all.
        block_ms: how long to wait for an entry, 0 for ever; None: not at all.
        group: of XREADGROUP, `consumer` too.
        noack: what is delivered does not become pending.
    """

    keys: list[bytes]
    ids: list[bytes]
    most: int | None
    block_ms: int | None
    group: bytes | None
    consumer: bytes
    noack: bool


def read_options_of(args: list[bytes], now_ms: int, *, has_group: bool) -> ReadOptions:
    """Parse the arguments of XREAD or, where it `has_group`, of XREADGROUP.

    Raises:
        CommandError: as Redis has it, of the first word that is wrong.
    """
    count: int | None = None
    block_ms: int | None = None
    group: bytes | None = None
    consumer, noack = b"", False
    at = 0
    while True:
        word, more = read_option(args[at]) if at < len(args) else b"", len(args) - at - 1
        if word == b"BLOCK" and more > 0:
            block_ms = _parse_block_ms(args[at + 1], now_ms)
            at += 2
        elif word == b"COUNT" and more > 0:
            count = _parse_count(args[at + 1])
            at += 2
        elif word == b"STREAMS" and more > 0:
            break
        elif word == b"GROUP" and more > 1:
            if not has_group:
                raise CommandError(_NOT_FOR_XREAD.format("GROUP"))
            group, consumer = args[at + 1 : at + 3]
            at += 3
        elif word == b"NOACK":
            if not has_group:
                raise CommandError(_NOT_FOR_XREAD.format("NOACK"))
            noack = True
            at += 1
        else:
            raise CommandError(SYNTAX)
    half, odd = divmod(more, 2)
    if odd:
        raise CommandError(_UNBALANCED.format(*(("xreadgroup", ">") if has_group else ("xread", "$"))))
    if has_group and group is None:
        raise CommandError(_NO_GROUP)
    words = args[at + 1 :]
    return ReadOptions(words[:half], words[half:], count, block_ms, group, consumer, noack)


def waits(name: bytes, args: list[bytes]) -> bool:
    """Whether XREAD or XREADGROUP waits where there is no entry: what a group has delivered before is there or not."""
    has_group = name == b"XREADGROUP"
    try:
        options = read_options_of(args, 0, has_group=has_group)
    except CommandError:
        return False
    return options.block_ms is not None and (not has_group or all(text == b">" for text in options.ids))


def _parse_count(text: bytes) -> int | None:
    count = read_integer(text)
    return count if count > 0 else None


def _parse_block_ms(text: bytes, now_ms: int) -> int:
    block_ms = parse_int(text)
    if block_ms is None:
        raise CommandError("ERR timeout is not an integer or out of range")
    if block_ms < 0:
        raise CommandError("ERR timeout is negative")
    if block_ms > INT_MAX - now_ms:
        raise CommandError("ERR timeout is out of range")
    return block_ms

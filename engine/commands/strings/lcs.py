"""LCS: the longest common subsequence of two strings. Source: https://valkey.io/commands/lcs/ and valkey-server 9.1."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import LCS_BOTH, LCS_NOT_STRINGS, LCS_TOO_LARGE, SYNTAX, CommandError
from engine.limits import STRING_BYTES_MAX
from engine.model import STRING
from engine.types.string import strings
from engine.values import subsequence
from engine.values.replies import Map, Reply

_CELL_BYTES: Final = 4  # of Redis' matrix, which may be as large as a string


class _Options(NamedTuple):
    """`match_bytes_min`: shorter matches are left out."""

    length: bool
    indexes: bool
    match_bytes_min: int
    with_length: bool


class _Range(NamedTuple):
    """A stretch that both have: where it begins in each of them, and its length."""

    first: int
    second: int
    size: int


@command(
    "LCS key key [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
    group="string",
    since="7.0.0",
    complexity="O(length of one * length of the other / 64), lengths in bytes",
)
def lcs(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the longest common subsequence of two strings, its length, or its matching ranges, the last one first.

    > MSET a "ohmytext" b "mynewtext"
    OK
    > LCS a b
    "mytext"
    > LCS a b LEN
    (integer) 6
    > LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN
    1) "matches"
    2) 1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
          3) (integer) 4
    3) "len"
    4) (integer) 6
    """
    keys = [tx.find(name) for name in args[:2]]
    if any(key is not None and key.type != STRING for key in keys):
        raise CommandError(LCS_NOT_STRINGS)
    options = _parse(args[2:])
    if options.length and options.indexes:
        raise CommandError(LCS_BOTH)
    sizes = [0 if key is None else strings.length(key) for key in keys]
    if (sizes[0] + 1) * (sizes[1] + 1) * _CELL_BYTES > STRING_BYTES_MAX:
        raise CommandError(LCS_TOO_LARGE)
    a, b = (_content(tx, key) for key in keys)
    if options.length:
        return subsequence.length(a, b)
    matches = list(subsequence.matches(a, b))
    if not options.indexes:
        return bytes(a[first] for first, _ in reversed(matches))
    found: Reply = [
        [[first, first + size - 1], [second, second + size - 1], *([size] if options.with_length else [])]
        for first, second, size in _ranges(matches)
        if size >= options.match_bytes_min
    ]
    return Map([(b"matches", found), (b"len", len(matches))])


def _content(tx: Transaction, key: Key | None) -> bytes:
    return b"" if key is None else strings.read(tx, key)


def _ranges(matches: list[subsequence.Match]) -> list[_Range]:
    """The matches, the last one first, as stretches that go on in both strings at once."""
    ranges: list[_Range] = []
    for first, second in matches:
        if ranges and (ranges[-1].first, ranges[-1].second) == (first + 1, second + 1):
            ranges[-1] = _Range(first, second, ranges[-1].size + 1)
        else:
            ranges.append(_Range(first, second, 1))
    return ranges


def _parse(words: list[bytes]) -> _Options:
    seen: set[bytes] = set()
    match_bytes_min = 0
    remaining = iter(words)
    for word in remaining:
        option = read_option(word)
        if option not in {b"LEN", b"IDX", b"MINMATCHLEN", b"WITHMATCHLEN"}:
            raise CommandError(SYNTAX)
        seen.add(option)
        if option == b"MINMATCHLEN":
            match_bytes_min = _parse_length(next(remaining, None))
    return _Options(b"LEN" in seen, b"IDX" in seen, match_bytes_min, b"WITHMATCHLEN" in seen)


def _parse_length(text: bytes | None) -> int:
    if text is None:
        raise CommandError(SYNTAX)
    return read_integer(text)

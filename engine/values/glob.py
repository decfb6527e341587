r"""Redis' glob patterns, as KEYS, SCAN MATCH and PSUBSCRIBE read them.

    *        any bytes, also none       ?   one byte       \x   the byte x
    [abc]    one of these bytes         [^abc]   one byte that is none of them       [a-c]   one of a range

Odd corners are Redis' too (`stringmatchlen`): a class that is not closed ends with the pattern; the bounds of a range
may stand in either order and are signed, so `[\x01-\xff]` is the three bytes -1, 0 and 1; the empty string matches the
empty pattern alone; a pattern with over a thousand `*` that something follows matches nothing.

A pattern is cut at its stars into pieces that each match a fixed number of bytes. The first piece must stand at the
beginning and the last one at the end; for each other piece the first place behind the one before it will do. There is
no backtracking: a match costs at most (length of the pattern) * (length of the string), and mostly a `bytes.find`.
Source: https://valkey.io/commands/keys/.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Final

_STARS_MAX: Final = 1000
_BYTES: Final = range(256)
_HALF: Final = 128

_ELEMENT: Final = re.compile(
    rb"(?P<stars>\*+)|(?P<any>\?)|\[(?P<negated>\^?)(?P<items>(?:\\.|[^]]-.|[^]])*)\]?|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_ITEM: Final = re.compile(rb"\\(?P<escaped>.)|(?P<first>.)-(?P<last>.)|(?P<plain>.)", re.DOTALL)


class _Piece:
    """What stands between two stars.

    Attributes:
        length: how many bytes match it.
        literal: these bytes alone; None when it is an expression.
    """

    def __init__(self, literal: list[bytes], expression: list[bytes]) -> None:
        self.length = len(expression)
        self.literal = b"".join(literal) if len(literal) == len(expression) else None
        self._expression = expression

    @cached_property
    def compiled(self) -> re.Pattern[bytes]:
        """The expression, compiled once a string is long enough to need it: far slower than a match."""
        return re.compile(b"".join(self._expression), re.DOTALL)

    def stands_at(self, string: bytes, at: int) -> bool:
        """Whether `string[at:]`, which is long enough, begins with it."""
        if self.literal is not None:
            return string.startswith(self.literal, at)
        return self.compiled.match(string, at) is not None

    def find(self, string: bytes, start: int, end: int) -> int:
        """Its first place within `string[start:end]`, -1 when there is none."""
        if self.literal is not None:
            return string.find(self.literal, start, end)
        found = self.compiled.search(string, start, end)
        return -1 if found is None else found.start()


def key_matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """As KEYS takes a pattern of keys: `*` alone is every key, the empty one too, which no other `*` matches."""
    return (lambda _: True) if pattern == b"*" else matcher(pattern)


def matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """A function that says whether a whole string matches `pattern`."""
    first, *others = _cut(pattern)
    if not others:
        return lambda string: len(string) == first.length and first.stands_at(string, 0)
    *inner, last = others
    if len(others) - (last.length == 0) > _STARS_MAX:
        return lambda string: False
    least = max(1, first.length + sum(piece.length for piece in others))

    def matches(string: bytes) -> bool:
        at, end = first.length, len(string) - last.length
        if len(string) < least or not first.stands_at(string, 0) or not last.stands_at(string, end):
            return False
        for piece in inner:
            at = piece.find(string, at, end)
            if at < 0:
                return False
            at += piece.length
        return True

    return matches


def _cut(pattern: bytes) -> list[_Piece]:
    """The pieces between the stars: one more than there are runs of stars, empty ones at the ends included."""
    pieces = []
    literal: list[bytes] = []
    expression: list[bytes] = []
    for element in _ELEMENT.finditer(pattern):
        if element["stars"]:
            pieces.append(_Piece(literal, expression))
            literal, expression = [], []
        elif element["any"]:
            expression.append(b".")
        elif element["items"] is not None:
            expression.append(_class(element["items"], negated=bool(element["negated"])))
        else:
            literal.append(element["escaped"] or element["plain"])
            expression.append(re.escape(literal[-1]))
    pieces.append(_Piece(literal, expression))
    return pieces


@lru_cache(maxsize=256)
def _class(items: bytes, *, negated: bool) -> bytes:
    """What stands between the brackets, as a regular expression for one byte."""
    members: set[int] = set()
    for item in _ITEM.finditer(items):
        if item["first"]:
            low, high = sorted((_signed(item["first"]), _signed(item["last"])))
            members |= {byte for byte in _BYTES if low <= (byte + _HALF) % 256 - _HALF <= high}
        else:
            members.add((item["escaped"] or item["plain"])[0])
    found = [b"\\x%02x" % byte for byte in _BYTES if (byte in members) is not negated]
    return b"[" + b"".join(found) + b"]" if found else b"(?!)"


def _signed(byte: bytes) -> int:
    return int.from_bytes(byte, signed=True)

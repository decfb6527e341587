"""Parses the options of a search: its centre, its shape, and how results are shown or stored.

GEOSEARCH and GEORADIUS share most of their options. Each is read by a function of its own, in the order in which they
stand: as in Redis the first word that is wrong decides about the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from engine.batch.keys.key import Key
from engine.commands.geo.positions import parse_position, parse_unit
from engine.commands.options import read_integer, read_option
from engine.errors import (
    BOX_NEGATIVE,
    COUNT_TOO_SMALL,
    HEIGHT_NOT_NUMERIC,
    NO_SUCH_MEMBER,
    RADIUS_NEGATIVE,
    RADIUS_NOT_NUMERIC,
    SYNTAX,
    TOO_FEW_VERTICES,
    VERTICES_NOT_AN_INTEGER,
    WIDTH_NOT_NUMERIC,
    CommandError,
)
from engine.types.zset import zsets
from engine.values.geo.geohash import Point, position_of
from engine.values.geo.shapes import Box, Circle, Polygon, Shape
from engine.values.numbers import parse_double, parse_int

_C_INT: Final = 1 << 31
_VERTICES_MIN: Final = 3
NOWHERE: Final = (0.0, 0.0)
"""Where a search begins that needs no place, or finds no key."""


@dataclass(slots=True)
class Search:
    """The parsed options of a search.

    Attributes:
        key: to be searched, None when it is not there.
        origin: the word that said where to begin, and
        middle: this place; of a polygon its own, and of a key that is not there none.
        form: the word that said which shape, and
        shape: what it is around a place.
        scale: the metres of the unit in which distances are shown and stored.
        destination: where to store the result, None to show it; `by_distance`: with distances as scores.
        reverse: furthest first; None: in the order in which they are found.
        count: at most so many, 0 for all; `any`: the first ones that are found.
        shown: what is shown beside a member.
    """

    key: Key | None
    origin: bytes = b""
    middle: Point = NOWHERE
    form: bytes = b""
    shape: Callable[[Point], Shape] | None = None
    scale: float = 1.0
    destination: bytes | None = None
    by_distance: bool = False
    reverse: bool | None = None
    count: int = 0
    any: bool = False
    shown: list[bytes] = field(default_factory=list)


Reader = Callable[[Search, list[bytes], int], int]
"""(search, words, index of an option among them) -> how many of the words behind it belong to it."""


def read_options(search: Search, words: list[bytes], readers: dict[bytes, Reader]) -> None:
    """All of `words`, each by its reader. Raises CommandError for a word that is none, and for what it holds."""
    at = 0
    while at < len(words):
        reader = readers.get(read_option(words[at]))
        if reader is None:
            raise CommandError(SYNTAX)
        at += 1 + reader(search, words, at)


def _need(words: list[bytes], at: int, number: int, *, allowed: bool = True) -> None:
    """Refuse an option without so many words behind it, or one that another has excluded."""
    if len(words) - at - 1 < number or not allowed:
        raise CommandError(SYNTAX)


def _read_shown(search: Search, words: list[bytes], at: int) -> int:
    search.shown.append(read_option(words[at]))
    return 0


def _read_order(search: Search, words: list[bytes], at: int) -> int:
    search.reverse = read_option(words[at]) == b"DESC"
    return 0


def _read_any(search: Search, _words: list[bytes], _at: int) -> int:
    search.any = True
    return 0


def _read_count(search: Search, words: list[bytes], at: int) -> int:
    _need(words, at, 1)
    count = read_integer(words[at + 1])
    if count < 1:
        raise CommandError(COUNT_TOO_SMALL)
    search.count = count
    return 1


def _read_destination(search: Search, words: list[bytes], at: int) -> int:
    _need(words, at, 1)
    search.destination = words[at + 1]
    search.by_distance = read_option(words[at]) == b"STOREDIST"
    return 1


def _read_by_distance(search: Search, _words: list[bytes], _at: int) -> int:
    search.by_distance = True
    return 0


def read_member(search: Search, words: list[bytes], at: int) -> int:
    """FROMMEMBER, and the place of GEORADIUSBYMEMBER: the word behind `at`."""
    _need(words, at, 1, allowed=search.origin != b"FROMLONLAT" and search.form != b"BYPOLYGON")
    if search.key is not None:
        score = zsets.score_of(search.key, words[at + 1])
        if score is None:
            raise CommandError(NO_SUCH_MEMBER)
        search.middle = position_of(score)
    search.origin = b"FROMMEMBER"
    return 1


def _read_position(search: Search, words: list[bytes], at: int) -> int:
    _need(words, at, 2, allowed=search.origin != b"FROMMEMBER" and search.form != b"BYPOLYGON")
    search.middle = parse_position(words[at + 1], words[at + 2])
    search.origin = b"FROMLONLAT"
    return 2


def read_circle(search: Search, words: list[bytes], at: int) -> int:
    """BYRADIUS, and the circle of GEORADIUS: radius and unit behind `at`."""
    _need(words, at, 2, allowed=search.form in {b"", b"BYRADIUS"})
    radius = parse_double(words[at + 1])
    if radius is None:
        raise CommandError(RADIUS_NOT_NUMERIC)
    if radius < 0:
        raise CommandError(RADIUS_NEGATIVE)
    scale = parse_unit(words[at + 2])
    search.shape = lambda middle: Circle(middle, radius * scale)
    search.form, search.scale = b"BYRADIUS", scale
    return 2


def _read_box(search: Search, words: list[bytes], at: int) -> int:
    _need(words, at, 3, allowed=search.form in {b"", b"BYBOX"})
    width, height = parse_double(words[at + 1]), parse_double(words[at + 2])
    if width is None:
        raise CommandError(WIDTH_NOT_NUMERIC)
    if height is None:
        raise CommandError(HEIGHT_NOT_NUMERIC)
    if width < 0 or height < 0:
        raise CommandError(BOX_NEGATIVE)
    scale = parse_unit(words[at + 3])
    search.shape = lambda middle: Box(middle, width, height, scale)
    search.form, search.scale = b"BYBOX", scale
    return 3


def _read_polygon(search: Search, words: list[bytes], at: int) -> int:
    _need(words, at, 2, allowed=not search.origin and search.form in {b"", b"BYPOLYGON"})
    number = parse_int(words[at + 1])
    if number is None or not -_C_INT <= number < _C_INT:
        raise CommandError(VERTICES_NOT_AN_INTEGER)
    first, end = at + 2, at + 2 + 2 * number
    if number < _VERTICES_MIN or end > len(words):
        raise CommandError(TOO_FEW_VERTICES)
    polygon = Polygon([parse_position(words[n], words[n + 1]) for n in range(first, end, 2)])
    search.shape = lambda _middle: polygon
    search.form = b"BYPOLYGON"
    return 1 + 2 * number


SHOWING: Final[dict[bytes, Reader]] = {
    **dict.fromkeys((b"WITHDIST", b"WITHHASH", b"WITHCOORD"), _read_shown),
    **dict.fromkeys((b"ASC", b"DESC"), _read_order),
    b"ANY": _read_any,
    b"COUNT": _read_count,
}
STORING: Final = {**SHOWING, b"STORE": _read_destination, b"STOREDIST": _read_destination}
SEARCHING: Final = {
    **SHOWING,
    b"FROMMEMBER": read_member,
    b"FROMLONLAT": _read_position,
    b"BYRADIUS": read_circle,
    b"BYBOX": _read_box,
    b"BYPOLYGON": _read_polygon,
}
SEARCHING_AND_STORING: Final = {**SEARCHING, b"STOREDIST": _read_by_distance}

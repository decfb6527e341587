"""Searches for members near a place or inside a shape. Source: https://valkey.io/commands/#geo.

GEOSEARCH, and GEORADIUS in its four forms, are one search with different words in front of its options. A search reads
the members of up to nine cells of the grid around its middle, whatever else the sorted set holds.

What is found and how far away it is may be stored. Both come from `engine.values.geo`, which computes the same on every
machine, so nothing has to be rounded before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills, keyspace_events
from engine.commands.geo.positions import coordinates, parse_position
from engine.commands.geo.search_options import (
    NOWHERE,
    SEARCHING,
    SEARCHING_AND_STORING,
    SHOWING,
    STORING,
    Search,
    read_circle,
    read_member,
    read_options,
)
from engine.commands.keyspace_events import stored
from engine.commands.registry import command
from engine.errors import ANY_WITHOUT_COUNT, CommandError, not_storable, one_of
from engine.model import ZSET
from engine.types.zset import zsets
from engine.values.encoding import pack_score
from engine.values.geo.areas import score_ranges
from engine.values.geo.distance import format_distance
from engine.values.geo.geohash import Point, position_of
from engine.values.geo.shapes import Circle, Shape
from engine.values.ordering import in_order
from engine.values.replies import Reply, bounded

_BY: Final = (
    "<FROMMEMBER member|FROMLONLAT longitude latitude> "
    "<BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>"
    "|BYPOLYGON num-vertices longitude latitude [longitude latitude ...]> "
)
_AROUND: Final = "radius <M|KM|FT|MI> "
_HOW_MANY: Final = "[ASC|DESC] [COUNT count [ANY]]"
_SHOWN: Final = " [WITHCOORD] [WITHDIST] [WITHHASH]"
_STORED: Final = " [STORE key|STOREDIST key]"
_COST: Final = (
    "O(members in up to nine cells of the grid, which cover the shape; times corners of a polygon), "
    "and O(m log m) to sort m"
)


class _Found(NamedTuple):
    """A member inside the shape; `distance_m` is from its middle."""

    member: bytes
    score: float
    position: Point
    distance_m: float


_distance = attrgetter("distance_m")
_FOUND_BYTES: Final = 192  # of numbers, in memory or in a reply


@command(f"GEOSEARCH key {_BY}{_HOW_MANY}{_SHOWN}", group="geo", since="6.2.0", complexity=_COST)
def geosearch(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members inside a circle, a box or a polygon; a polygon needs no centre.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 100 KM
    1) "Catania"
    > GEOSEARCH Sicily FROMMEMBER Palermo BYBOX 400 400 KM DESC WITHDIST
    1) 1) "Catania"
       2) "166.2742"
    2) 1) "Palermo"
       2) "0.0000"
    > GEOSEARCH Sicily BYPOLYGON 3 12 37 15 38 13 39
    1) "Palermo"
    """
    return _search_anything(tx, args, "GEOSEARCH", None)


@command(
    f"GEOSEARCHSTORE destination source {_BY}{_HOW_MANY} [STOREDIST]",
    group="geo",
    since="6.2.0",
    complexity=_COST,
    write=True,
    grows=True,
    access="OW update, RO access",
    fills=fills.stored(ZSET),
    notifies=stored(keyspace_events.ZSET, b"geosearchstore"),
)
def geosearchstore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of GEOSEARCH with positions, or with distances (STOREDIST). Returns how many members.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEOSEARCHSTORE near Sicily FROMLONLAT 15 37 BYRADIUS 100 KM
    (integer) 1
    > ZRANGE near 0 -1 WITHSCORES
    1) "Catania"
    2) "3479447370796909"
    """
    return _search_anything(tx, args[1:], "GEOSEARCHSTORE", args[0])


@command(
    f"GEORADIUS key longitude latitude {_AROUND}{_HOW_MANY}{_SHOWN}{_STORED}",
    group="geo",
    since="3.2.0",
    complexity=_COST,
    write=True,
    grows=True,
    access="RO access, OW update variable_flags",
    large_reply=True,
    fills=fills.stored(ZSET, place=-1),
    notifies=stored(keyspace_events.ZSET, b"georadiusstore"),
)
def georadius(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members in a circle around a position; with STORE, store them and return their number.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEORADIUS Sicily 15 37 200 KM ASC
    1) "Catania"
    2) "Palermo"
    > GEORADIUS Sicily 15 37 100 KM STORE near
    (integer) 1
    """
    return _search_around_position(tx, args, may_store=True)


@command(
    f"GEORADIUS_RO key longitude latitude {_AROUND}{_HOW_MANY}{_SHOWN}", group="geo", since="3.2.10", complexity=_COST
)
def georadius_ro(tx: Transaction, args: list[bytes]) -> Reply:
    """Search as GEORADIUS does, without STORE.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEORADIUS_RO Sicily 15 37 200 KM COUNT 1
    1) "Catania"
    """
    return _search_around_position(tx, args, may_store=False)


@command(
    f"GEORADIUSBYMEMBER key member {_AROUND}{_HOW_MANY}{_SHOWN}{_STORED}",
    group="geo",
    since="3.2.0",
    complexity=_COST,
    write=True,
    grows=True,
    access="RO access, OW update variable_flags",
    large_reply=True,
    fills=fills.stored(ZSET, place=-1),
    notifies=stored(keyspace_events.ZSET, b"georadiusstore"),
)
def georadiusbymember(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members in a circle around one of them; with STORE, store them and return their number.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEORADIUSBYMEMBER Sicily Palermo 100 KM
    1) "Palermo"
    """
    return _search_around_member(tx, args, may_store=True)


@command(f"GEORADIUSBYMEMBER_RO key member {_AROUND}{_HOW_MANY}{_SHOWN}", group="geo", since="3.2.10", complexity=_COST)
def georadiusbymember_ro(tx: Transaction, args: list[bytes]) -> Reply:
    """Search as GEORADIUSBYMEMBER does, without STORE.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEORADIUSBYMEMBER_RO Sicily Palermo 100 KM
    1) "Palermo"
    """
    return _search_around_member(tx, args, may_store=False)


# ------------------------------------------------------------------------------------------------- the four grammars


def _search_anything(tx: Transaction, args: list[bytes], name: str, destination: bytes | None) -> Reply:
    """GEOSEARCH and GEOSEARCHSTORE, whose source is the first of `args`."""
    search = Search(tx.find_typed(args[0], ZSET), destination=destination)
    read_options(search, args[1:], SEARCHING if destination is None else SEARCHING_AND_STORING)
    if destination is not None and search.shown:
        raise CommandError(not_storable(name))
    if not search.origin and search.form != b"BYPOLYGON":
        raise one_of("FROMMEMBER or FROMLONLAT", name)
    if search.shape is None:
        raise one_of("BYRADIUS, BYBOX and BYPOLYGON", name)
    return _run(tx, search, search.shape(search.middle))


def _search_around_position(tx: Transaction, args: list[bytes], *, may_store: bool) -> Reply:
    search = Search(tx.find_typed(args[0], ZSET))
    search.middle = parse_position(args[1], args[2])
    read_circle(search, args, 2)
    return _search_circle(tx, search, args[5:], may_store=may_store)


def _search_around_member(tx: Transaction, args: list[bytes], *, may_store: bool) -> Reply:
    """Without the key nothing but the options is looked at."""
    search = Search(tx.find_typed(args[0], ZSET))
    if search.key is not None:
        read_member(search, args, 0)
        read_circle(search, args, 1)
    return _search_circle(tx, search, args[4:], may_store=may_store)


def _search_circle(tx: Transaction, search: Search, words: list[bytes], *, may_store: bool) -> Reply:
    read_options(search, words, STORING if may_store else SHOWING)
    if search.destination is not None and search.shown:
        raise CommandError(not_storable("STORE option in GEORADIUS"))
    return _run(tx, search, Circle(NOWHERE, 0.0) if search.shape is None else search.shape(search.middle))


# -------------------------------------------------------------------------------------------------------------- search


def _run(tx: Transaction, search: Search, shape: Shape) -> Reply:
    if search.any and not search.count:
        raise CommandError(ANY_WITHOUT_COUNT)
    found = [] if search.key is None else _sorted(search, _find(tx, search.key, shape))
    if search.destination is None:
        return [_shown(search, one) for one in found]
    scored = ((one.distance_m / search.scale if search.by_distance else one.score, one.member) for one in found)
    return zsets.store(tx, search.destination, ((pack_score(score), member) for score, member in scored))


def _find(tx: Transaction, key: Key, shape: Shape) -> Iterator[_Found]:
    """Cell by cell, and in a cell by score."""
    for low, high in score_ranges(shape):
        for score_key in zsets.scan(tx, key, pack_score(low), pack_score(high)):
            member, score = zsets.split(score_key)
            position = position_of(score)
            distance_m = shape.distance(position)
            if distance_m is not None:
                yield _Found(member, score, position, distance_m)


def _sorted(search: Search, found: Iterator[_Found]) -> list[_Found]:
    """As many as are wanted. To take some of them is to take the nearest, unless any will do.

    Raises:
        CommandError: so many were found that they are too much for one reply; nothing is stored then either.
    """
    members = bounded(islice(found, search.count if search.any else None), _bytes_of)
    reverse = search.reverse
    if reverse is None and search.count and not search.any:
        reverse = False
    if reverse is not None:
        members = in_order(members, _distance, reverse=reverse)
    return members[: search.count or None]


def _bytes_of(some: list[_Found]) -> int:
    return sum(len(one.member) + _FOUND_BYTES for one in some)


def _shown(search: Search, one: _Found) -> Reply:
    if not search.shown:
        return one.member
    shown: list[Reply] = [one.member]
    if b"WITHDIST" in search.shown:
        shown.append(format_distance(one.distance_m / search.scale))
    if b"WITHHASH" in search.shown:
        shown.append(int(one.score))
    if b"WITHCOORD" in search.shown:
        shown.append(coordinates(one.position))
    return shown

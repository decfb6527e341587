"""Commands on the positions of members. Source: https://valkey.io/commands/#geo."""

from __future__ import annotations

from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.errors import NOT_A_FLOAT, SYNTAX, UNKNOWN_UNIT, CommandError, invalid_position
from engine.model import ZSET
from engine.types.zset import zsets
from engine.types.zset.zsets import NX, XX
from engine.values.encoding import pack_score
from engine.values.geo.distance import METRES, between, format_distance
from engine.values.geo.geohash import LATITUDE_MAX, LONGITUDE_MAX, Point, position_of, score_at, text_of
from engine.values.numbers import parse_double
from engine.values.replies import NIL_ARRAY, Digits, Reply

_CH: Final = 16  # beside the conditions of `engine.types.zset.zsets`
_OPTIONS: Final = {b"NX": NX, b"XX": XX, b"CH": _CH}


@command(
    "GEOADD key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]",
    group="geo",
    since="3.2.0",
    complexity="O(members)",
    write=True,
    grows=True,
    fills=fills.added(3),
    notifies="zadd",
)
def geoadd(tx: Transaction, args: list[bytes]) -> Reply:
    """Set the positions of members. Returns how many are new; with CH, how many are new or have moved.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEOADD Sicily XX CH 13.4 38.1 Palermo
    (integer) 1
    """
    options, at = 0, 1
    while at < len(args) and (option := _OPTIONS.get(read_option(args[at]), 0)):
        options |= option
        at += 1
    members = args[at + 2 :: 3]
    if (len(args) - at) % 3 or not members or options & (NX | XX) == NX | XX:
        raise CommandError(SYNTAX)
    scores = [pack_score(score_at(parse_position(args[first], args[first + 1]))) for first in range(at, len(args), 3)]
    key = tx.find_typed(args[0], ZSET)
    added, moved = zsets.add(tx, args[0], key, zip(scores, members, strict=True), options & (NX | XX))
    return added + moved if options & _CH else added


@command("GEODIST key member member [M|KM|FT|MI]", group="geo", since="3.2.0", complexity="O(1)")
def geodist(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the distance of two members, in metres or another unit; nil when one is absent.

    > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEODIST Sicily Palermo Catania KM
    "166.2742"
    """
    if len(args) > 4:
        raise CommandError(SYNTAX)
    metres = parse_unit(args[3]) if len(args) == 4 else 1.0
    key = tx.find_typed(args[0], ZSET)
    one, other = _positions(key, args[1:3])
    return None if one is None or other is None else format_distance(between(one, other) / metres)


@command("GEOHASH key [member [member ...]]", group="geo", since="3.2.0", complexity="O(members)")
def geohash(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the geohashes of members, as geohash.org writes them; nil for an absent member.

    > GEOADD Sicily 13.361389 38.115556 Palermo
    (integer) 1
    > GEOHASH Sicily Palermo none
    1) "sqc8b49rny0"
    2) (nil)
    """
    positions = _positions(tx.find_typed(args[0], ZSET), args[1:])
    return [None if position is None else text_of(position) for position in positions]


@command("GEOPOS key [member [member ...]]", group="geo", since="3.2.0", complexity="O(members)")
def geopos(tx: Transaction, args: list[bytes]) -> Reply:
    """Return longitude and latitude of members; nil for an absent member.

    > GEOADD Sicily 13.361389 38.115556 Palermo
    (integer) 1
    > GEOPOS Sicily Palermo none
    1) 1) "13.36138933897018433"
       2) "38.11555639549629859"
    2) (nil)
    """
    positions = _positions(tx.find_typed(args[0], ZSET), args[1:])
    return [NIL_ARRAY if position is None else coordinates(position) for position in positions]


def parse_position(longitude_text: bytes, latitude_text: bytes) -> Point:
    """A position on the map.

    Raises:
        CommandError: it is none.
    """
    longitude, latitude = parse_double(longitude_text), parse_double(latitude_text)
    if longitude is None or latitude is None:
        raise CommandError(NOT_A_FLOAT)
    if not (abs(longitude) <= LONGITUDE_MAX and abs(latitude) <= LATITUDE_MAX):
        raise CommandError(invalid_position(longitude, latitude))
    return longitude, latitude


def parse_unit(name: bytes) -> float:
    """The metres of a unit.

    Raises:
        CommandError: there is no such unit.
    """
    metres = METRES.get(read_option(name))
    if metres is None:
        raise CommandError(UNKNOWN_UNIT)
    return metres


def coordinates(position: Point) -> Reply:
    """A position as Redis shows it."""
    return [Digits((b"%.17f" % degrees).rstrip(b"0").rstrip(b".")) for degrees in position]


def _positions(key: Key | None, members: list[bytes]) -> list[Point | None]:
    """Where they are, None for those that are not there."""
    scores = [None if key is None else zsets.score_of(key, member) for member in members]
    return [None if score is None else position_of(score) for score in scores]

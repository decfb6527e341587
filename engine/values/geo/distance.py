"""The distance of two positions by the haversine formula, on Redis' sphere.

The order of operations is Redis'. Positions are (longitude, latitude) in degrees, distances metres.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from engine.values.geo.geohash import Point
from engine.values.geo.trigonometry import PI, asin, cos, sin

EARTH_RADIUS_M: Final = 6372797.560856

METRES: Final[dict[bytes, float]] = {b"M": 1.0, b"KM": 1000.0, b"FT": 0.3048, b"MI": 1609.34}
"""By the name of a unit."""

_RADIANS: Final = PI / 180.0


def radians(degrees: float) -> float:
    """An angle of so many degrees."""
    return degrees * _RADIANS


def degrees(angle: float) -> float:
    """The angle in degrees."""
    return angle / _RADIANS


def along_meridian(one: float, other: float) -> float:
    """The distance between two latitudes: the least of any two positions there."""
    return EARTH_RADIUS_M * abs(radians(other) - radians(one))


def between(one: Point, other: Point) -> float:
    """The distance between two positions. Measured: 3 us."""
    east = sin((radians(other[0]) - radians(one[0])) / 2)
    if east == 0.0:
        return along_meridian(one[1], other[1])
    first, second = radians(one[1]), radians(other[1])
    north = sin((second - first) / 2)
    share = north * north + cos(first) * cos(second) * east * east
    return 2.0 * EARTH_RADIUS_M * asin(sqrt(share))


def format_distance(distance: float) -> bytes:
    """A distance with four digits after the point, half to even."""
    whole, rest = divmod(round(distance * 10_000.0), 10_000)
    return b"%d.%04d" % (whole, rest)

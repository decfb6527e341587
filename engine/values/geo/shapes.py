"""The shapes of a search: circle, box and polygon.

Each says which positions are inside and how far they are from its middle, and where it ends, for the search of cells
that may hold them. Positions are (longitude, latitude) in degrees, lengths metres.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple, Protocol

from engine.values.geo.distance import EARTH_RADIUS_M, along_meridian, between, degrees, radians
from engine.values.geo.geohash import Point
from engine.values.geo.trigonometry import atan2, cos, sin

Edges = tuple[float, float, float, float]
"""West, south, east and north, degrees. They may lie beyond the ends of the map."""

_SURELY: Final = 1.000001  # more than rounding can make of two lengths that are the same


class Shape(Protocol):
    """Something on the map."""

    @property
    def middle(self) -> Point:
        """Where distances are measured from."""

    @property
    def reach_m(self) -> float:
        """No corner is further from the middle."""

    def distance(self, position: Point) -> float | None:
        """From the middle to `position`; None outside."""

    def edges(self) -> Edges:
        """The rectangle of longitudes and latitudes around it. Only of one whose reach is below 5,000 km."""


class Circle(NamedTuple):
    """All that is not further than `reach_m` from the middle."""

    middle: Point
    reach_m: float

    def distance(self, position: Point) -> float | None:
        """From the middle to `position`; None outside."""
        if along_meridian(self.middle[1], position[1]) > self.reach_m * _SURELY:
            return None
        found = between(self.middle, position)
        return None if found > self.reach_m else found

    def edges(self) -> Edges:
        """The rectangle around it."""
        return _edges(self.middle, self.reach_m, self.reach_m)


class Box(NamedTuple):
    """All positions within half the height to north or south and half the width to both sides.

    Attributes:
        scale: the metres of the unit that width and height are in. They become metres where Redis makes them.
    """

    middle: Point
    width: float
    height: float
    scale: float

    @property
    def reach_m(self) -> float:
        """From the middle to a corner, on a plane."""
        return sqrt(self.width / 2 * (self.width / 2) + self.height / 2 * (self.height / 2)) * self.scale

    def distance(self, position: Point) -> float | None:
        """From the middle to `position`; None outside."""
        if along_meridian(position[1], self.middle[1]) > self.height * self.scale / 2:
            return None
        if between(position, (self.middle[0], position[1])) > self.width * self.scale / 2:
            return None
        return between(self.middle, position)

    def edges(self) -> Edges:
        """The rectangle around it."""
        return _edges(self.middle, self.scale * self.width / 2, self.scale * self.height / 2)


class Polygon:
    """All that is inside of the straight lines, on the map of longitudes and latitudes, from corner to corner.

    Its middle is the one of its corners, on the sphere.
    """

    def __init__(self, corners: list[Point]) -> None:
        self._corners = corners
        self._sides = list(zip(corners, [corners[-1], *corners[:-1]], strict=True))
        self.middle = _centre(corners)

    @property
    def reach_m(self) -> float:
        """From the middle to the furthest corner of the rectangle around it."""
        west, south, east, north = self.edges()
        return max(
            between(self.middle, corner) for corner in ((west, north), (east, north), (west, south), (east, south))
        )

    def distance(self, position: Point) -> float | None:
        """From the middle to `position`; None outside. A line to the east crosses the sides an odd number of times."""
        longitude, latitude = position
        is_inside = False
        for (x, y), (other_x, other_y) in self._sides:
            if (y > latitude) != (other_y > latitude):
                is_inside ^= longitude < (other_x - x) * (latitude - y) / (other_y - y) + x
        return between(self.middle, position) if is_inside else None

    def edges(self) -> Edges:
        """The rectangle around it."""
        longitudes, latitudes = zip(*self._corners, strict=True)
        return min(longitudes), min(latitudes), max(longitudes), max(latitudes)


def _edges(middle: Point, east_m: float, north_m: float) -> Edges:
    """So far to all sides; east and west at the latitude that is nearer to the pole, where degrees are shorter."""
    longitude, latitude = middle
    height = degrees(north_m / EARTH_RADIUS_M)
    outer = latitude - height if latitude < 0 else latitude + height
    width = degrees(east_m / EARTH_RADIUS_M / cos(radians(outer)))
    return longitude - width, latitude - height, longitude + width, latitude + height


def _centre(corners: list[Point]) -> Point:
    x = y = z = 0.0
    for longitude, latitude in corners:
        across, up = radians(longitude), radians(latitude)
        x += EARTH_RADIUS_M * cos(up) * cos(across)
        y += EARTH_RADIUS_M * cos(up) * sin(across)
        z += EARTH_RADIUS_M * sin(up)
    number = len(corners)
    x, y, z = x / number, y / number, z / number
    return degrees(atan2(y, x)), degrees(atan2(z, sqrt(x * x + y * y)))

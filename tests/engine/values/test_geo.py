"""Positions, distances and cells without a store: the grid is exact, and the trigonometry the same on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import sha256
from random import Random
from struct import pack

import pytest

from engine.values.geo import trigonometry
from engine.values.geo.areas import score_ranges
from engine.values.geo.distance import EARTH_RADIUS_M, between, format_distance
from engine.values.geo.geohash import LATITUDE_MAX, Cell, cell_at, position_of, score_at, text_of
from engine.values.geo.shapes import Box, Circle, Polygon, Shape

PALERMO = (13.361389, 38.115556)
CATANIA = (15.087269, 37.502669)


# -------------------------------------------------------------------------------------------------------- trigonometry


@pytest.mark.parametrize(
    ("ours", "theirs", "least", "most"),
    [
        (trigonometry.sin, math.sin, -3.2, 3.2),
        (trigonometry.cos, math.cos, -3.2, 3.2),
        (trigonometry.asin, math.asin, 0.0, 1.0),
        (trigonometry.asin, math.asin, 0.0, 0.2),
    ],
)
def test_functions_are_nearly_exact(
    ours: Callable[[float], float], theirs: Callable[[float], float], least: float, most: float
) -> None:
    """Never further than two units in the last place from the C library, whose own error is below one."""
    random = Random(1)
    for _ in range(20_000):
        argument = random.uniform(least, most)

        assert abs(ours(argument) - theirs(argument)) <= 2 * math.ulp(theirs(argument))


def test_arc_tangents_of_all_directions_are_nearly_exact() -> None:
    """In all four quarters, on their borders, and at the origin."""
    random = Random(2)
    points = [(random.uniform(-1, 1), random.uniform(-1, 1)) for _ in range(20_000)]
    points += [(y, x) for y in (-1.0, -0.0, 0.0, 1.0) for x in (-1.0, 0.0, 1.0)]
    for y, x in points:
        assert abs(trigonometry.atan2(y, x) - math.atan2(y, x)) <= 3 * math.ulp(math.atan2(y, x))


def test_functions_give_the_same_bits_everywhere() -> None:
    """A digest of many results: what was stored on one machine is what any other one would store."""
    random = Random(3)
    digest = sha256()
    for _ in range(2000):
        one = random.uniform(-180, 180), random.uniform(-85, 85)
        other = random.uniform(-180, 180), random.uniform(-85, 85)
        digest.update(pack(">dd", between(one, other), trigonometry.atan2(one[1], other[0])))

    assert "a2ebe8f9d5f3dd97" == digest.hexdigest()[:16]


# ---------------------------------------------------------------------------------------------------------- the grid


def test_positions_come_back_to_half_a_metre() -> None:
    """A score stands for a cell, and the position for its middle."""
    random = Random(4)
    for _ in range(2000):
        position = random.uniform(-180, 180), random.uniform(-85, 85)

        assert between(position, position_of(score_at(position))) < 0.5


@pytest.mark.parametrize(
    ("position", "score"),
    [
        (PALERMO, 3479099956230698.0),
        (CATANIA, 3479447370796909.0),
        ((-180.0, -LATITUDE_MAX), 0.0),
        ((0.0, 0.0), 3377699720527872.0),
        ((180.0, LATITUDE_MAX), 13510798882111488.0),
    ],
)
def test_scores_are_redis_scores(position: tuple[float, float], score: float) -> None:
    """Also at the ends of the map, where a position has a bit more than others."""
    assert score == score_at(position)


@pytest.mark.parametrize("score", [-1.0, 2.0**53, -(2.0**63), 2.0**64, 1e300, -1e300, math.inf, -math.inf, 0.5])
def test_any_score_is_somewhere_on_the_map(score: float) -> None:
    """ZADD may have given a member a score that no position has."""
    longitude, latitude = position_of(score)

    assert -180 <= longitude <= 180
    assert -LATITUDE_MAX <= latitude <= LATITUDE_MAX


def test_letters_are_those_of_geohash_org() -> None:
    """The grid of the letters ends at the poles; the eleventh letter is always 0."""
    assert b"sqc8b49rny0" == text_of(position_of(score_at(PALERMO)))


@pytest.mark.parametrize("step", [1, 2, 7, 26])
def test_neighbours_are_next_to_each_other(step: int) -> None:
    """To the east of a cell begins the next one; and four ways around lead back, over the ends of the map as well."""
    random = Random(step)
    for _ in range(100):
        cell = cell_at((random.uniform(-180, 180), random.uniform(-85, 85)), step)
        east, north = cell.neighbour(1, 0), cell.neighbour(0, 1)

        assert east.edges()[0] in {cell.edges()[2], -180.0}
        assert north.edges()[1] in {cell.edges()[3], -LATITUDE_MAX}
        assert cell == east.neighbour(0, 1).neighbour(-1, 0).neighbour(0, -1)
        assert cell.neighbour(1, 1).neighbour(-1, -1) == cell


def test_scores_of_a_cell_are_those_of_its_positions() -> None:
    """From the first one in the cell to the first one behind it."""
    random = Random(5)
    for _ in range(300):
        position = random.uniform(-180, 180), random.uniform(-85, 85)
        low, high = cell_at(position, random.randint(1, 26)).scores()

        assert low <= score_at(position) < high
    assert (0.0, 2.0**50) == Cell(0, 1).scores()


# ------------------------------------------------------------------------------------------------------------- shapes


def test_distances_are_those_of_the_sphere() -> None:
    """Along a meridian, around the equator, between the poles of the map."""
    quarter = EARTH_RADIUS_M * math.pi / 2

    assert math.isclose(quarter, between((0.0, 0.0), (90.0, 0.0)), rel_tol=1e-15)
    assert math.isclose(quarter / 3, between((20.0, 10.0), (20.0, 40.0)), rel_tol=1e-14)
    assert math.isclose(2 * quarter, between((-90.0, 0.0), (90.0, 0.0)), rel_tol=1e-15)
    assert 0.0 == between(PALERMO, PALERMO)


@pytest.mark.parametrize(
    ("distance", "text"), [(0.0, b"0.0000"), (0.00005, b"0.0000"), (1.99995, b"2.0000"), (166274.15164, b"166274.1516")]
)
def test_distances_have_four_digits(distance: float, text: bytes) -> None:
    """Rounded half to even."""
    assert text == format_distance(distance)


SHAPES: list[Shape] = [
    Circle(PALERMO, 200_000.0),
    Circle((-120.0, 60.0), 5000.0),
    Circle((10.0, 70.0), 300_000.0),
    Circle((0.0, 0.0), 30_000_000.0),
    Box(CATANIA, 300.0, 100.0, 1000.0),
    Box((-70.0, -81.0), 40.0, 900.0, 1609.34),
    Polygon([(12.0, 37.0), (15.0, 38.0), (13.0, 39.0)]),
    Polygon([(-10.0, -50.0), (60.0, -20.0), (30.0, 60.0), (-40.0, 20.0)]),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_is_inside_is_in_one_of_the_cells(shape: Shape) -> None:
    """And in one alone, so that nothing is found twice. At the end of the map shapes are cut, as by Redis."""
    random = Random(6)
    ranges = list(score_ranges(shape))
    longitude, latitude = shape.middle
    inside = 0
    for _ in range(5000):
        position = position_of(
            score_at((
                max(-179.9, min(179.9, random.gauss(longitude, shape.reach_m / 100_000))),
                max(-85.0, min(85.0, random.gauss(latitude, shape.reach_m / 200_000))),
            ))
        )  # fmt: skip
        if shape.distance(position) is not None:
            inside += 1
            assert [1] == [1 for low, high in ranges if low <= score_at(position) < high]
    assert inside > 100


def test_a_polygon_is_inside_its_sides() -> None:
    """A notch in it is outside."""
    notched = Polygon([(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (5.0, 2.0), (0.0, 10.0)])

    assert notched.distance((2.0, 2.0)) is not None
    assert notched.distance((5.0, 5.0)) is None
    assert notched.distance((11.0, 5.0)) is None

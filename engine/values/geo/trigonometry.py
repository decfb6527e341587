"""Sine, cosine, arc sine and arc tangent from basic arithmetic and square roots alone.

The C library's functions differ between machines in the last bit, and what a search finds may be stored. IEEE 754 has
one right answer for each operation used here, so every machine gives the same. Errors are below 2 units in the last
place. Angles are radians.

The series are Taylor's, after the argument was brought near zero: by multiples of pi/2, or with the arc tangent of the
nearest eighth taken from a table. Constants that are followed by a small one are exact together to 100 bits.
"""

from __future__ import annotations

from math import copysign, sqrt
from typing import Final

PI: Final = 3.141592653589793

_QUARTER_TURNS_PER_RADIAN: Final = 2 / PI
_QUARTER_TURN: Final = 1.5707963267341256  # the upper 33 bits: a small multiple is exact
_QUARTER_TURN_REST: Final = 6.077100506506192e-11
_HALF_PI: Final = 1.5707963267948966
_HALF_PI_REST: Final = 6.123233995736766e-17

_SINE: Final = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000)
_COSINE: Final = (1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200, 1 / 20922789888000)
_ARC_TANGENT: Final = (-1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11, 1 / 13)
_ARC_SINE: Final = (1 / 6, 3 / 40, 15 / 336, 105 / 3456, 945 / 42240, 10395 / 599040, 135135 / 9676800)
_SMALL: Final = 0.1  # up to here that series is exact enough; a distance of 1,270 km
_EIGHTHS: Final = (
    (0.0, 0.0),
    (0.12435499454676144, -3.1253241424539383e-18),
    (0.24497866312686414, 1.0698755618734451e-17),
    (0.35877067027057225, -2.4623815582638635e-17),
    (0.4636476090008061, 2.2698777452961687e-17),
    (0.5585993153435624, -5.4556305485916264e-18),
    (0.6435011087932844, 1.5834785051444286e-17),
    (0.7188299996216245, -2.1478388444456983e-17),
    (0.7853981633974483, 3.061616997868383e-17),
)


def sin(angle: float) -> float:
    """The sine of an angle of at most a few turns."""
    turns, rest, low = _reduce(angle)
    value = _cosine(rest, low) if turns & 1 else _sine(rest, low)
    return -value if turns & 2 else value


def cos(angle: float) -> float:
    """The cosine of an angle of at most a few turns."""
    turns, rest, low = _reduce(angle)
    value = _sine(rest, low) if turns & 1 else _cosine(rest, low)
    return -value if turns + 1 & 2 else value


def asin(value: float) -> float:
    """The arc sine of a value between 0 and 1; of one that rounding has lifted above 1, that of 1."""
    if value >= 1.0:
        return _HALF_PI
    if value > _SMALL:
        return atan2(value, sqrt((1.0 - value) * (1.0 + value)))
    square = value * value
    a, b, c, d, e, f, g = _ARC_SINE
    series = a + square * (b + square * (c + square * (d + square * (e + square * (f + square * g)))))
    return value + value * square * series


def atan2(y: float, x: float) -> float:
    """The angle of the point (x, y), between -pi and pi; 0 for (0, 0)."""
    across, along = abs(x), abs(y)
    if along > across:
        main, rest = _arc_tangent(across / along)
        angle = _HALF_PI - main + (_HALF_PI_REST - rest)
    else:
        main, rest = _arc_tangent(along / across) if across else (0.0, 0.0)
        angle = main + rest
    if x < 0.0:
        angle = PI - angle + 2 * _HALF_PI_REST
    return copysign(angle, y)


def _reduce(angle: float) -> tuple[int, float, float]:
    """Quarter turns, and what is left of the angle: between -pi/4 and pi/4, and what rounding has taken from it."""
    if -0.785 < angle < 0.785:
        return 0, angle, 0.0
    turns = round(angle * _QUARTER_TURNS_PER_RADIAN)
    near = angle - turns * _QUARTER_TURN
    far = turns * _QUARTER_TURN_REST
    rest = near - far
    return turns, rest, near - rest - far


def _sine(angle: float, low: float) -> float:
    square = angle * angle
    a, b, c, d, e, f, g = _SINE
    series = a + square * (b + square * (c + square * (d + square * (e + square * (f + square * g)))))
    return angle + (angle * square * series + low)


def _cosine(angle: float, low: float) -> float:
    square = angle * angle
    a, b, c, d, e, f, g = _COSINE
    series = a + square * (b + square * (c + square * (d + square * (e + square * (f + square * g)))))
    half = 0.5 * square
    near = 1.0 - half
    return near + (1.0 - near - half + (square * square * series - angle * low))


def _arc_tangent(slope: float) -> tuple[float, float]:
    """The arc tangent of a slope between 0 and 1, as a value and a much smaller one that belongs to it."""
    eighths = round(slope * 8.0)
    main, low = _EIGHTHS[eighths]
    point = eighths / 8.0
    rest = (slope - point) / (1.0 + slope * point) if eighths else slope
    square = rest * rest
    a, b, c, d, e, f = _ARC_TANGENT
    series = rest * square * (a + square * (b + square * (c + square * (d + square * (e + square * f)))))
    return (main, rest + (series + low)) if eighths else (rest, series)

"""Geohashes: the bits of latitude and longitude in turn.

    bits of a geohash of `step` 26, from the top    lon lat lon lat … (52 of them: what a score holds exactly)

A geohash of a smaller step is a cell of a coarser grid: its bits are the first ones of everything inside. The grid goes
from -180 to 180 degrees and, as the square map of the web does, from -85.05112878 to 85.05112878. Positions are
(longitude, latitude) in degrees. Source: https://valkey.io/commands/geoadd/; Niemeyer's geohash.org.
"""

from __future__ import annotations

from typing import Final, NamedTuple

LONGITUDE_MAX: Final = 180.0
LATITUDE_MAX: Final = 85.05112878
STEP_MAX: Final = 26

_POLE: Final = 90.0
_BITS: Final = 2 * STEP_MAX
_BITS_MAX: Final = (1 << _BITS) - 1
_CELLS: Final = 1 << STEP_MAX
_ALPHABET: Final = b"0123456789bcdefghjkmnpqrstuvwxyz"
_LETTERS: Final = 10
_U32: Final = 0xFFFFFFFF
_U64: Final = 0xFFFFFFFFFFFFFFFF
_SIGN: Final = 1 << 63

_LATITUDES: Final = 0x5555555555555555
_LONGITUDES: Final = 0xAAAAAAAAAAAAAAAA
_SPREADS: Final = ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333))
_GATHERS: Final = ((1, 0x3333333333333333), (2, 0x0F0F0F0F0F0F0F0F), (4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF))

Point = tuple[float, float]
"""Longitude and latitude, degrees."""


class Cell(NamedTuple):
    """A cell of the grid of `step`: 2^step cells wide and as many high."""

    bits: int
    step: int

    def neighbour(self, east: int, north: int) -> Cell:
        """The cell that is one further, or none or one back, in both directions; the grid goes on at the other end."""
        unused = 64 - 2 * self.step
        longitude, latitude = self.bits & _LONGITUDES, self.bits & _LATITUDES
        # A 1 that is added crosses the other coordinate's bits where these are all set.
        if east:
            others = _LATITUDES >> unused
            longitude = (longitude | others) - others - 1 if east < 0 else longitude + others + 1
            longitude &= _LONGITUDES >> unused
        if north:
            others = _LONGITUDES >> unused
            latitude = (latitude | others) - others - 1 if north < 0 else latitude + others + 1
            latitude &= _LATITUDES >> unused
        return Cell(longitude | latitude, self.step)

    def edges(self) -> tuple[float, float, float, float]:
        """West, south, east and north."""
        longitude, latitude = _gather(self.bits >> 1), _gather(self.bits)
        cells = 1 << self.step
        width, height = 2 * LONGITUDE_MAX, 2 * LATITUDE_MAX
        return (
            -LONGITUDE_MAX + longitude / cells * width,
            -LATITUDE_MAX + latitude / cells * height,
            -LONGITUDE_MAX + (longitude + 1 & _U32) / cells * width,
            -LATITUDE_MAX + (latitude + 1 & _U32) / cells * height,
        )

    def scores(self) -> tuple[float, float]:
        """The least score inside, and the least one behind it."""
        unused = _BITS - 2 * self.step
        return float(self.bits << unused), float(self.bits + 1 << unused)


def cell_at(position: Point, step: int, latitude_max: float = LATITUDE_MAX) -> Cell:
    """The cell with `position`, in a grid that ends at `latitude_max`."""
    longitude, latitude = position
    east = int((longitude + LONGITUDE_MAX) / (2 * LONGITUDE_MAX) * (1 << step))
    north = int((latitude + latitude_max) / (2 * latitude_max) * (1 << step))
    return Cell(_spread(east) << 1 | _spread(north), step)


def score_at(position: Point) -> float:
    """The score of a member at `position`."""
    return float(cell_at(position, STEP_MAX).bits)


def position_of(score: float) -> Point:
    """The middle of the cell that a score stands for. Any score stands for one, also those that GEOADD never gives."""
    bits = _to_u64(score)
    east, north = _gather(bits >> 1), _gather(bits)
    # `Cell.edges` written out: a search does this for each member that it looks at.
    longitude = (
        (east / _CELLS * (2 * LONGITUDE_MAX) - LONGITUDE_MAX)
        + ((east + 1 & _U32) / _CELLS * (2 * LONGITUDE_MAX) - LONGITUDE_MAX)
    ) / 2
    latitude = (
        (north / _CELLS * (2 * LATITUDE_MAX) - LATITUDE_MAX)
        + ((north + 1 & _U32) / _CELLS * (2 * LATITUDE_MAX) - LATITUDE_MAX)
    ) / 2
    if bits <= _BITS_MAX:
        return longitude, latitude
    return (
        max(-LONGITUDE_MAX, min(LONGITUDE_MAX, longitude)),
        max(-LATITUDE_MAX, min(LATITUDE_MAX, latitude)),
    )


def text_of(position: Point) -> bytes:
    """The eleven letters of geohash.org for `position`. That grid ends at the poles, so it is cut anew.

    A letter has 5 bits, and 52 are there: the last letter is always 0, as in Redis.
    """
    bits = cell_at(position, STEP_MAX, _POLE).bits
    letters = (bits >> _BITS - 5 * (at + 1) & 31 for at in range(_LETTERS))
    return bytes(_ALPHABET[letter] for letter in letters) + _ALPHABET[:1]


def _to_u64(score: float) -> int:
    """A double as x86-64 compilers convert it to 64 bits without a sign, whatever its range."""
    if score < _SIGN:
        return int(score) & _U64 if score >= -_SIGN else _SIGN
    return int(score) if score < 2.0 * _SIGN else 0


def _spread(number: int) -> int:
    """32 bits with a gap in front of each."""
    for shift, mask in _SPREADS:
        number = (number | number << shift) & mask
    return (number | number << 1) & _LATITUDES


def _gather(number: int) -> int:
    """Every other bit of 64, from the lowest on."""
    number &= _LATITUDES
    for shift, mask in _GATHERS:
        number = (number | number >> shift) & mask
    return (number | number >> 16) & _U32

"""SplitMix64: the published sequence, and draws that depend on their place in the log alone."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.values.splitmix import SplitMix64

REFERENCE_SEED = 1234567
REFERENCE = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]
"""The first integers that the reference implementation gives for REFERENCE_SEED."""

DRAWS = [
    ((0, 0, 1), 3400964856525257824),
    ((0, 0, 2), 12865742008072950574),
    ((0, 1, 1), 5067554077270220563),
    ((1, 0, 1), 7806873273932414515),
    ((3, (1 << 48) - 1, 7), 11786852670317416781),
    ((65535, (1 << 63) - 1, 1000000), 3378261575337027428),
]
"""(partition, offset, n) and its draw, computed by a C program on top of the reference implementation."""


def test_the_stream_is_the_published_one() -> None:
    """A stream gives the sequence of the reference implementation for the same seed."""
    stream = SplitMix64(REFERENCE_SEED)

    assert REFERENCE == [stream.next() for _ in REFERENCE]


@pytest.mark.parametrize(("place", "draw"), DRAWS)
def test_draws_never_change(place: tuple[int, int, int], draw: int) -> None:
    """A place in the log has one draw for ever: replay depends on it."""
    assert draw == SplitMix64.draw(*place)


@pytest.mark.parametrize(("place", "draw"), DRAWS)
def test_a_bounded_draw_is_the_upper_part_of_a_product(place: tuple[int, int, int], draw: int) -> None:
    """Below a small bound a draw is scaled down, not divided: its upper bits decide."""
    assert [draw * bound >> 64 for bound in (1, 10, 1000)] == [
        SplitMix64.below(*place, bound) for bound in (1, 10, 1000)
    ]


def test_neighbouring_places_share_no_draw() -> None:
    """Partitions, offsets and draws next to each other all have draws of their own."""
    places = [(partition, offset, n) for partition in range(16) for offset in range(64) for n in range(1, 17)]

    assert len(places) == len({SplitMix64.draw(*place) for place in places})


@pytest.mark.parametrize(
    ("n", "expected"), [(1, 3199813661979977447), (5, 3627757184824307401), (7, 10307149337332385770)]
)
def test_what_would_favour_a_value_is_rejected(n: int, expected: int) -> None:
    """Below 3 * 2**62 a quarter of all integers is rejected; the next one of the draw's stream takes their place."""
    assert expected == SplitMix64.below(0, 0, n, 3 << 62)


def test_bounded_draws_are_uniform() -> None:
    """Each of six values comes up as often as chance allows: chi-square of 60,000 draws under its 0.1 % limit, 20.5."""
    counts = Counter(SplitMix64.below(0, offset, 1, 6) for offset in range(60_000))

    assert sorted(counts) == [0, 1, 2, 3, 4, 5]
    assert sum((count - 10_000) ** 2 / 10_000 for count in counts.values()) < 20.5


def test_the_widest_bound_keeps_all_bits() -> None:
    """Below 2**64 a draw is the integer itself."""
    assert SplitMix64.draw(3, 5, 7) == SplitMix64.below(3, 5, 7, 1 << 64)


@pytest.mark.parametrize("bound", [-1, 0, (1 << 64) + 1])
def test_impossible_bounds_are_refused(bound: int) -> None:
    """There is no number below 0, and a draw has 64 bits."""
    with pytest.raises(ValueError, match="a bound of 1 to 2"):
        SplitMix64.below(0, 0, 1, bound)

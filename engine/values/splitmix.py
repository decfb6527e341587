"""SplitMix64, the engine's only source of randomness, seeded by the place in the log.

Nothing is drawn from the machine and no state is kept, so a replay, in whatever batch sizes, makes the same choices.
The numbers below take part in what commands leave in the store: a change of any of them is a change of the rules.

Source: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, with the constants
of S. Vigna's reference implementation, https://prng.di.unimi.it/splitmix64.c (public domain).
"""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_GAMMA: Final = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio, odd: the step from one state to the next
_MIX_1: Final = 0xBF58476D1CE4E5B9  # multipliers of variant 13 of D. Stafford's 64-bit mixers
_MIX_2: Final = 0x94D049BB133111EB


class SplitMix64:
    """A stream of 64-bit integers. `draw` and `below` open the one stream that belongs to a place in the log."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """The next integer of the stream, 0 <= integer < 2**64."""
        self._state = (self._state + _GAMMA) & _MASK
        return _mix(self._state)

    @staticmethod
    def draw(partition: int, offset: int, n: int) -> int:
        """The n-th draw of the record at `offset` of `partition`, 0 <= draw < 2**64."""
        return _stream(partition, offset, n).next()

    @staticmethod
    def below(partition: int, offset: int, n: int, bound: int) -> int:
        """The n-th draw of the record at `offset` of `partition`: uniform, 0 <= draw < bound.

        By multiplication, and rejection of the few integers that would favour some values: D. Lemire, "Fast Random
        Integer Generation in an Interval", ACM TOMACS 29 (1), 2019. A rejected integer is replaced by the next one of
        the same draw's stream, so draws never share integers.

        Raises:
            ValueError: `bound` is not in 1 ... 2**64.
        """
        if not 1 <= bound <= 1 << 64:
            raise ValueError(f"a bound of 1 to 2**64 is needed, not {bound}")
        stream = _stream(partition, offset, n)
        product = stream.next() * bound
        if product & _MASK < bound:  # always true of what must be rejected, and spares most draws the division
            rejected = (1 << 64) % bound
            while product & _MASK < rejected:
                product = stream.next() * bound
        return product >> 64


def _stream(partition: int, offset: int, n: int) -> SplitMix64:
    """The stream of one draw: bijections mix each coordinate in, so neighbours in the log have unlike seeds."""
    seed = _mix((partition + _GAMMA) & _MASK)
    seed = _mix(((seed ^ offset) + _GAMMA) & _MASK)
    return SplitMix64(seed ^ n)


def _mix(state: int) -> int:
    """The output function of SplitMix64: a bijection of 64-bit integers."""
    state = (state ^ (state >> 30)) * _MIX_1 & _MASK
    state = (state ^ (state >> 27)) * _MIX_2 & _MASK
    return state ^ (state >> 31)

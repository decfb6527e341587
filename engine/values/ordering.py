"""Sorts very many elements in pieces.

Python sorts in one step, in which nothing can be suspended: 200,000 weights of SORT take some 0.2 s. So the elements
are dealt out to pieces that follow one another, each of which is sorted by itself. What comes out is what `sorted`
gives, elements that compare as equal in the order in which they came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

_PIECE: Final = 10_000
_SAMPLES: Final = 16  # of a piece: so that pieces are of about one size

Element = TypeVar("Element")


def in_order(
    elements: Sequence[Element], key: Callable[[Element], Any], *, reverse: bool = False, piece: int = _PIECE
) -> list[Element]:
    """As `sorted`.

    Args:
        elements: any number of them.
        key: of an element; it is asked for twice.
        reverse: the largest key first.
        piece: about how many are sorted at once; more where they have one key, which takes next to no time.
    """
    if len(elements) <= 2 * piece:
        return sorted(elements, key=key, reverse=reverse)
    pieces = len(elements) // piece + 1
    sample = sorted([key(element) for element in elements[:: len(elements) // (pieces * _SAMPLES) or 1]])
    bounds = sample[_SAMPLES::_SAMPLES]
    dealt: list[list[Element]] = [[] for _ in range(len(bounds) + 1)]
    for element in elements:
        dealt[bisect_right(bounds, key(element))].append(element)
    if reverse:
        dealt.reverse()
    return [element for part in dealt for element in sorted(part, key=key, reverse=reverse)]

"""A failing sequence made small: without every step that it fails without."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def smallest(steps: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """The part of `steps` that still fails when no single step of it can be left out.

    Larger and larger parts are kept out first, then smaller ones: about 2 n log n runs at worst.
    """
    size = max(1, len(steps) // 2)
    while True:
        at, shorter = 0, False
        while at < len(steps):
            rest = steps[:at] + steps[at + size :]
            if rest and fails(rest):
                steps, shorter = rest, True
            else:
                at += size
        if size == 1 and not shorter:
            return steps
        size = max(1, size // 2)

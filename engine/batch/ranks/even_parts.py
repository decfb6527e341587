"""Cuts stretches of a sorted set into even parts, for engine/batch/ranks/rank_counts.py."""

from __future__ import annotations

from collections.abc import Iterable

Part = tuple[bytes, int]
"""The end of a stretch, and how many members it has."""


def even_size(total: int, count_max: int) -> int:
    """Members of an even part of `total`; the last part may have fewer."""
    return -(-total // max(total // max(count_max // 2, 1), 1))


def even_parts(children: Iterable[Part], total: int, count_max: int, end: bytes) -> list[Part]:
    """The ends and counts of even parts of `children` (ends and counts, ascending, `total` in all).

    They have more than half of `count_max`, the last one perhaps aside, and the last one ends at `end`.
    """
    wanted = even_size(total, count_max)
    parts: list[Part] = []
    count = 0
    for child_end, child_count in children:
        count += child_count
        if count >= wanted:
            parts.append((child_end, count))
            count = 0
    if count:
        parts.append((end, count))
    else:
        parts[-1] = end, parts[-1][1]
    return parts

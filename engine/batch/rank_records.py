"""Stored rank counts of a sorted set, and what of them is held in memory: for engine/batch/rank_counts.py."""

from __future__ import annotations

from engine.batch.overlaid import Scan, Subkeys
from engine.store.store import Get


class Stretches:
    """Stretches of a sorted set's score keys, in order: where each ends, and how many members it has."""

    __slots__ = ("counts", "ends")

    def __init__(self, ends: list[bytes], counts: list[int]) -> None:
        self.ends = ends
        self.counts = counts


class RankCounts(Subkeys):
    """The rank counts of a sorted set, and those that batch/rank_counts.py holds in memory, always in step.

    Attributes:
        groups: all of level 2, None when they are not held.
        blocks: end of a group -> its blocks, when they are held.
        holders: all sorted sets of the partition that hold some, and how many records they hold (roughly).
    """

    __slots__ = ("blocks", "groups", "holders")

    def __init__(
        self, column_family: str, get: Get, scan: Scan, prefix: bytes, holders: RankHolders, *, fresh: bool
    ) -> None:
        super().__init__(column_family, get, scan, prefix, fresh=fresh)
        self.groups: Stretches | None = None
        self.blocks: dict[bytes, Stretches] = {}
        self.holders = holders


class RankHolders:
    """The sorted sets of a partition that hold rank counts in memory."""

    __slots__ = ("records", "sets")

    def __init__(self) -> None:
        self.sets: list[RankCounts] = []
        self.records = 0

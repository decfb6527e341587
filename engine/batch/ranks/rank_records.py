"""Stored rank counts of a sorted set, and what of them is held in memory: for engine/batch/ranks/rank_counts.py."""

from __future__ import annotations

from typing import Protocol

from engine.batch.overlaid import Scan, Subkeys
from engine.store.store import Get


class Keys(Protocol):
    """Gives the first keys of a range of a column family: `Store.keys`."""

    def __call__(self, start: bytes, end: bytes, most: int) -> list[bytes]:
        """In order; damage may end it early."""
        ...


class Stretches:
    """Stretches of a sorted set's score keys, in order: where each ends, and how many members it has.

    Attributes:
        scores: of each the scores of its members, for engine/batch/ranks/rank_scores.py: as numbers of 8 bytes, in
            order; None where they are not held, as of all groups.
        totals: how many members each has together with those before it; None since a count has changed.
        heads, sums: for the hot path in C, which makes them (engine/native/stretches.c): `ends` and `totals`, packed.
    """

    __slots__ = ("counts", "ends", "heads", "scores", "sums", "totals")

    def __init__(self, ends: list[bytes], counts: list[int], scores: list[bytes | None]) -> None:
        self.ends = ends
        self.counts = counts
        self.scores = scores
        self.totals: list[int] | None = None
        self.heads: bytes | None = None
        self.sums: bytes | None = None

    def recount(self) -> None:
        """Forget what was made of counts: one has changed."""
        self.totals = self.sums = None

    def cut_anew(self) -> None:
        """Forget what was made of ends and counts: there are other stretches now."""
        self.totals = self.sums = self.heads = None


class RankCounts(Subkeys):
    """The rank counts of a sorted set, and those that batch/rank_counts.py holds in memory, always in step.

    Attributes:
        groups: all of level 2, None when they are not held.
        blocks: end of a group -> its blocks, when they are held.
        scores: of how many blocks the scores are held.
        holders: all sorted sets of the partition that hold some, and how much.
    """

    __slots__ = ("blocks", "groups", "holders", "scores")

    def __init__(
        self, column_family: str, get: Get, scan: Scan, prefix: bytes, holders: RankHolders, *, fresh: bool
    ) -> None:
        super().__init__(column_family, get, scan, prefix, fresh=fresh)
        self.groups: Stretches | None = None
        self.blocks: dict[bytes, Stretches] = {}
        self.scores = 0
        self.holders = holders


class RankHolders:
    """The sorted sets of a partition that hold rank counts in memory.

    Args:
        keys: reads stored score keys.
        records_max, scored_max: when there are more, all of them forget what they hold.

    Attributes:
        keys, records_max, scored_max: as above.
        records: how many counts they hold (roughly).
        scored: of how many blocks they hold the scores.
    """

    __slots__ = ("keys", "records", "records_max", "scored", "scored_max", "sets")

    def __init__(self, keys: Keys, records_max: int, scored_max: int) -> None:
        self.keys = keys
        self.records_max, self.scored_max = records_max, scored_max
        self.sets: list[RankCounts] = []
        self.records = self.scored = 0

    def forget(self) -> None:
        """Let all of them hold nothing."""
        for each in self.sets:
            each.groups = None
            each.blocks = {}
            each.scores = 0
        self.sets = []
        self.records = self.scored = 0

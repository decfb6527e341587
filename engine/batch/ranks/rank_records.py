"""Stored rank counts of a sorted set, and what of them is held in memory: for engine/batch/ranks/rank_counts.py."""

from __future__ import annotations

from typing import Final, Protocol

from engine.batch.overlaid import Scan, Subkeys
from engine.store.store import Get

COUNT_BYTES: Final = 160
"""Of a rank count: 64 its end, 28 its place in three lists, 10 its number, as many are small; 42 its total, which
Python searches, and 16 the packed head and sum, which C does."""

SCORES_BYTES: Final = 1232
"""Of the scores of a rank block, at most."""

OBJECT_BYTES: Final = 49
"""What a piece of memory takes beside its bytes: as in engine/native/members.c."""


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
        members: for the hot path in C, too (engine/native/members.c): of each its members, packed, where its scores are
            held; True, where a range was asked for once; False, where they are too long; None of all others.
    """

    __slots__ = ("counts", "ends", "heads", "members", "scores", "sums", "totals")

    def __init__(
        self,
        ends: list[bytes],
        counts: list[int],
        scores: list[bytes | None],
        members: list[bytes | bool | None] | None = None,
    ) -> None:
        self.ends = ends
        self.counts = counts
        self.scores = scores
        self.members: list[bytes | bool | None] = [None] * len(ends) if members is None else members
        self.totals: list[int] | None = None
        self.heads: bytes | None = None
        self.sums: bytes | None = None

    def part(self, which: slice) -> Stretches:
        """Some of them, as new ones."""
        return Stretches(self.ends[which], self.counts[which], self.scores[which], self.members[which])

    def put_before(self, lower: Stretches) -> None:
        """Add others in front."""
        self.ends[:0], self.counts[:0] = lower.ends, lower.counts
        self.scores[:0], self.members[:0] = lower.scores, lower.members

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
        bytes_max: what members may take together with those.

    Attributes:
        keys, records_max, scored_max, bytes_max: as above.
        records: how many counts they hold (roughly).
        scored: of how many blocks they hold the scores.
        member_bytes: what the members of blocks take.
        refused: how often since they were forgotten a block's members had no room.
    """

    __slots__ = (
        "bytes_max", "keys", "member_bytes", "records", "records_max", "refused", "scored", "scored_max", "sets",
    )  # fmt: skip

    def __init__(self, keys: Keys, records_max: int, scored_max: int, bytes_max: int = 0) -> None:
        self.keys = keys
        self.records_max, self.scored_max, self.bytes_max = records_max, scored_max, bytes_max
        self.sets: list[RankCounts] = []
        self.records = self.scored = self.member_bytes = self.refused = 0

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        return self.records * COUNT_BYTES + self.scored * SCORES_BYTES + self.member_bytes

    def cut(self) -> None:
        """Forget what is too much."""
        if self.records > self.records_max or self.scored > self.scored_max:
            self.forget()
        self.cut_members()

    def cut_members(self) -> None:
        """Forget the members when they take more than the others leave."""
        if self.member_bytes and self.bytes > self.bytes_max:
            self.forget_members()

    def forget(self) -> None:
        """Let all of them hold nothing."""
        for each in self.sets:
            each.groups = None
            each.blocks = {}
            each.scores = 0
        self.sets = []
        self.records = self.scored = self.member_bytes = self.refused = 0

    def forget_members(self) -> None:
        """Of all blocks."""
        for each in self.sets:
            for blocks in each.blocks.values():
                blocks.members = [None] * len(blocks.ends)
        self.member_bytes = self.refused = 0

    def drop_members(self, blocks: Stretches, at: int) -> None:
        """Of a block that has changed."""
        held = blocks.members[at]
        if isinstance(held, bytes):
            self.member_bytes -= len(held) + OBJECT_BYTES
        blocks.members[at] = None

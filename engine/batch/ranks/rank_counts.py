"""The rank counts of a large sorted set: numbers of members for ranges of score keys, in two levels.

    [level:1][end] -> [count:8]      level 1: blocks, level 2: groups of them

A block is the stretch of score keys from the end of the block before it, or from the beginning, up to but without its
own end. The last end is `END`, above every score key; the end of a group is that of its last block. So the members
before a score key are those of the groups and then of the blocks whose ends are not above it, and those of one block
whose scores are below its own (engine/batch/ranks/rank_scores.py); and the block of a score key is the first one whose
end is above it: one seek.

A block of too many members is split evenly, a group too. Two neighbours become one when one falls below a quarter of
that and the other is already; an empty one joins any. So no count is 0, and a set that shrinks keeps no more records
than its members are worth. All of this follows from the sequence of commands alone, never from batches. Costs:
docs/rank-index.md.

What is read of them stays in memory, decoded, for as long as the key does: all groups of a set, of blocks those of the
groups that were asked for, up to `HELD_MAX` in a partition, scores of up to `SCORED_MAX` blocks, and members of some.
In RocksDB's memtable a count takes the place of the one before it: see `counters` in engine/store/rocks.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable
from itertools import accumulate
from math import isqrt
from typing import Final

from engine.batch.ranks import rank_scores
from engine.batch.ranks.even_parts import Part, even_parts, even_size
from engine.batch.ranks.rank_records import RankCounts, Stretches
from engine.batch.ranks.rank_scores import Walk, moved
from engine.errors import CorruptionError
from engine.layouts.layout import Form
from engine.values.encoding import U64, pack_u64
from slotlog.shared.errors import InvariantError

PLAIN_SIZE_MAX: Final = 512
"""Up to this many members a sorted set has no counts: walking it takes as long as the seeks do."""

BLOCK_MAX: Final = 128
GROUP_MAX: Final = 1024
"""Members of a block, and of a group: larger ones are split. In a large set groups are larger: see `_count_max`."""

HELD_MAX: Final = 32_768
"""Records that are held in memory, some 130 bytes each: beyond it all are forgotten, and read again when needed.

Fewer where memory is short: see `engine.batch.in_memory.memory.rank_limits`.
"""

SCORED_MAX: Final = 24_576
"""Blocks whose scores are held in memory, at most 1.2 KiB each, or fewer: beyond it they are forgotten with the counts.

Sets of 2.1 million members in all, as random additions leave 88 in a block, and of 1.5 million that came in order.
"""

AHEAD_BLOCKS: Final = 16
"""So many blocks of a group are read together, once so many of a set's are held, and one in `AHEAD_SHARE` of them."""

AHEAD_SHARE: Final = 64

END: Final = b"\xff\xff"
"""Above every score key: the highest score, infinity, begins with fff0."""

BLOCK: Final = b"\x01"
GROUP: Final = b"\x02"

_parse = U64.unpack


def is_counted(size: int, forms: Container[Form]) -> bool:
    """Whether a sorted set that grows to so many members gets counts, in a layout that has these forms."""
    return size > PLAIN_SIZE_MAX and Form.RANK_COUNTS in forms


def after(score_key: bytes) -> bytes:
    """The smallest score key above `score_key`: the end of a block whose last one this is."""
    return score_key + b"\0"


# ----------------------------------------------------------------------------------------------------------- reading


def place(ranks: RankCounts, score_key: bytes, walk: Walk, *, is_there: bool) -> int:
    """How many members are below `score_key`; `is_there`: it is that of a member.

    Raises:
        CorruptionError: its block has other score records than counts.
    """
    groups = _groups(ranks)
    at = bisect_right(groups.ends, score_key)
    blocks = _blocks(ranks, groups, at)
    block = bisect_right(blocks.ends, score_key)
    start = _start(groups, at, blocks, block)
    _read_ahead(ranks, groups, at, blocks, block, walk)
    scores = rank_scores.scores_of(ranks, blocks, block, start, walk)
    inside = rank_scores.place(scores, start, score_key, walk, is_there=is_there)
    return _before(groups, at) + _before(blocks, block) + inside


def find(ranks: RankCounts, rank: int, walk: Walk) -> tuple[bytes, int]:
    """Find the member at `rank`: where to begin a walk to it, and how many members to pass.

    Raises:
        CorruptionError: its block has other score records than counts.
    """
    groups = _groups(ranks)
    at, rank = _locate(groups, rank)
    blocks = _blocks(ranks, groups, at)
    block, rank = _locate(blocks, rank)
    start = _start(groups, at, blocks, block)
    _read_ahead(ranks, groups, at, blocks, block, walk)
    scores = rank_scores.scores_of(ranks, blocks, block, start, walk)
    return rank_scores.start_of(scores, start, rank)


# ----------------------------------------------------------------------------------------------------------- writing


def build(ranks: RankCounts, score_keys: Iterable[bytes], size: int) -> None:
    """Write the counts of a set that has none yet; `score_keys` are all its `size` score keys in order."""
    blocks = even_parts(((after(score_key), 1) for score_key in score_keys), size, BLOCK_MAX, END)
    groups = even_parts(blocks, size, _count_max(GROUP, size), END)
    for level, parts in ((BLOCK, blocks), (GROUP, groups)):
        for end, count in parts:
            ranks.put(level + end, pack_u64(count))


def update(ranks: RankCounts, changes: dict[bytes, int], size: int, walk: Walk) -> None:
    """Count score keys in (1) and out (-1) that have just been written and deleted; `size`, not 0, is what is left.

    `walk` sees the set as it is now.
    """
    groups = _groups(ranks)
    group_max = _count_max(GROUP, size)
    old_groups: dict[bytes, int] = {}
    old_blocks: dict[bytes, int] = {}
    if _add(ranks, groups, changes, group_max, old_groups, old_blocks):
        _tidy(ranks, groups, group_max, old_groups, old_blocks, walk)


def check_total(ranks: RankCounts, size: int) -> None:
    """Hold the groups in memory, some 150 of 10^6 members, against the size of the set, once in a batch.

    Raises:
        InvariantError: they have other members in all.
    """
    if ranks.groups is not None and sum(ranks.groups.counts) != size:
        raise InvariantError(f"a zset of size {size} has rank counts of {sum(ranks.groups.counts)} members")


def clear(ranks: RankCounts) -> None:
    """Delete all counts: of a set whose last members are gone, as one without subkeys leaves no grave."""
    for record, _ in list(ranks.scan()):
        ranks.remove(record)


def _tidy(
    ranks: RankCounts,
    groups: Stretches,
    group_max: int,
    old_groups: dict[bytes, int],
    old_blocks: dict[bytes, int],
    walk: Walk,
) -> None:
    """Split what is too large now, join what is small, given the ends and old counts of what has changed."""
    for end in old_blocks:
        blocks, at = _find_block(ranks, groups, end)
        if blocks.counts[at] > BLOCK_MAX:
            start = _start(groups, bisect_left(groups.ends, end), blocks, at)
            _split_block(ranks, blocks, at, start, walk)
    for end in old_groups:
        at = bisect_left(groups.ends, end)
        if groups.counts[at] > group_max:
            _split_group(ranks, groups, at, group_max)
    # Groups first: afterwards no empty block is alone in its group, which would be empty.
    for end, old in old_groups.items():
        at = bisect_left(groups.ends, end)
        if groups.ends[at] == end and _shrank(old, groups.counts[at], group_max):
            _join(ranks, GROUP, groups, at, group_max)
    for end, old in old_blocks.items():
        blocks, at = _find_block(ranks, groups, end)
        if blocks.ends[at] == end and _shrank(old, blocks.counts[at], BLOCK_MAX):
            _join(ranks, BLOCK, blocks, at, BLOCK_MAX)


# ------------------------------------------------------------------------------------------------- what is in memory


def _groups(ranks: RankCounts) -> Stretches:
    """The groups. What is held is cut down here alone, before a verb has looked at any of it."""
    holders = ranks.holders
    holders.cut()
    if ranks.groups is None:
        ranks.groups = _load(ranks, GROUP, b"", END)
        holders.sets.append(ranks)
    return ranks.groups


def _blocks(ranks: RankCounts, groups: Stretches, at: int) -> Stretches:
    """The blocks of a group."""
    end = groups.ends[at]
    blocks = ranks.blocks.get(end)
    if blocks is None:
        blocks = _load(ranks, BLOCK, groups.ends[at - 1] if at else b"", end)
        if sum(blocks.counts) != groups.counts[at]:
            raise CorruptionError("the rank counts of a sorted set contradict each other")
        ranks.blocks[end] = blocks
    return blocks


def _load(ranks: RankCounts, level: bytes, start: bytes, end: bytes) -> Stretches:
    """The stretches of a level that end above `start`, the last of them at `end`."""
    records = list(ranks.scan(level + start + b"\0", level + end + b"\0"))
    if not records or records[-1][0] != level + end:
        raise CorruptionError("a sorted set lacks rank counts")
    ranks.holders.records += len(records)
    ends, counts = [record[1:] for record, _ in records], [_parse(packed)[0] for _, packed in records]
    return Stretches(ends, counts, [None] * len(ends))


def _read_ahead(ranks: RankCounts, groups: Stretches, at: int, blocks: Stretches, block: int, walk: Walk) -> None:
    """Read the scores of a block with those around it, if it looks as if all of the set are asked for.

    A block by itself has a seek of its own. A set that does not fit into memory has each read for itself: most of a row
    would be forgotten before anyone asks for it.
    """
    held, of_set = ranks.scores, len(groups.ends) * len(blocks.ends)  # about
    if (
        blocks.scores[block] is not None
        or held < max(AHEAD_BLOCKS, of_set // AHEAD_SHARE)
        or of_set > ranks.holders.scored_max * 3 // 4
    ):
        return
    first = block - block % AHEAD_BLOCKS
    rank_scores.read(ranks, blocks, first, first + AHEAD_BLOCKS, _start(groups, at, blocks, first), walk)


def _find_block(ranks: RankCounts, groups: Stretches, end: bytes) -> tuple[Stretches, int]:
    """The blocks among which the one with this end is, or was, and its place there."""
    blocks = _blocks(ranks, groups, bisect_left(groups.ends, end))
    return blocks, bisect_left(blocks.ends, end)


def _start(groups: Stretches, at: int, blocks: Stretches, block: int) -> bytes:
    """Where a block of a group begins."""
    if block:
        return blocks.ends[block - 1]
    return groups.ends[at - 1] if at else b""


def _locate(stretches: Stretches, rank: int) -> tuple[int, int]:
    """The stretch that has the member at `rank`, and how many of the stretch are before it."""
    at = bisect_right(_totals(stretches), rank)
    return at, rank - _before(stretches, at)


def _before(stretches: Stretches, at: int) -> int:
    """How many members are in the stretches before the one at `at`."""
    return _totals(stretches)[at - 1] if at else 0


def _totals(stretches: Stretches) -> list[int]:
    totals = stretches.totals
    if totals is None:
        totals = stretches.totals = list(accumulate(stretches.counts))
    return totals


# ------------------------------------------------------------------------------------------- stretches that change


def _count_max(level: bytes, size: int) -> int:
    """Members of a block or a group, at most, in a set of `size` members: as many groups as each has blocks."""
    return BLOCK_MAX if level == BLOCK else max(GROUP_MAX, isqrt(size * BLOCK_MAX))


def _shrank(old: int, new: int, count_max: int) -> bool:
    """Whether a stretch is so small now, and was not, that it may have to be joined with another one."""
    return new < count_max // 4 <= old or not new


def _add(
    ranks: RankCounts,
    groups: Stretches,
    changes: dict[bytes, int],
    group_max: int,
    old_groups: dict[bytes, int],
    old_blocks: dict[bytes, int],
) -> bool:
    """Add the changes to the counts, and note the ends and old counts of what changes. Whether `_tidy` is needed."""
    uneven = False
    group_ends, group_counts, changed = groups.ends, groups.counts, ranks.changed
    groups.recount()
    for score_key in sorted(changes) if len(changes) > 1 else changes:
        at = bisect_right(group_ends, score_key)
        group = group_ends[at]
        blocks = ranks.blocks.get(group) or _blocks(ranks, groups, at)
        number = bisect_right(blocks.ends, score_key)
        block = blocks.ends[number]
        in_group, in_block = group_counts[at], blocks.counts[number]
        old_groups.setdefault(group, in_group)
        old_blocks.setdefault(block, in_block)
        change = changes[score_key]
        group_counts[at] = new_group = in_group + change
        blocks.counts[number] = new_block = in_block + change
        blocks.recount()
        if (held := blocks.scores[number]) is not None:
            blocks.scores[number] = moved(held, score_key, change)
            if blocks.members[number] is not None:
                ranks.holders.drop_members(blocks, number)
        if change < 0 and not 0 <= new_block <= new_group:
            raise InvariantError(f"a group of {new_group} members has a block of {new_block}")
        changed[BLOCK + block] = pack_u64(new_block)
        changed[GROUP + group] = pack_u64(new_group)
        if change > 0:
            uneven = uneven or new_block > BLOCK_MAX or new_group > group_max
        elif not uneven:
            uneven = _shrank(in_block, new_block, BLOCK_MAX) or _shrank(in_group, new_group, group_max)
    return uneven


def _split_block(ranks: RankCounts, blocks: Stretches, at: int, start: bytes, walk: Walk) -> None:
    """Split a block, which begins at `start`, evenly.

    Where its scores are in memory, only the score keys are read behind which it is split: 15 us instead of 90.
    """
    end, count, scores = blocks.ends[at], blocks.counts[at], blocks.scores[at]
    if scores is None:
        score_keys = list(walk(start, end, count=count))
        if len(score_keys) != count:
            raise CorruptionError("a sorted set has other score records than its rank counts say")
        scores = rank_scores.parsed(score_keys)
        parts = even_parts(((after(each), 1) for each in score_keys), count, BLOCK_MAX, end)
    else:
        size, known = even_size(count, BLOCK_MAX), rank_scores.scores_of(ranks, blocks, at, start, walk)
        last = range(size - 1, count - 1, size)
        parts = [(after(rank_scores.score_key_at(known, start, end, each, walk)), size) for each in last]
        parts.append((end, count - size * len(parts)))
    _replace(ranks, BLOCK, blocks, at, parts)
    rank_scores.hold(ranks, blocks, at, at + len(parts), scores)


def _split_group(ranks: RankCounts, groups: Stretches, at: int, group_max: int) -> None:
    """Split a group between blocks."""
    end, count, blocks = groups.ends[at], groups.counts[at], _blocks(ranks, groups, at)
    parts = even_parts(zip(blocks.ends, blocks.counts, strict=True), count, group_max, end)
    start = 0
    for part_end, _ in parts:
        stop = bisect_right(blocks.ends, part_end)
        ranks.blocks[part_end] = blocks.part(slice(start, stop))
        start = stop
    _replace(ranks, GROUP, groups, at, parts)


def _replace(ranks: RankCounts, level: bytes, stretches: Stretches, at: int, parts: list[Part]) -> None:
    """Put the parts of a stretch in its place."""
    rank_scores.forget(ranks, stretches, at)
    stretches.cut_anew()
    ranks.holders.records += len(parts) - 1
    stretches.ends[at : at + 1] = [end for end, _ in parts]
    stretches.counts[at : at + 1] = [count for _, count in parts]
    stretches.scores[at : at + 1] = [None] * len(parts)
    stretches.members[at : at + 1] = [None] * len(parts)
    for end, count in parts:
        ranks.put(level + end, pack_u64(count))


def _join(ranks: RankCounts, level: bytes, stretches: Stretches, at: int, count_max: int) -> None:
    """Join a stretch with its neighbours, as long as it is small and they are too; an empty one with any."""
    counts, small = stretches.counts, max(count_max // 4, 1)
    stretches.cut_anew()
    while counts[at] < small:
        if at > 0 and (not counts[at] or counts[at - 1] < small):
            at -= 1
        elif at + 1 == len(counts) or (counts[at] and counts[at + 1] >= small):
            return
        # Now it is the stretch at `at` that becomes a part of the next one.
        if level == GROUP:
            lower, upper = _blocks(ranks, stretches, at), _blocks(ranks, stretches, at + 1)
            upper.put_before(lower)
            upper.cut_anew()
            del ranks.blocks[stretches.ends[at]]
        rank_scores.forget(ranks, stretches, at)
        rank_scores.forget(ranks, stretches, at + 1)
        ranks.holders.records -= 1
        ranks.remove(level + stretches.ends[at])
        counts[at + 1] += counts[at]
        del stretches.ends[at], counts[at], stretches.scores[at], stretches.members[at]
        ranks.put(level + stretches.ends[at], pack_u64(counts[at]))

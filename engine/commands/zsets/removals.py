"""Commands that delete a range of a sorted set. Source: https://valkey.io/commands/#sorted-set.

In a complexity, n is the size of the set: see docs/rank-index.md.
"""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.registry import command
from engine.commands.zsets.ranges import member_range, parse_ranks, rank_range, score_range
from engine.model import ZSET
from engine.types.zset import zset_members, zset_ranges, zsets
from engine.values.replies import Reply


@command(
    "ZREMRANGEBYRANK key start stop",
    group="sorted-set",
    since="2.0.0",
    complexity="O(√n + members deleted)",
    write=True,
    access="RW delete",
    notifies="zremrangebyrank",
)
def zremrangebyrank(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete a range of members by rank, from the lowest score. Returns how many.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZREMRANGEBYRANK z 0 -2
    (integer) 2
    > ZRANGE z 0 -1
    1) "c"
    """
    first, last = parse_ranks(args[1], args[2])
    key = tx.find_typed(args[0], ZSET)
    if key is None:
        return 0
    first, last = rank_range(key, first, last)
    if first > last:
        return 0
    return zsets.remove_found(tx, key, list(zset_ranges.scan_ranks(tx, key, first, last)))


@command(
    "ZREMRANGEBYSCORE key min max",
    group="sorted-set",
    since="1.2.0",
    complexity="O(members deleted)",
    write=True,
    access="RW delete",
    notifies="zremrangebyscore",
)
def zremrangebyscore(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete a range of members by score; a bound after `(` is excluded. Returns how many.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZREMRANGEBYSCORE z -inf (3
    (integer) 2
    """
    start, end = score_range(args[1], args[2])
    key = tx.find_typed(args[0], ZSET)
    return 0 if key is None else zsets.remove_found(tx, key, list(zsets.scan(tx, key, start, end)))


@command(
    "ZREMRANGEBYLEX key min max",
    group="sorted-set",
    since="2.8.9",
    complexity="O(members deleted) where all have one score, else O(n)",
    write=True,
    access="RW delete",
    notifies="zremrangebylex",
)
def zremrangebylex(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete a range of members in byte order, where all have the same score. Returns how many.

    > ZADD z 0 "a" 0 "b" 0 "c"
    (integer) 3
    > ZREMRANGEBYLEX z [b +
    (integer) 2
    """
    start, end = member_range(args[1], args[2])
    key = tx.find_typed(args[0], ZSET)
    return 0 if key is None else zsets.remove_found(tx, key, list(zset_members.scan(tx, key, start, end)))

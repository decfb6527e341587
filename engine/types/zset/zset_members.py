"""Ranges of a sorted set's members by their bytes, as BYLEX asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, dropwhile, islice, takewhile

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.types.zset import zset_ranges, zsets
from engine.types.zset.zsets import SCORE_BYTES
from engine.values.encoding import prefix_end


def scan(
    tx: Transaction, key: Key, start: bytes, end: bytes | None, *, offset: int = 0, reverse: bool = False
) -> Iterable[bytes]:
    """The score keys whose members have `start <= member < end` (None: no end), less the first `offset` of them.

    That order is the set's only where all scores are equal. With different scores Redis leaves the result open; here it
    is then what Redis has for a small set (a listpack): a walk from one end that begins and stops at a bound.
    """
    lowest, highest = next(zsets.scan(tx, key)), next(zsets.scan(tx, key, reverse=True))
    score = lowest[:SCORE_BYTES]
    if score == highest[:SCORE_BYTES]:
        stop = prefix_end(score) if end is None else score + end
        return zset_ranges.scan_from(tx, key, score + start, stop, offset=offset, reverse=reverse)

    def is_late(score_key: bytes) -> bool:
        return score_key[SCORE_BYTES:] >= start

    def is_early(score_key: bytes) -> bool:
        return end is None or score_key[SCORE_BYTES:] < end

    if not is_late(highest) or not is_early(lowest):
        return iter(())
    begins, goes_on = (is_early, is_late) if reverse else (is_late, is_early)
    walk = dropwhile(lambda score_key: not begins(score_key), zsets.scan(tx, key, reverse=reverse))
    found = next(walk, None)
    if found is None or not goes_on(found):
        return iter(())
    return takewhile(goes_on, islice(chain((found,), walk), offset, None))


def count(tx: Transaction, key: Key, start: bytes, end: bytes | None) -> int:
    """How many score keys `scan` would give."""
    lowest, highest = next(zsets.scan(tx, key)), next(zsets.scan(tx, key, reverse=True))
    score = lowest[:SCORE_BYTES]
    if score != highest[:SCORE_BYTES]:
        return sum(1 for _ in scan(tx, key, start, end))
    return zsets.count(tx, key, score + start, prefix_end(score) if end is None else score + end)

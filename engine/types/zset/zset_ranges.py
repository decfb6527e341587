"""Ranges of sorted sets: score keys by rank, and those behind a place in the order.

Of a large set a few are taken at once, without a generator for each step: a ZRANGE of 10 members took 17.6 us, and
takes 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.ranks import rank_counts
from engine.batch.ranks.rank_counts import after
from engine.batch.ranks.rank_records import RankCounts
from engine.batch.transaction import Transaction
from engine.types.zset import zsets

# Up to this many members are walked though there are counts: it is quicker than to look those up.
_WALKED_MAX: Final = 16

_FEW_MAX: Final = 64  # score keys that are held together, and not given one by one


def scan_from(
    tx: Transaction, key: Key, start: bytes, end: bytes | None, *, offset: int, limit: int = -1, reverse: bool = False
) -> Iterable[bytes]:
    """As `zsets.scan`, without the first `offset` (at least 0), and at most `limit` of the others; below 0: all."""
    if not reverse and 0 <= limit <= _FEW_MAX and offset <= _WALKED_MAX:
        return _some(tx, key, start, rank_counts.END if end is None else end, offset + limit)[offset:]
    found = _scan_from(tx, key, start, end, offset=offset, reverse=reverse)
    return found if limit < 0 else islice(found, limit)


def _scan_from(
    tx: Transaction, key: Key, start: bytes, end: bytes | None, *, offset: int, reverse: bool
) -> Iterator[bytes]:
    if key.ranks is None or offset <= _WALKED_MAX:
        return islice(zsets.scan(tx, key, start, end, reverse=reverse), offset, None)
    if reverse:
        last = (key.size if end is None else zsets.position(tx, key, end)) - 1 - offset
        return zsets.scan(tx, key, start, after(zsets.at(tx, key, last)), reverse=True) if last >= 0 else iter(())
    first = zsets.position(tx, key, start) + offset
    return zsets.scan(tx, key, zsets.at(tx, key, first), end) if first < key.size else iter(())


def scan_ranks(tx: Transaction, key: Key, first: int, last: int, *, reverse: bool = False) -> Iterable[bytes]:
    """The score keys of the ranks `first … last`, where 0 <= first <= last < size.

    With `reverse`, ranks count from the high end. Without counts it walks from the end that is nearer. It never holds
    more of them than a set without counts has.

    Raises:
        CorruptionError: there are fewer than the counts say.
    """
    skipped, behind = key.size - 1 - last, key.size - first
    if key.ranks is not None and last - first < _FEW_MAX:
        found = _few_ranks(tx, key, key.ranks, skipped if reverse else first, last + 1 - first)
        return reversed(found) if reverse else found
    if first <= (skipped if key.ranks is None else _WALKED_MAX):
        return islice(zsets.scan(tx, key, reverse=reverse), first, last + 1)
    if key.ranks is None or behind <= _WALKED_MAX:
        others = list(islice(zsets.scan(tx, key, reverse=not reverse), skipped, behind))
        return reversed(others)
    if reverse:
        return islice(zsets.scan(tx, key, end=zsets.at(tx, key, behind), reverse=True), last + 1 - first)
    return islice(zsets.scan(tx, key, zsets.at(tx, key, first)), last + 1 - first)


def _few_ranks(tx: Transaction, key: Key, ranks: RankCounts, first: int, wanted: int) -> list[bytes]:
    """The score keys of the ranks from `first` on, all of them at once."""
    start, skipped = (
        (b"", first) if first <= _WALKED_MAX else rank_counts.find(ranks, first, partial(zsets.walk, tx, key))
    )
    found = _some(tx, key, start, rank_counts.END, skipped + wanted)
    if len(found) < skipped + wanted:
        raise zsets.lacks_records(key)
    return found[skipped:] if skipped else found


def _some(tx: Transaction, key: Key, start: bytes, end: bytes, most: int) -> list[bytes]:
    """The first `most` of `zsets.scan`: quicker in a large set that the batch has not changed."""
    scores = key.scores
    if key.ranks is not None and not scores.changed and not scores.fresh:
        first, last = max(start, tx.floors.get(key.version, start)), min(end, tx.ceilings.get(key.version, end))
        prefix = scores.prefix
        found = key.ranks.holders.keys(prefix + first, prefix + last, most)
        if len(found) == most:
            return list(map(itemgetter(slice(len(prefix), None)), found))
    return list(islice(zsets.scan(tx, key, start, end), most))

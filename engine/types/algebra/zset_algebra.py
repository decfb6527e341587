"""Unions, intersections and differences of sorted sets. Members of plain sets have the score 1.

Scores are combined from the smallest source to the largest, as Redis does: sums of fractions depend on the order. What
is no number (inf - inf, 0 * inf) counts as 0. What comes is a stream, of which memory holds no more than a few thousand
members. It goes on reading what the sources held even when a new collection takes the place of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.overlaid import Records
from engine.batch.transaction import Transaction
from engine.model import SET
from engine.types.algebra import set_algebra
from engine.types.zset import zsets
from engine.values.encoding import pack_score, parse_score
from engine.values.ordering import in_order

Scores = Iterator[tuple[bytes, float]]
"""Members, all different, and their scores."""

Aggregate = Callable[[float, float], float]

_SET_SCORE: Final = 1.0
_member = itemgetter(0)
_score_then_member = itemgetter(1, 0)


class WeightedSource(NamedTuple):
    """A set or sorted set as a source of members, with its weight."""

    members: set_algebra.Source
    is_set: bool
    weight: float


def source(key: Key, weight: float = 1.0) -> WeightedSource:
    """What `key`, a set or a sorted set, holds now."""
    return WeightedSource(set_algebra.Source(key.data, key.count()), key.type == SET, weight)


def add(first: float, second: float) -> float:
    """The sum, 0 when it is no number."""
    return _number(first + second)


def union(sources: list[WeightedSource], aggregate: Aggregate) -> Scores:
    """The members that any of the sources has, with their scores in all of them combined."""
    by_size = _by_size(sources)
    if sum(map(_size, sources)) > set_algebra.MERGED_FROM:
        return _merged(by_size, aggregate)
    found: dict[bytes, float] = {}
    for each in by_size:
        for member, score in _weighted(each, each.members.data.scan()):
            found[member] = aggregate(found[member], score) if member in found else score
    return iter(found.items())


def intersection(sources: list[WeightedSource], aggregate: Aggregate) -> Scores:
    """The members that all of the sources (at least one) have, with their scores in them combined."""
    smallest, *others = _by_size(sources)
    gets = set_algebra.getters([each.members for each in others], smallest.members.size)
    for member, score in _weighted(smallest, smallest.members.data.scan()):
        combined = score
        for each, get in zip(others, gets, strict=True):
            packed = get(member)
            if packed is None:
                break
            combined = aggregate(combined, _weigh(each, packed))
        else:
            yield member, combined


def difference(first: WeightedSource, others: list[WeightedSource]) -> Scores:
    """The members of `first` that none of the others has, with their scores."""
    gets = set_algebra.getters([each.members for each in others], first.members.size)
    weighted = _weighted(first, first.members.data.scan())
    return ((member, score) for member, score in weighted if all(get(member) is None for get in gets))


def ordered(found: Iterable[tuple[bytes, float]]) -> list[tuple[bytes, float]]:
    """Members and scores in the order of a sorted set."""
    return in_order(list(found), _score_then_member)


def store(tx: Transaction, name: bytes, found: Scores) -> int:
    """A sorted set of `found` in the place of whatever `name` held; nothing when it is empty. Returns its size."""
    return zsets.store(tx, name, ((pack_score(score), member) for member, score in found))


def _by_size(sources: list[WeightedSource]) -> list[WeightedSource]:
    return sorted(sources, key=_size)


def _size(each: WeightedSource) -> int:
    return each.members.size


def _merged(by_size: list[WeightedSource], aggregate: Aggregate) -> Scores:
    """The union in the order of the members. Equal ones come in the order of their sources, as the merge is stable."""
    scans = set_algebra.scans([each.members for each in by_size])
    streams = map(_weighted, by_size, scans)
    for member, scored in groupby(merge(*streams, key=_member), _member):
        yield member, reduce(aggregate, [score for _, score in scored])


def _weighted(each: WeightedSource, records: Records) -> Scores:
    """The members of a source, which are `records`, with their scores times its weight."""
    weight = each.weight
    if each.is_set:
        score = _number(weight * _SET_SCORE)
        return ((member, score) for member, _ in records)
    if weight == 1:
        return ((member, parse_score(packed)) for member, packed in records)
    return ((member, _number(weight * parse_score(packed))) for member, packed in records)


def _weigh(each: WeightedSource, packed: bytes) -> float:
    """A member's score times the weight of its source."""
    return _number(each.weight * (_SET_SCORE if each.is_set else parse_score(packed)))


def _number(value: float) -> float:
    return 0.0 if value != value else value  # noqa: PLR0124 - NaN differs from itself

"""Compares two states at their clocks: which keys, scripts and libraries are not the same.

Each state is walked once, and the digests of its items are added up in buckets, by a checksum of their names. Where the
sums of a bucket differ, a second walk holds its items against each other, some buckets at a time. So memory does not
grow with the states, the order of their records does not matter, and they may have different layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from engine.layouts.layout import Layout
from engine.proof.digest import KEY, Digest, Item, item_digests
from engine.store.store import Store

_BUCKETS: Final = 4096
_ITEMS_AT_ONCE: Final = 100_000
_TOLD_EVERY: Final = 1000


class View(NamedTuple):
    """A state that nothing writes to.

    Attributes:
        store: it.
        layout: of it.
        clock_ms: what is due by then is not there.
    """

    store: Store
    layout: Layout
    clock_ms: int


@dataclass(slots=True)
class Sums:
    """The digest of a state, and what it is the sum of."""

    digest: Digest = field(default_factory=Digest)
    buckets: list[int] = field(default_factory=lambda: [0] * _BUCKETS)


def sums_of(view: View, advance: Callable[[int], None]) -> Sums:
    """Walk a state once.

    Args:
        view: of it.
        advance: told how many keys are done.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    sums = Sums()
    buckets, keys = sums.buckets, 0
    for item, value in item_digests(*view):
        buckets[_bucket(item)] += value
        keys += item[2] == KEY
        if keys % _TOLD_EVERY == 0:
            advance(keys)
    total = sum((Digest(value) for value in buckets), start=Digest())
    sums.digest = Digest(total.value, keys)
    return sums


def differences(first: View, first_sums: Sums, second: View, second_sums: Sums, count: int) -> list[Item]:
    """The items that are in one state alone, or not equal in both, by name; `count` of them at most.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    pairs = enumerate(zip(first_sums.buckets, second_sums.buckets, strict=True))
    wanted = [bucket for bucket, (one, other) in pairs if one != other]
    keys = max(first_sums.digest.keys, second_sums.digest.keys)
    at_once = max(1, _BUCKETS * _ITEMS_AT_ONCE // max(keys, 1))
    found: list[Item] = []
    for begin in range(0, len(wanted), at_once):
        found += _differing(first, second, wanted[begin : begin + at_once])
        if len(found) >= count:
            break
    return list(islice(sorted(found), count))


def _differing(first: View, second: View, buckets: Sequence[int]) -> Iterator[Item]:
    some = frozenset(buckets)
    left = {item: value for item, value in item_digests(*first) if _bucket(item) in some}
    for item, value in item_digests(*second):
        if _bucket(item) in some and left.pop(item, None) != value:
            yield item
    yield from left


def _bucket(item: Item) -> int:
    return crc32(item[1]) % _BUCKETS

"""Draws random subkeys and random keys, the same ones at every replay.

A set's members, a hash's fields and a sorted set's members are drawn alike, and written "subkeys" here. While there are
few of them, or many are wanted, every choice is as likely as any other; so it is with sorted sets of any size, where a
rank is drawn. Else each one is found by `descend`, which is not uniform.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.batch.transaction import Transaction
from engine.errors import CorruptionError
from engine.model import ZSET
from engine.types.zset import zsets

# Up to this size all subkeys are walked to reach the one that was drawn: as fast as a descent, and uniform.
WALKED_SIZE_MAX: Final = 256

# A descent costs as much as walking this many subkeys: 140 to 300 us against 0.7 to 1 (RocksDB, 20,000 and 300,000).
_SUBKEYS_PER_DESCENT: Final = 256

# A descent ends with a walk of 0 to this many subkeys less one: see `descend`.
_STRIDE: Final = 64


def is_walked(size: int, count: int) -> bool:
    """Whether `count` of `size` subkeys are drawn by walking over all, each choice as likely as any other."""
    return size <= WALKED_SIZE_MAX or count * _SUBKEYS_PER_DESCENT >= size


def distinct(tx: Transaction, key: Key, count: int) -> list[bytes]:
    """Up to `count` subkeys at random, none of them twice, in the order of their bytes.

    Raises:
        CorruptionError: the subkeys are fewer than the metadata says.
    """
    size = key.count()
    if count >= size:
        return [subkey for subkey, _ in key.data.scan()]
    if _all_are_walked(key, size, count):
        return _pick(key, _positions(tx, size, count))
    if key.ranks is not None:
        return sorted(zsets.member_at(tx, key, position) for position in _positions(tx, size, count))
    chosen: dict[bytes, None] = {}
    for _ in range(count):
        drawn = draw(tx, key)
        # One that was drawn already gives way to the next one that was not.
        chosen[next(subkey for subkey in walk_around(key.data, drawn) if subkey not in chosen)] = None
    return sorted(chosen)


def repeated(tx: Transaction, key: Key, count: int) -> list[bytes]:
    """`count` subkeys at random, each drawn among all of them, in the order in which they were drawn."""
    size = key.count()
    if _all_are_walked(key, size, count):
        subkeys = [subkey for subkey, _ in key.data.scan()]
        return [subkeys[tx.random_below(size)] for _ in range(count)]
    return [draw(tx, key) for _ in range(count)]


def draw(tx: Transaction, key: Key) -> bytes:
    """One of many subkeys: by `descend`, or by its rank where there are counts."""
    if key.ranks is not None:
        return zsets.member_at(tx, key, tx.random_below(key.size))
    drawn = descend(tx, key.data)
    if drawn is None:
        raise CorruptionError(f"key {key.name[:64]!r} should have subkeys, but has none")
    return drawn


def _all_are_walked(key: Key, size: int, count: int) -> bool:
    """Whether `count` of the subkeys are drawn by walking: of sorted sets also those that have no counts yet."""
    return is_walked(size, count) or (key.type == ZSET and key.ranks is None)


def _positions(tx: Transaction, size: int, count: int) -> list[int]:
    """`count` different positions below `size`, ascending, every choice as likely as any other, with one draw for each.

    Source: R. Floyd's algorithm in J. Bentley, "Programming Pearls: A Sample of Brilliance", CACM 30 (9), 1987.
    """
    chosen: dict[int, None] = {}
    for highest in range(size - count, size):
        draw = tx.random_below(highest + 1)
        chosen[highest if draw in chosen else draw] = None
    return sorted(chosen)


def _pick(key: Key, positions: list[int]) -> list[bytes]:
    """The subkeys at `positions` (ascending, at least one) in the order of their bytes, found by one walk."""
    picked: list[bytes] = []
    passed = 0
    walk = (subkey for subkey, _ in key.data.scan())
    for position in positions:
        picked += islice(walk, position - passed, position - passed + 1)
        passed = position + 1
    if len(picked) != len(positions):
        raise CorruptionError(f"key {key.name[:64]!r} has fewer subkeys than it should have")
    return picked


def descend(tx: Transaction, data: Subkeys) -> bytes | None:
    """A random one of many subkeys, None of none, in some ten to twenty seeks whatever their number; not uniformly.

    The subkeys are seen as a tree by their bytes. From the root down, one of the branches that exist is drawn, each as
    likely as any other, however many subkeys it has; one that others begin with is one branch beside theirs. At
    the one thus found begins a walk of 0 to 63 steps, each number as likely, to the next one by bytes, and from
    the last one to the first. Where it ends is the result.

    So the chance of a subkey is the mean of the chances that the tree alone gives to the 64 up to it. Subkeys of one
    length that are random bytes, digests or numbers come out almost evenly. Those in sparse branches come out early:
    each first digit of "0" … "19999" has a tenth of the chances, though 11,111 of these numbers begin with a 1; and of
    "a1" … "a99999" and "b" the tree gives "b" every second time, which the walk spreads over "b" and the first 63
    others. None is out of reach.
    """
    first, last = next(data.scan(), None), next(data.scan(reverse=True), None)
    if first is None or last is None:
        return None
    lowest, highest = first[0], last[0]
    while lowest != highest:
        lowest, highest = _draw_branch(tx, data, lowest, highest)
    return next(islice(_walk_on(data, lowest), tx.random_below(_STRIDE), None))


def _draw_branch(tx: Transaction, data: Subkeys, lowest: bytes, highest: bytes) -> tuple[bytes, bytes]:
    """Draw a branch of the tree whose lowest and highest subkeys are given and differ. Returns the branch's own two.

    Branches part behind the longest beginning that the two have in common: number 0 is the subkey that is nothing else,
    every other number is the next byte plus 1. Numbers are drawn among all those between the two ends, so each branch
    that exists is as likely as any other. A number that does not exist is found out by a seek; it and the gap above it
    are not drawn again, so a few draws are enough.
    """
    depth = _common_length(lowest, highest)
    stem = lowest[:depth]
    bottom, top = _branch(lowest, depth), _branch(highest, depth)
    candidates = list(range(bottom, top + 1))
    while True:
        at = tx.random_below(len(candidates))
        drawn = candidates[at]
        start = lowest if drawn == bottom else _lowest_from(data, stem + bytes((drawn - 1,)), highest)
        found = _branch(start, depth)
        if found == drawn:
            break
        del candidates[at : candidates.index(found)]
    return start, highest if drawn == top else _highest_below(data, start, stem + bytes((drawn,)))


def _branch(subkey: bytes, depth: int) -> int:
    """The branch of `subkey` below its first `depth` bytes."""
    return subkey[depth] + 1 if len(subkey) > depth else 0


def _common_length(first: bytes, second: bytes) -> int:
    """How many bytes two different subkeys have in common from their beginning."""
    for at, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return at
    return min(len(first), len(second))


def _lowest_from(data: Subkeys, start: bytes, highest: bytes) -> bytes:
    """The lowest subkey that is `start` or above it; `highest` is one."""
    return next(data.scan(start, highest), (highest, b""))[0]


def _highest_below(data: Subkeys, lowest: bytes, end: bytes) -> bytes:
    """The highest subkey below `end`; `lowest` is one."""
    return next(data.scan(lowest, end, reverse=True))[0]


def walk_around(data: Subkeys, start: bytes) -> Iterator[bytes]:
    """The subkeys from `start` on, and after the last one those from the first one up to `start`: each of them once."""
    for subkey, _ in data.scan(start):
        yield subkey
    for subkey, _ in data.scan(end=start):
        yield subkey


def _walk_on(data: Subkeys, start: bytes) -> Iterator[bytes]:
    """The subkeys from `start` on, round and round. There must be one."""
    while True:
        yield from walk_around(data, start)

"""Sets: member -> empty in the data column family.

A verb that empties a set deletes its key, as Redis does. `pop` takes members at random: how, is said there and in
`_descend`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from engine.errors import CorruptionError
from engine.key import Key, Subkeys
from engine.layouts.base import SET
from engine.transaction import Transaction
from engine.types import subkeys

# Up to this size all members are walked to reach the one that was drawn: as fast as a descent, and uniform.
_WALKED_SIZE_MAX: Final = 256

# A descent costs as much as walking this many members: 140 to 300 us against 0.7 to 1 (RocksDB, 20,000 and 300,000).
_MEMBERS_PER_DESCENT: Final = 256

# A descent ends with a walk of 0 to this many members less one: see `_descend`.
_STRIDE: Final = 64


def add(tx: Transaction, name: bytes, key: Key | None, members: Iterable[bytes]) -> int:
    """Put `members` into `key` (None: there is none yet). Returns how many are new. Hot path."""
    if key is None:
        key = tx.create(name, SET)
    data = key.data
    get, changed = data.get, data.changed
    added = 0
    for member in members:
        if get(member) is None:
            changed[member] = b""
            added += 1
    if added:
        key.size += added
        key.changed = True
    return added


def remove(tx: Transaction, key: Key, members: Iterable[bytes]) -> int:
    """Delete `members`. Returns how many were there."""
    return subkeys.remove(tx, key, members)


def contains(key: Key | None, member: bytes) -> bool:
    """Whether `member` is there; False when the whole set is absent."""
    return key is not None and key.data.get(member) is not None


def members(key: Key) -> Iterator[bytes]:
    """All members, in the order of their bytes."""
    return (member for member, _ in key.data.scan())


# ------------------------------------------------------------------ random members


def pop(tx: Transaction, key: Key, count: int) -> list[bytes]:
    """Take up to `count` members (at least 1) at random, no member twice. Returns them in the order of their bytes.

    Every choice of members is as likely as any other while the set has at most 256 members, and when the count is so
    large a share of the set (one in 256) that it is walked once. Else each member is found by `_descend`, which is not
    uniform.

    Raises:
        CorruptionError: the members are fewer than the metadata says.
    """
    size = key.size
    if count >= size:
        popped = list(members(key))
        if len(popped) != size:
            raise CorruptionError(f"set {key.name[:64]!r} should have {size} members, but has {len(popped)}")
    elif size <= _WALKED_SIZE_MAX or count * _MEMBERS_PER_DESCENT >= size:
        popped = _pick(key, _positions(tx, size, count))
    else:
        return _pop_scattered(tx, key, count)
    subkeys.remove(tx, key, popped)
    return popped


def _pop_scattered(tx: Transaction, key: Key, count: int) -> list[bytes]:
    """Take `count` members, each by a descent that sees what the ones before it took."""
    data = key.data
    popped = []
    for _ in range(count):
        member = _descend(tx, key)
        data.remove(member)
        popped.append(member)
    key.size -= count
    key.changed = True
    return sorted(popped)


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
    """The members at `positions` (ascending, at least one) in the order of their bytes, found by one walk."""
    picked: list[bytes] = []
    passed = 0
    walk = members(key)
    for position in positions:
        picked += islice(walk, position - passed, position - passed + 1)
        passed = position + 1
    if len(picked) != len(positions):
        raise CorruptionError(f"set {key.name[:64]!r} has fewer members than the {key.size} it should have")
    return picked


def _descend(tx: Transaction, key: Key) -> bytes:
    """A random member of a set of more than 64, in some ten to twenty seeks whatever its size; not uniformly.

    The members are seen as a tree by their bytes. From the root down, one of the branches that exist is drawn, each as
    likely as any other, however many members it has; a member that others begin with is one branch beside theirs. At
    the member thus found begins a walk of 0 to 63 steps, each number as likely, to the next member by bytes, and from
    the last one to the first. Where it ends is the result.

    So a member's chance is the mean of the chances that the tree alone gives to the 64 members up to it. Members of one
    length that are random bytes, digests or numbers come out almost evenly. Members in sparse branches come out early:
    each first digit of "0" … "19999" has a tenth of the chances, though 11,111 of these numbers begin with a 1; and of
    "a1" … "a99999" and "b" the tree gives "b" every second time, which the walk spreads over "b" and the first 63
    others. No member is out of reach.
    """
    data = key.data
    first, last = next(data.scan(), None), next(data.scan(reverse=True), None)
    if first is None or last is None:
        raise CorruptionError(f"set {key.name[:64]!r} should have {key.size} members, but has none")
    lowest, highest = first[0], last[0]
    while lowest != highest:
        lowest, highest = _draw_branch(tx, data, lowest, highest)
    return next(islice(_walk_around(data, lowest), tx.random_below(_STRIDE), None))


def _draw_branch(tx: Transaction, data: Subkeys, lowest: bytes, highest: bytes) -> tuple[bytes, bytes]:
    """Draw a branch of the tree whose lowest and highest members are given and differ. Returns the branch's own two.

    Branches part behind the longest beginning that the two have in common: number 0 is the member that is nothing else,
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


def _branch(member: bytes, depth: int) -> int:
    """The branch of `member` below its first `depth` bytes."""
    return member[depth] + 1 if len(member) > depth else 0


def _common_length(first: bytes, second: bytes) -> int:
    """How many bytes two different members have in common from their beginning."""
    for at, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return at
    return min(len(first), len(second))


def _lowest_from(data: Subkeys, start: bytes, highest: bytes) -> bytes:
    """The lowest member that is `start` or above it; `highest` is one."""
    return next(data.scan(start, highest), (highest, b""))[0]


def _highest_below(data: Subkeys, lowest: bytes, end: bytes) -> bytes:
    """The highest member below `end`; `lowest` is one."""
    return next(data.scan(lowest, end, reverse=True))[0]


def _walk_around(data: Subkeys, start: bytes) -> Iterator[bytes]:
    """The members from `start` on, and after the last one all from the first one."""
    for member, _ in data.scan(start):
        yield member
    for member, _ in data.scan():
        yield member

"""Sorted sets: member -> [score:8] in records of DATA, score keys [score:8][member] -> empty in SCORES.

Packed scores sort as their numbers do, so score keys stand in the set's order: by score, then by the member's bytes.
A rank is a position among them, a range of scores is a range of bytes, and two packed scores are compared as they are.
A verb that empties a sorted set deletes its key, as Redis does. One that has once been larger than
`ranks.PLAIN_SIZE_MAX` has rank counts from then on, however small it gets: see `engine.batch.ranks.rank_counts`.

Pops leave tombstones at the end they take from, and a scan from there would cross all of them (0.12 us each). So a pop
notes in `Transaction.floors` or `.ceilings` that nothing is left below or above, every scan stays between the two, and
adding a member moves them out of its way. Without them each scan gives the same, only later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.ranks import rank_counts
from engine.batch.ranks.rank_counts import after
from engine.batch.transaction import Transaction
from engine.errors import SCORE_NAN, CommandError, CorruptionError
from engine.model import ZSET
from engine.values.encoding import pack_score, parse_score
from engine.values.replies import bounded

SCORE_BYTES: Final = 8

# Conditions of ZADD, as bits: write new members only, existing ones only, greater scores only, lesser scores only.
NX: Final = 1
XX: Final = 2
GT: Final = 4
LT: Final = 8

_subkey = itemgetter(0)

member_of = itemgetter(slice(SCORE_BYTES, None))  # of a score key; this and the next one without a call in Python
split_packed = itemgetter(slice(SCORE_BYTES), slice(SCORE_BYTES, None))  # packed score and member


# ----------------------------------------------------------------------------------------------------------- writing


def add(
    tx: Transaction, name: bytes, key: Key | None, pairs: Iterable[tuple[bytes, bytes]], conditions: int = 0
) -> tuple[int, int]:
    """Give members their scores, one after the other, wherever `conditions` let it be.

    `key` is None when there is none yet: it is made, unless only existing members are to be written. `pairs` are packed
    score and member, at least one. Returns how many members are new, and how many others have another score now.
    """
    if key is None:
        if conditions & XX:
            return 0, 0
        key = tx.create(name, ZSET)
    get = key.data.get
    counted: dict[bytes, int] | None = None if key.ranks is None else {}
    added = updated = 0
    for score, member in pairs:
        old = get(member)
        if old == score or (conditions and not _allowed(conditions, old, score)):
            continue
        if old is None:
            added += 1
        else:
            updated += 1
        _write(tx, key, member, old, score)
        if counted is not None:
            _note(counted, member, old, score)
    if added:
        key.size += added
        key.changed = True
        if counted is None and key.size > rank_counts.PLAIN_SIZE_MAX:
            _start_counting(tx, key)
    if counted:
        _count(tx, key, counted)
    return added, updated


def add_single(tx: Transaction, name: bytes, score: bytes, member: bytes) -> int:
    """As `add` with one packed score and member, to the sorted set `name`. Hot path: without a loop.

    A set with rank counts goes this way too: through `add` its ZADD takes 4.4 us instead of 3.8.

    Raises:
        CommandError: WRONGTYPE.
    """
    key = tx.find_typed(name, ZSET) or tx.create(name, ZSET)
    old = key.data.get(member)
    if old == score:
        return 0
    if tx.floors or tx.ceilings:
        _write(tx, key, member, old, score)
    else:  # nobody has popped: `_write` without the call and its looks
        scores = key.scores.changed
        if old is not None:
            scores[old + member] = None
        key.data.changed[member] = score
        scores[score + member] = b""
    if old is not None:
        if key.ranks is not None:
            _count(tx, key, {old + member: -1, score + member: 1})
        return 0
    key.size += 1
    key.changed = True
    if key.ranks is not None:
        _count(tx, key, {score + member: 1})
    elif key.size > rank_counts.PLAIN_SIZE_MAX:
        _start_counting(tx, key)
    return 1


def store(tx: Transaction, name: bytes, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """A sorted set of these packed scores and members, none of them twice, in the place of whatever `name` held.

    Nothing when there are none. Returns how many they are. The bulk way: counts are made once, at the end, and memory
    holds a few MiB of the pairs at a time, which may come from what `name` held.
    """
    pairs = iter(pairs)
    first = next(pairs, None)
    if first is None:
        if (old := tx.find(name)) is not None:
            tx.delete(old)
        return 0
    key = tx.create(name, ZSET)
    key.size = tx.fill(key, key.data, _with_score_keys(key, chain((first,), pairs)), families=2)
    if key.size > rank_counts.PLAIN_SIZE_MAX:
        _start_counting(tx, key)
    return key.size


def increment(
    tx: Transaction, name: bytes, key: Key | None, member: bytes, by: float, conditions: int = 0
) -> float | None:
    """Add `by` to the score of `member`, which is 0 as long as it is not there.

    Returns the new score, None where `conditions` stood against it.

    Raises:
        CommandError: the sum of inf and -inf is no number.
    """
    old = None if key is None else key.data.get(member)
    if conditions & NX and old is not None:
        return None
    score = by if old is None else parse_score(old) + by
    if score != score:  # noqa: PLR0124 - NaN differs from itself
        raise CommandError(SCORE_NAN)
    packed = pack_score(score)
    if conditions and not _allowed(conditions, old, packed):
        return None
    if key is None:
        key = tx.create(name, ZSET)
    if old is None:
        key.size += 1
        key.changed = True
    if old != packed:
        _write(tx, key, member, old, packed)
        if key.ranks is not None:
            counted: dict[bytes, int] = {}
            _note(counted, member, old, packed)
            _count(tx, key, counted)
        elif key.size > rank_counts.PLAIN_SIZE_MAX:
            _start_counting(tx, key)
    return score


def remove(tx: Transaction, key: Key, members: Iterable[bytes]) -> int:
    """Delete `members`. Returns how many were there."""
    data, scores = key.data, key.scores
    removed = []
    for member in members:
        score = data.get(member)
        if score is not None:
            data.remove(member)
            scores.remove(score + member)
            removed.append(score + member)
    if removed:
        _shrink(tx, key, removed)
    return len(removed)


def remove_found(tx: Transaction, key: Key, score_keys: list[bytes]) -> int:
    """Delete the members of these score keys, which were found in it. Returns how many they are."""
    members, scores = key.data.changed, key.scores.changed
    for score_key in score_keys:
        scores[score_key] = None
        members[score_key[SCORE_BYTES:]] = None
    if score_keys:
        _shrink(tx, key, score_keys)
    return len(score_keys)


def pop(tx: Transaction, key: Key, count: int, *, highest: bool) -> list[bytes]:
    """Take up to `count` (at least 1) members from the low end, or from the high one.

    Returns their score keys in that order. It reads no more stored records than it takes, those aside that this batch
    has already deleted.

    Raises:
        CommandError: they are too much for one reply.
        CorruptionError: the score records are fewer than the metadata says.
    """
    wanted = min(count, key.size)
    popped = bounded(islice(scan(tx, key, reverse=highest), wanted))
    if len(popped) < wanted:
        message = f"sorted set {key.name[:64]!r} should have {key.size} score records, but has {len(popped)}"
        raise CorruptionError(message)
    if highest:
        tx.ceilings[key.version] = popped[-1]
    else:
        tx.floors[key.version] = after(popped[-1])
    remove_found(tx, key, popped)
    return popped


# ----------------------------------------------------------------------------------------------------------- reading


def score_of(key: Key, member: bytes) -> float | None:
    """The score of `member`, None when it is not there."""
    packed = key.data.get(member)
    return None if packed is None else parse_score(packed)


def split(score_key: bytes) -> tuple[bytes, float]:
    """The (member, score) of a score key."""
    return score_key[SCORE_BYTES:], parse_score(score_key[:SCORE_BYTES])


def scan(
    tx: Transaction, key: Key, start: bytes = b"", end: bytes | None = None, *, reverse: bool = False
) -> Iterator[bytes]:
    """The score keys with `start <= score key < end`, in order, or against it with `reverse`."""
    floor, ceiling = tx.floors.get(key.version), tx.ceilings.get(key.version)
    if floor is not None and start < floor:
        start = floor
    if ceiling is not None and (end is None or ceiling < end):
        end = ceiling
    return map(_subkey, key.scores.scan(start, end, reverse=reverse))


def walk(tx: Transaction, key: Key, start: bytes, end: bytes, *, count: int = 0) -> Iterable[bytes]:
    """As `scan`; `count`: all are wanted, and there should be so many, which is quicker.

    Raises:
        CorruptionError: the scan ends at damage.
    """
    scores = key.scores
    if count and key.ranks is not None and not scores.fresh:
        start, end = max(start, tx.floors.get(key.version, start)), min(end, tx.ceilings.get(key.version, end))
        prefix, changed = scores.prefix, scores.changed_between(start, end) if scores.changed else []
        found = key.ranks.holders.keys(prefix + start, prefix + end, count + len(changed) + 1)
        score_keys = list(map(itemgetter(slice(len(prefix), None)), found))
        for score_key in changed:
            _work_in(score_keys, score_key, is_there=scores.changed[score_key] is not None)
        if len(score_keys) == count:
            return score_keys
    return scan(tx, key, start, end)


def count(tx: Transaction, key: Key, start: bytes, end: bytes) -> int:
    """How many score keys there are with `start <= score key < end`."""
    if key.ranks is None:
        return sum(1 for _ in scan(tx, key, start, end))
    return max(position(tx, key, end) - position(tx, key, start), 0)


def position(tx: Transaction, key: Key, score_key: bytes, *, is_there: bool = False) -> int:
    """How many score keys are below `score_key`; `is_there`: it is one of them."""
    if key.ranks is None:
        return sum(1 for _ in scan(tx, key, end=score_key))
    return rank_counts.place(key.ranks, score_key, partial(walk, tx, key), is_there=is_there)


def at(tx: Transaction, key: Key, number: int) -> bytes:
    """The score key that has `number` others below it, 0 <= number < size, in a set that has counts.

    Raises:
        CorruptionError: there are fewer than the counts say.
    """
    assert key.ranks is not None
    start, skipped = rank_counts.find(key.ranks, number, partial(walk, tx, key))
    for score_key in islice(scan(tx, key, start), skipped, None):
        return score_key
    raise lacks_records(key)


def lacks_records(key: Key) -> CorruptionError:
    """The error of a sorted set whose records and counts contradict each other."""
    return CorruptionError(f"sorted set {key.name[:64]!r} has fewer score records than its rank counts say")


def member_at(tx: Transaction, key: Key, number: int) -> bytes:
    """The member of `at`."""
    return at(tx, key, number)[SCORE_BYTES:]


def rank(tx: Transaction, key: Key, member: bytes, *, reverse: bool = False) -> tuple[int, float] | None:
    """How many members stand before `member` (after it with `reverse`), and its score; None when it is not there."""
    score = key.data.get(member)
    if score is None:
        return None
    score_key = score + member
    if not reverse:
        found = position(tx, key, score_key, is_there=True)
    elif key.ranks is None:
        found = sum(1 for _ in scan(tx, key, after(score_key)))  # from the end that the rank refers to
    else:
        found = key.size - 1 - position(tx, key, score_key, is_there=True)
    return found, parse_score(score)


# ------------------------------------------------------------------------------------------------------------ inside


def _allowed(conditions: int, old: bytes | None, new: bytes) -> bool:
    """Whether ZADD's `conditions` let a member's packed score become `new`."""
    if old is None:
        return not conditions & XX
    if conditions & NX or (conditions & GT and new <= old):
        return False
    return not (conditions & LT and new >= old)


def _write(tx: Transaction, key: Key, member: bytes, old: bytes | None, score: bytes) -> None:
    """Hot path: both records of one member, and its old score key away. Sizes are the caller's."""
    scores = key.scores.changed
    if old is not None:
        scores[old + member] = None
    key.data.changed[member] = score
    score_key = score + member
    scores[score_key] = b""
    floor = tx.floors.get(key.version)
    if floor is not None and score_key < floor:
        tx.floors[key.version] = score_key
    ceiling = tx.ceilings.get(key.version)
    if ceiling is not None and score_key >= ceiling:
        tx.ceilings[key.version] = after(score_key)


def _shrink(tx: Transaction, key: Key, removed: list[bytes]) -> None:
    """Account for the members of these score keys, which were just deleted."""
    key.size -= len(removed)
    key.changed = True
    if key.size == 0:
        tx.floors.pop(key.version, None)
        tx.ceilings.pop(key.version, None)
        if key.ranks is not None:
            rank_counts.clear(key.ranks)
        tx.delete(key)
    elif key.ranks is not None:
        _count(tx, key, dict.fromkeys(removed, -1))


def _note(counted: dict[bytes, int], member: bytes, old: bytes | None, score: bytes) -> None:
    """Note which score key came and which one went; in one command a member may move several times."""
    if old is not None:
        counted[old + member] = counted.get(old + member, 0) - 1
    counted[score + member] = counted.get(score + member, 0) + 1


def _count(tx: Transaction, key: Key, counted: dict[bytes, int]) -> None:
    """Bring the counts up to date."""
    assert key.ranks is not None
    rank_counts.update(key.ranks, counted, key.size, partial(walk, tx, key))


def _work_in(score_keys: list[bytes], score_key: bytes, *, is_there: bool) -> None:
    """Bring stored score keys, in order, up to what the batch has made of one of them."""
    place = bisect_left(score_keys, score_key)
    was_there = score_keys[place : place + 1] == [score_key]
    if is_there and not was_there:
        score_keys.insert(place, score_key)
    elif was_there and not is_there:
        del score_keys[place]


def _with_score_keys(key: Key, pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The (member, packed score) of `pairs`; their score keys are put on the way."""
    score_keys = key.scores.changed
    for score, member in pairs:
        score_keys[score + member] = b""
        yield member, score


def _start_counting(tx: Transaction, key: Key) -> None:
    """Give a sorted set that has become large its counts, in a layout that can hold them."""
    if rank_counts.is_counted(key.size, tx.forms):
        rank_counts.build(tx.start_ranks(key), scan(tx, key), key.size)

"""Lists: `[index:8]`, big-endian, -> element in records of DATA, at the indexes `head … tail - 1`.

Positions count from 0 at the head; the element at a position is at the index `head + position`. So one read reaches an
element, both ends grow without moving anything, and a range of positions is a range of bytes. There is always
`size == tail - head`.

A verb that empties a list deletes its key, as Redis does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.errors import CorruptionError
from engine.model import LIST
from engine.values.encoding import pack_u64, parse_u64
from engine.values.replies import bounded


def push_head(tx: Transaction, name: bytes, key: Key | None, elements: Iterable[bytes]) -> int:
    """Put `elements` before the head of `key` (None: there is none yet), one by one: the last one ends up first.

    Returns the new size. Hot path.
    """
    if key is None:
        key = tx.create(name, LIST)
    changed = key.data.changed
    index = key.head
    for element in elements:
        index -= 1
        changed[pack_u64(index)] = element
    key.head = index
    key.size = key.tail - index
    key.changed = True
    return key.size


def push_tail(tx: Transaction, name: bytes, key: Key | None, elements: Iterable[bytes]) -> int:
    """Put `elements` behind the tail of `key` (None: there is none yet). Returns the new size. Hot path."""
    if key is None:
        key = tx.create(name, LIST)
    changed = key.data.changed
    index = key.tail
    for element in elements:
        changed[pack_u64(index)] = element
        index += 1
    key.tail = index
    key.size = index - key.head
    key.changed = True
    return key.size


def pop_head(tx: Transaction, key: Key, count: int) -> list[bytes]:
    """Take up to `count` elements from the head, in the list's order."""
    popped = elements(key, 0, min(count, key.size))
    _cut(tx, key, len(popped), key.size)
    return popped


def pop_tail(tx: Transaction, key: Key, count: int) -> list[bytes]:
    """Take up to `count` elements from the tail, the last one first."""
    popped = elements(key, max(key.size - count, 0), key.size)
    popped.reverse()
    _cut(tx, key, 0, key.size - len(popped))
    return popped


def move(
    tx: Transaction, source: Key, name: bytes, destination: Key | None, *, from_head: bool, to_head: bool
) -> bytes:
    """Take one element from an end of `source` and put it at an end of `destination`, which is called `name`.

    Both may be the same list: it keeps its time to live even when it has one element.
    """
    moved = element(source, 0 if from_head else source.size - 1)
    if destination is source and from_head is to_head:
        source.changed = True  # to Redis too it was modified
        return moved
    if to_head:
        push_head(tx, name, destination, (moved,))
    else:
        push_tail(tx, name, destination, (moved,))
    if from_head:
        _cut(tx, source, 1, source.size)
    else:
        _cut(tx, source, 0, source.size - 1)
    return moved


def element(key: Key, position: int) -> bytes:
    """The element at `position`, 0 <= position < size: one read.

    Raises:
        CorruptionError: it is missing.
    """
    value = key.data.get(pack_u64(key.head + position))
    if value is None:
        raise CorruptionError(f"list {key.name[:64]!r} has no element at index {key.head + position}")
    return value


def elements(key: Key, start: int, stop: int) -> list[bytes]:
    """The elements at the positions from `start` to before `stop`, 0 <= start <= stop <= size.

    Raises:
        CommandError: they are too much for one reply.
        CorruptionError: one is missing.
    """
    if stop - start == 1:
        return [element(key, start)]
    first, end = key.head + start, key.head + stop
    values = bounded(value for _, value in key.data.scan(pack_u64(first), pack_u64(end)))
    if len(values) != stop - start:
        raise CorruptionError(f"list {key.name[:64]!r} has {len(values)} elements at the indexes {first} … {end - 1}")
    return values


def replace(key: Key, position: int, value: bytes) -> None:
    """Another element at `position`, 0 <= position < size. The metadata record stays as it is."""
    key.data.changed[pack_u64(key.head + position)] = value


def scan(key: Key, *, reverse: bool = False) -> Iterator[tuple[int, bytes]]:
    """The positions and elements from the head on, or from the tail with `reverse`."""
    head = key.head
    for index, value in key.data.scan(pack_u64(head), pack_u64(key.tail), reverse=reverse):
        yield parse_u64(index) - head, value


def insert(key: Key, position: int, value: bytes) -> int:
    """Put an element at `position`, 0 <= position <= size. Returns the new size.

    What is between there and the nearer end is written anew: O(elements there).
    """
    if 2 * position < key.size:
        values = [*elements(key, 0, position), value]
        key.head -= 1
        start = 0
    else:
        values = [value, *elements(key, position, key.size)]
        key.tail += 1
        start = position
    for at, moved in enumerate(values, start):
        replace(key, at, moved)
    key.size += 1
    key.changed = True
    return key.size


def remove(tx: Transaction, key: Key, positions: list[int]) -> None:
    """Delete the elements at `positions`, which are ascending and at least one.

    The longest run of others, or the one at an end, stays where it is; those before it move up to it, those behind it
    down, and are written anew: O(elements that move).
    """
    bounds = [-1, *positions, key.size]
    runs = [after - before for before, after in pairwise(bounds)]
    before = runs.index(max(runs))  # so many of the positions lie before the run that stays
    start, stop = bounds[before] + 1, bounds[before + 1]
    gone = dict.fromkeys(positions)
    lower = [value for at, value in enumerate(elements(key, 0, start)) if at not in gone]
    upper = [value for at, value in enumerate(elements(key, stop, key.size), stop) if at not in gone]
    for at, value in enumerate(lower, before):
        replace(key, at, value)
    for at, value in enumerate(upper, stop):
        replace(key, at, value)
    _cut(tx, key, before, key.size - len(positions) + before)


def store(tx: Transaction, name: bytes, elements: list[bytes]) -> int:
    """A list of `elements` in the place of whatever `name` held; nothing when there are none.

    Returns how many there are.
    """
    if not elements:
        if (key := tx.find(name)) is not None:
            tx.delete(key)
        return 0
    key = tx.create(name, LIST)
    key.size = tx.fill(key, key.data, ((pack_u64(index), value) for index, value in enumerate(elements, key.head)))
    key.tail = key.head + key.size
    return key.size


def trim(tx: Transaction, key: Key, start: int, stop: int) -> None:
    """Keep the elements at the positions from `start` to before `stop`, 0 <= start, stop <= size.

    It costs one delete for each element that goes; O(1) when none is left, as for any key that is deleted.
    """
    if start < stop:
        _cut(tx, key, start, stop)
    else:
        tx.delete(key)


def _cut(tx: Transaction, key: Key, start: int, stop: int) -> None:
    """Delete the elements before `start` and from `stop` on, one by one, and the key with its last element."""
    head, tail = key.head + start, key.head + stop
    if head == key.head and tail == key.tail:
        return
    changed = key.data.changed
    for index in range(key.head, head):
        changed[pack_u64(index)] = None
    for index in range(tail, key.tail):
        changed[pack_u64(index)] = None
    key.head, key.tail = head, tail
    key.size = tail - head
    key.changed = True
    if key.size == 0:
        tx.delete(key)

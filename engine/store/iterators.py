"""Scans with RocksDB's iterators, and checks their status: an iterator ends at a damaged block without an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from engine.errors import CorruptionError

Records = Iterator[tuple[bytes, bytes]]
Lists = Iterator[list[tuple[bytes, bytes]]]
Sweep = tuple[Records, "RocksIterator", object]
"""Records by rocksdict's own loop, an iterator that sees the same, and what must outlive every step of both.

That loop takes 0.3 us for a record, one of ours 0.6. But it ends in silence where it cannot go on, so the iterator
looks whether that is the end.
"""

SWEPT_FROM: Final = 128
"""From the record with this number on scans use that loop. It reads up to 256 records for nothing."""

_SWEPT_AT_ONCE: Final = 256

FEW_KEYS: Final = 32
"""So many keys are taken one by one, without a loop of rocksdict's."""


class RocksIterator(Protocol):
    """The part of rocksdict's `RdictIter` that the walks use."""

    def seek(self, key: Any, /) -> None:
        """Go to the first record from `key` on."""

    def seek_for_prev(self, key: Any, /) -> None:
        """Go to the last record up to `key`."""

    def seek_to_last(self) -> None:
        """Go to the last record."""

    def valid(self) -> bool:
        """Whether it stands at a record."""
        ...

    def key(self) -> Any:
        """The key of the record; None where it stands at none: so no scan asks `valid`, 7 % of one of 100 records."""

    def value(self) -> Any:
        """The value of the record."""

    def next(self) -> None:
        """Go to the next record."""

    def prev(self) -> None:
        """Go to the record before."""

    def status(self) -> None:
        """Raise what ended the walk, if it was not the end."""


class Idle(list[RocksIterator]):
    """The iterators of a column family that no scan uses.

    All of them see it as it has been since its last write.

    Attributes:
        is_stale: it was written, and who takes iterators asks for another one of these.
    """

    __slots__ = ("is_stale",)

    def __init__(self) -> None:
        super().__init__()
        self.is_stale = False


def forward(iterator: RocksIterator, start: bytes, end: bytes | None) -> Records:
    """The records with `start <= key < end`, in order.

    Raises:
        CorruptionError: they end at damage.
    """
    iterator.seek(start)
    while (key := iterator.key()) is not None:
        if end is not None and key >= end:
            return
        yield key, iterator.value()
        iterator.next()
    _check_status(iterator)


def few_keys(iterator: RocksIterator, start: bytes, end: bytes, most: int) -> list[bytes]:
    """The first `most` keys with `start <= key < end`: one generator less for each key than `forward`.

    Raises:
        CorruptionError: they end at damage.
    """
    found: list[bytes] = []
    take, read, go_on = found.append, iterator.key, iterator.next
    iterator.seek(start)
    for left in range(most - 1, -1, -1):
        key = read()
        if key is None:
            _check_status(iterator)
            break
        if key >= end:
            break
        take(key)
        if left:
            go_on()
    return found


def singly(
    iterator: RocksIterator, idle: Idle, start: bytes, end: bytes | None, left_off: list[bytes], bound: object
) -> Records:
    """`forward` for the first `SWEPT_FROM` records, and for all of them if the store is written meanwhile.

    Hot path: one generator for each scan. The iterator goes back among the idle ones.

    Args:
        iterator: not moved yet.
        idle: those of its column family.
        start: the first key.
        end: the exclusive end.
        left_off: takes the last key, if `swept` is to go on.
        bound: what must outlive every step; an iterator that has any is not kept.

    Raises:
        CorruptionError: they end at damage.
    """
    left = SWEPT_FROM
    try:
        iterator.seek(start)
        while (key := iterator.key()) is not None:
            if end is not None and key >= end:
                return
            yield key, iterator.value()
            left -= 1
            if not left and not idle.is_stale:
                left_off.append(key)
                return
            iterator.next()
        _check_status(iterator)
    finally:
        if bound is None and not idle.is_stale:
            idle.append(iterator)


def swept(sweep: Callable[[bytes, bytes | None], Sweep], end: bytes | None, left_off: list[bytes]) -> Lists:
    """The records behind the key that `singly` has left off at, if it has, in lists.

    Raises:
        CorruptionError: they end at damage.
    """
    if left_off:
        records, iterator, bound = sweep(left_off[0] + b"\0", end)
        while some := list(islice(records, _SWEPT_AT_ONCE)):
            yield some
            left_off = [some[-1][0]]
        if next(forward(iterator, left_off[0] + b"\0", end), None) is not None:
            raise CorruptionError("a scan ended at damaged data, with more after it")
        del bound


def lent(records: Records, iterator: RocksIterator, idle: Idle) -> Records:
    """`records`, and at their end `iterator` back among the idle ones, unless a write has made it stale."""
    try:
        yield from records
    finally:
        if not idle.is_stale:
            idle.append(iterator)


def backward(iterator: RocksIterator, start: bytes, end: bytes | None) -> Records:
    """The records with `start <= key < end`, against their order.

    Raises:
        CorruptionError: they end at damage.
    """
    if end is None:
        iterator.seek_to_last()
    else:
        iterator.seek_for_prev(end)
        if iterator.valid() and iterator.key() == end:
            iterator.prev()
    while (key := iterator.key()) is not None:
        if key < start:
            return
        yield key, iterator.value()
        iterator.prev()
    _check_status(iterator)


def _check_status(iterator: RocksIterator) -> None:
    try:
        iterator.status()
    except Exception as error:
        message = f"a scan ended at damaged data: {error}"
        raise CorruptionError(message) from error

"""Unions, intersections and differences of sets, in byte order of their members.

They are streams: memory holds a few thousand members at a time, or a page of each set when there are very many sets.
What they are made of is a `Source`, which goes on reading what the set held even when a new collection takes its place:
the destination of a STORE form may be a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.overlaid import Records, Subkeys
from engine.batch.transaction import Transaction
from engine.model import SET
from engine.store.store import Get

MERGED_FROM: Final = 4096
"""Sources with more members than this in all are merged as streams; fewer are quicker in a dict."""

_SCANS_MAX: Final = 32  # open at once: a scan of RocksDB holds memory, and an event may name a million sets
_PAGED_MEMBERS: Final = 65_536
_PAGE_MIN: Final = 16
_ASKED_MIN: Final = 100
_WALKED_PER_GET: Final = 6  # records of a scan that cost as much as one get (measured: 0.36 us against 2.3)

_first = itemgetter(0)


class Source(NamedTuple):
    """The members of a set or sorted set, and how many that are."""

    data: Subkeys
    size: int


def sources(keys: Iterable[Key]) -> list[Source]:
    """What these sets or sorted sets hold now."""
    return [Source(key.data, key.count()) for key in keys]


def scans(sets: Sequence[Source]) -> list[Records]:
    """The (member, value) of each set in order, all to be read side by side."""
    if len(sets) <= _SCANS_MAX:
        return [source.data.scan() for source in sets]
    page = max(_PAGED_MEMBERS // len(sets), _PAGE_MIN)
    return [_paged(source.data, page) for source in sets]


def getters(sets: Sequence[Source], asked: int) -> list[Get]:
    """Functions from member to value (None when absent), to be asked for some `asked` members in ascending order."""
    few = len(sets) <= _SCANS_MAX
    return [_getter(source, asked) if few else source.data.get for source in sets]


def _getter(source: Source, asked: int) -> Get:
    """Where many of the members are asked for, walk along instead of looking up each."""
    data = source.data
    if asked < _ASKED_MIN or source.size > asked * _WALKED_PER_GET:
        return data.get
    records = data.scan()
    at: bytes | None
    at, value = next(records, (None, b""))

    def get(subkey: bytes) -> bytes | None:
        nonlocal at, value
        while at is not None and at < subkey:
            at, value = next(records, (None, b""))
        return value if at == subkey else None

    return get


def _paged(data: Subkeys, page: int) -> Records:
    """A scan that is not open between its pages. What it reads must not change meanwhile."""
    start: bytes | None = b""
    while start is not None:
        some = list(islice(data.scan(start), page))
        start = some[-1][0] + b"\0" if len(some) == page else None
        yield from some


def in_all(sets: list[Source]) -> Iterator[bytes]:
    """The members that all of the sets (at least one) have: O(smallest * sets)."""
    smallest, *others = sorted(sets, key=_size)
    return reduce(_those_in, getters(others, smallest.size), map(_first, smallest.data.scan()))


def in_any(sets: list[Source]) -> Iterator[bytes]:
    """The members that any of the sets has: O(members of all)."""
    if sum(map(_size, sets)) <= MERGED_FROM:
        return iter(sorted({member: None for source in sets for member, _ in source.data.scan()}))
    return map(_first, groupby(merge(*(map(_first, records) for records in scans(sets)))))


def in_first_alone(first: Source, others: list[Source]) -> Iterator[bytes]:
    """The members of `first` that none of the others has: O(first * others)."""
    return reduce(_those_out, getters(others, first.size), map(_first, first.data.scan()))


def store(tx: Transaction, name: bytes, members: Iterator[bytes]) -> int:
    """A set of `members`, all different, in the place of whatever `name` held; nothing when there are none.

    Returns how many there are.
    """
    first = next(members, None)
    if first is None:
        if (key := tx.find(name)) is not None:
            tx.delete(key)
        return 0
    key = tx.create(name, SET)
    key.data.changed[first] = b""
    count = 1 + tx.fill(key, key.data, ((member, b"") for member in members))
    key.size += count
    return count


def _those_in(members: Iterator[bytes], get: Get) -> Iterator[bytes]:
    return (member for member in members if get(member) is not None)


def _those_out(members: Iterator[bytes], get: Get) -> Iterator[bytes]:
    return (member for member in members if get(member) is None)


def _size(source: Source) -> int:
    return source.size

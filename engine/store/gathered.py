"""The gathered records of each column family, for who reads them and for the write to RocksDB."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

from engine import native
from engine.store.store import Get

Records = Iterator[tuple[bytes, bytes]]
Values = dict[bytes, bytes | None]

_UNGATHERED: Final = b"\0ungathered"


class Gathered:
    """The gathered records of one column family.

    Attributes:
        values: key -> value, or None where it is to be deleted. One dict for ever, as getters look into it, from which
            nothing is deleted but all at once: so what is new stands at its end.
    """

    __slots__ = ("_order", "values")

    def __init__(self) -> None:
        self.values: Values = {}
        self._order: list[bytes] = []

    def getter(self, get: Get) -> Get:
        """A function from key to value, by `get` where nothing of the key is gathered."""
        if (module := native.chosen()) is not None:
            getter: Get = module.Getter(self.values, get)
            return getter
        return partial(_get, self.values, get)

    def between(self, start: bytes, end: bytes | None, most: int) -> list[tuple[bytes, bytes | None]] | None:
        """The records with `start <= key < end`, in order; None: they are more than `most`.

        Hot path of a sorted set's writes, which read one of its blocks now and then: what was in order is not sorted
        again.
        """
        values = self.values
        if not values:
            return []
        order = self._order
        if len(order) < len(values):
            if (module := native.chosen()) is not None:
                module.bring_in_order(order, values)
            else:  # a list of its own: another scan may come while this one is suspended
                order = [*order, *islice(values, len(order), None)]
                order.sort()
                self._order = order
        first = bisect_left(order, start)
        last = max(first, len(order) if end is None else bisect_left(order, end))
        return None if last - first > most else [(key, values[key]) for key in order[first:last]]

    def clear(self) -> None:
        """Forget all of it."""
        self.values.clear()
        self._order = []


def gather(gathered: Mapping[str, Values], values: Mapping[str, Values]) -> int:
    """Put the records of each column family among those that are gathered. Returns how many bytes they have.

    All or none: whoever applies a batch may be suspended between two lines of Python, or given up, and others read
    what is gathered meanwhile. So one call into C puts all of them.

    Raises:
        KeyError: there is no such column family; nothing was gathered.
    """
    if (module := native.chosen()) is not None:
        size: int = module.gather(gathered, values)
        return size
    places = [gathered[name] for name in values]
    size = sum([sum(map(len, records)) + sum(map(len, filter(None, records.values()))) for records in values.values()])
    deque(map(dict.update, places, values.values()), maxlen=0)
    return size


def merged(stored: Records, gathered: list[tuple[bytes, bytes | None]], *, reverse: bool = False) -> Records:
    """Stored records, with what is gathered of the same range in their place and between them.

    Args:
        stored: in order, or against it with `reverse`.
        gathered: likewise.
        reverse: see above.
    """
    at, count = 0, len(gathered)
    for record in stored:
        key = record[0]
        while at < count and gathered[at][0] != key and (gathered[at][0] < key) is not reverse:
            yield from _put(gathered[at])
            at += 1
        if at < count and gathered[at][0] == key:
            yield from _put(gathered[at])
            at += 1
        else:
            yield record
    for each in islice(gathered, at, None):
        yield from _put(each)


def _put(record: tuple[bytes, bytes | None]) -> Records:
    key, value = record
    if value is not None:
        yield key, value


def _get(gathered: Values, get: Get, key: bytes) -> bytes | None:
    value = gathered.get(key, _UNGATHERED)
    return get(key) if value is _UNGATHERED else value

"""Scans with RocksDB's iterators, and checks their status: an iterator ends at a damaged block without an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from engine.errors import CorruptionError

Records = Iterator[tuple[bytes, bytes]]


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
        """The key of the record."""

    def value(self) -> Any:
        """The value of the record."""

    def next(self) -> None:
        """Go to the next record."""

    def prev(self) -> None:
        """Go to the record before."""

    def status(self) -> None:
        """Raise what ended the walk, if it was not the end."""


def forward(iterator: RocksIterator, start: bytes, end: bytes | None) -> Records:
    """The records with `start <= key < end`, in order.

    Raises:
        CorruptionError: they end at damage.
    """
    iterator.seek(start)
    while iterator.valid():
        key = iterator.key()
        if end is not None and key >= end:
            return
        yield key, iterator.value()
        iterator.next()
    _check_status(iterator)


def held(iterator: RocksIterator, start: bytes, end: bytes, read_options: object) -> Records:
    """`forward`, in whose frame the read options, and the bound that they point to, outlive every step."""
    yield from forward(iterator, start, end)
    del read_options


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
    while iterator.valid():
        key = iterator.key()
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

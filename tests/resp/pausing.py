"""A server whose commands are suspended where a test wants: at the accesses to its store, whatever the time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from engine.store.memory import MemoryStore
from engine.store.store import Changes, Get
from ingest.applying.slicing.slices import Slices
from tests.layouts import column_families

Wants = Callable[[], bool]
"""Whether to suspend what runs, at an opportunity to do so."""


class PausingStore(MemoryStore):
    """Suspends who reads or writes it, wherever `wants` says so; to write one batch is one step, as in RocksDB.

    Attributes:
        wants: asked at each opportunity.
    """

    def __init__(self, slices: Slices, wants: Wants) -> None:
        super().__init__(column_families())
        self._slices = slices
        self.wants = wants

    def go_on(self) -> None:
        """Suspend nobody any more; who is suspended goes on."""
        self.wants = _never

    def getter(self, column_family: str) -> Get:
        """A function from key to value, which may be suspended before it looks."""
        get = super().getter(column_family)

        def paused(key: bytes) -> bytes | None:
            self._opportunity()
            return get(key)

        return paused

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records, between each two of which the walk may be suspended."""
        records = super().scan(column_family, start, end, reverse=reverse)
        return self._walk(records)

    def write(self, changes: Changes) -> None:
        """Write, and be suspended before or behind it."""
        self._opportunity()
        super().write(changes)
        self._opportunity()

    def _walk(self, records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            self._opportunity()
            yield record

    def _opportunity(self) -> None:
        while self.wants() and self._slices.pause(sys._getframe()):
            pass


def _never() -> bool:
    return False

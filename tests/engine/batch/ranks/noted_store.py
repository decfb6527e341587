"""A store in memory that notes how score keys are read."""

from __future__ import annotations

from collections.abc import Iterator

from engine.layouts.layout import Kind
from engine.store.memory import MemoryStore
from tests.engine.harness import FAMILIES
from tests.layouts import layout_of


class NotedStore(MemoryStore):
    """A store that notes which score keys are read at once, and from where."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.scores = layout_of().families[Kind.SCORES]
        self.starts: list[bytes] = []
        self.scans = self.scanned = 0
        self.lost = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records, counted as a scan if they are score keys."""
        self.scans += column_family == self.scores
        for record in super().scan(column_family, start, end, reverse=reverse):
            self.scanned += column_family == self.scores
            yield record

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The keys, less `lost` of them, as where the store ends at damage."""
        self.starts.append(start)
        found = super().keys(column_family, start, end, most)
        self.scans -= 1
        return found[: len(found) - self.lost]

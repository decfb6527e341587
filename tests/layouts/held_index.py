"""An index in memory, which outlives the stores that use it, and can be told to be away."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import IndexUnavailableError, StateMismatchError
from engine.layouts.index import IndexChanges


class HeldIndex:
    """Sorted sets in dicts. Items of one score come in the order of their bytes, as Redis has them.

    Attributes:
        sets: name -> item -> packed score; no set is empty.
        reached: number of the newest batch.
        is_away: every call fails.
    """

    def __init__(self) -> None:
        self.sets: dict[bytes, dict[bytes, bytes]] = {}
        self.reached: int | None = None
        self.is_away = False

    def number(self) -> int | None:
        """That of the newest batch."""
        self._ask()
        return self.reached

    def apply(self, number: int, changes: IndexChanges) -> None:
        """Apply a batch."""
        self._ask()
        if number != (self.reached or 0) + 1:
            raise StateMismatchError(f"batch {number} after {self.reached}")
        for name in changes.dropped:
            self.sets.pop(name, None)
        for name, items in changes.items.items():
            held = self.sets.pop(name, {})
            for item, score in items.items():
                if score is None:
                    held.pop(item, None)
                else:
                    held[item] = score
            if held:
                self.sets[name] = held
        self.reached = number

    def score(self, name: bytes, item: bytes) -> bytes | None:
        """The packed score of an item."""
        self._ask()
        return self.sets.get(name, {}).get(item)

    def scan(self, name: bytes, low: bytes, high: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """The items between two scores."""
        self._ask()
        found = sorted((score, item) for item, score in self.sets.get(name, {}).items() if low <= score <= high)
        return iter(found[::-1] if reverse else found)

    def names(self) -> Iterator[bytes]:
        """The names of all sets."""
        self._ask()
        return iter(list(self.sets))

    def close(self) -> None:
        """Nothing to release."""

    def _ask(self) -> None:
        if self.is_away:
            raise IndexUnavailableError("the index is away")

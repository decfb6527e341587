"""The protocol of an index outside of the store: sorted sets of items, by name.

An item is a member of a sorted set, or the hash of a long one (`engine.layouts.layout.Indexing`). The index orders
items by their scores; in which order it has those of one score is its own affair.

It and the store are two places that no transaction spans. So every batch that changes the index has a number, one more
than the one before, and is in the store first:

    CF local   index/batch  ->  [number:8] and the changes, as `IndexChanges.pack` writes them

What is there is repeated at the next opening if the index has not come to that number. To apply changes twice is to
apply them once, as they say which score an item has, never by how much it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from engine.errors import CorruptionError
from engine.values.encoding import U32, U64, pack_u64

BATCH: Final = b"index/batch"
"""The record of the newest batch that changed the index."""

_GONE: Final = b""


class IndexChanges:
    """The changes of one batch: first the sets that go, then the items that get a score or go.

    Attributes:
        dropped: names of sets.
        items: name -> item -> packed score, None where the item goes.
    """

    __slots__ = ("dropped", "items")

    def __init__(self) -> None:
        self.dropped: dict[bytes, None] = {}
        self.items: dict[bytes, dict[bytes, bytes | None]] = {}

    def __bool__(self) -> bool:
        return bool(self.dropped or self.items)

    def pack(self) -> bytes:
        """`[count:4]` and the dropped names; then for each set its name, `[count:4]`, and each item with its score.

        Names, items and scores are `[length:4]` and bytes; the score of an item that goes has none.
        """
        pieces = [U32.pack(len(self.dropped))]
        for name in self.dropped:
            pieces += _sized(name)
        for name, items in self.items.items():
            pieces += _sized(name)
            pieces.append(U32.pack(len(items)))
            for item, score in items.items():
                pieces += _sized(item)
                pieces += _sized(score or _GONE)
        return b"".join(pieces)

    @classmethod
    def parse(cls, packed: bytes) -> IndexChanges:
        """What `pack` wrote.

        Raises:
            CorruptionError: it wrote nothing like that.
        """
        changes, at = cls(), U32.size
        count = _number(packed, 0)
        for _ in range(count):
            name, at = _piece(packed, at)
            changes.dropped[name] = None
        while at < len(packed):
            name, at = _piece(packed, at)
            items = changes.items[name] = {}
            count, at = _number(packed, at), at + U32.size
            for _ in range(count):
                item, at = _piece(packed, at)
                score, at = _piece(packed, at)
                items[item] = score or None
        return changes


class Index(Protocol):
    """Sorted sets outside of the store, for one partition.

    Raises:
        IndexUnavailableError: any method, when the index cannot be reached.
    """

    def number(self) -> int | None:
        """That of the newest batch that was applied; None where the index has nothing of this partition.

        Raises:
            StateMismatchError: it is the index of another state.
        """
        ...

    def apply(self, number: int, changes: IndexChanges) -> None:
        """Apply a batch as one, if `number` is one more than that of the newest.

        Raises:
            StateMismatchError: it is not. Nothing was applied.
        """
        ...

    def score(self, name: bytes, item: bytes) -> bytes | None:
        """The packed score of an item; None when it is not there."""
        ...

    def scan(self, name: bytes, low: bytes, high: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """The (packed score, item) pairs with `low <= packed score <= high`, by score, or against that order."""
        ...

    def names(self) -> Iterator[bytes]:
        """The names of all sets, those of other partitions too; one may come twice."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


def pack_batch(number: int, changes: IndexChanges) -> bytes:
    """The content of the record `BATCH`."""
    return pack_u64(number) + changes.pack()


def parse_batch(content: bytes) -> tuple[int, IndexChanges]:
    """What `pack_batch` wrote.

    Raises:
        CorruptionError: it wrote nothing like that.
    """
    if len(content) < U64.size:
        raise _damaged()
    return U64.unpack_from(content)[0], IndexChanges.parse(content[U64.size :])


def _sized(piece: bytes) -> tuple[bytes, bytes]:
    return U32.pack(len(piece)), piece


def _number(packed: bytes, at: int) -> int:
    if len(packed) < at + U32.size:
        raise _damaged()
    number: int = U32.unpack_from(packed, at)[0]
    return number


def _piece(packed: bytes, at: int) -> tuple[bytes, int]:
    start = at + U32.size
    end = start + _number(packed, at)
    if end > len(packed):
        raise _damaged()
    return packed[start:end], end


def _damaged() -> CorruptionError:
    message = (
        "the record of the newest batch of the index cannot be read; rebuild the state with `slotlog replay --swap`"
    )
    return CorruptionError(message)

"""Walks over a column family, owner by owner, for the audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.layouts.records import records_of_kind
from engine.proof.audit.violation import State

HELD_BYTES: Final = 64 * 1024 * 1024
"""How much of what is sorted is held in memory at a time; a quarter more while it is gathered."""

_OBJECT_BYTES: Final = 41  # a bytes object without its bytes, and its place in a list


class RecordCursor:
    """The records of one kind, in their order, each taken once; none where the layout has no such kind.

    Attributes:
        kind: which one.
        column_family: where they are.
        key: that of the next record, None at the end.
    """

    __slots__ = ("_layout", "_records", "_value", "column_family", "key", "kind")

    def __init__(self, state: State, kind: Kind) -> None:
        self.kind = kind
        self._layout = state.layout
        self.column_family = state.layout.families.get(kind, "")
        self._records = records_of_kind(state.store, state.layout, kind) if self.column_family else iter(())
        self.key: bytes | None = None
        self._value = b""
        self._next()

    def under(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Take the records that start with `prefix`, and give them without it. None below it may be left."""
        skip = len(prefix)
        while self.key is not None and self.key.startswith(prefix):
            record = self.key[skip:], self._value
            self._next()
            yield record

    def below(self, prefix: bytes | None) -> Iterator[tuple[bytes, tuple[bytes, int] | None, int]]:
        """Take the records below `prefix` (None: all), in groups of one owner.

        Gives what they begin with, the owner's metadata key and version, and how many they are. Of a record that names
        no owner, the key of it, None and 1.
        """
        while self.key is not None and (prefix is None or self.key < prefix):
            try:
                owner = self._layout.owner(self.kind, self.key)
            except CorruptionError:
                yield self.key, None, 1
                self._next()
                continue
            beginning = self._layout.prefix(self.kind, *owner)
            yield beginning, owner, self.skip(beginning)

    def skip(self, prefix: bytes) -> int:
        """Take the records that start with `prefix`. Returns how many there were."""
        count = 0
        while self.key is not None and self.key.startswith(prefix):
            count += 1
            self._next()
        return count

    def _next(self) -> None:
        self.key, self._value = next(self._records, (None, b""))


def in_order(source: Callable[[], Iterable[bytes]], held_bytes: int | None = None) -> Iterator[bytes]:
    """What `source` gives, which may be asked again and must give the same, all different, in order.

    As much is held as `held_bytes` says; for each so much of it there is one pass over the source.
    """
    held_bytes = held_bytes or HELD_BYTES
    after = b""
    while True:
        chunk, is_cut = _chunk((item for item in source() if item > after), held_bytes)
        yield from chunk
        if not is_cut:
            return
        after = chunk[-1]
        chunk.clear()  # before the next one is gathered


def _chunk(items: Iterable[bytes], held_bytes: int) -> tuple[list[bytes], bool]:
    """The first of `items`, in order, that fit into so much memory, and whether there are more."""
    chunk: list[bytes] = []
    held, bound, is_cut = 0, None, False
    for item in items:
        if bound is not None and item > bound:
            continue
        chunk.append(item)
        held += len(item) + _OBJECT_BYTES
        if held > held_bytes + held_bytes // 4:
            chunk.sort()
            while held > held_bytes and len(chunk) > 1:
                held -= len(chunk.pop()) + _OBJECT_BYTES
            bound, is_cut = chunk[-1], True
    chunk.sort()
    return chunk, is_cut

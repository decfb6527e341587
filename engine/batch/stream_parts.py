"""The state of a stream in a batch, and its records."""

from __future__ import annotations

from engine.batch.overlaid import Records, Subkeys
from engine.model import StreamMetadata


class StreamRecords(Subkeys):
    """The records of the kind STREAM of one version.

    Attributes:
        cut: this batch deletes all stored entries below it by a range, which the store does not know yet.
    """

    __slots__ = ("cut",)

    cut: bytes

    def get(self, subkey: bytes) -> bytes | None:
        """The value of `subkey`, None when it is absent."""
        return None if subkey < self.cut and subkey not in self.changed else super().get(subkey)

    def scan(self, start: bytes = b"", end: bytes | None = None, *, reverse: bool = False) -> Records:
        """As `Subkeys.scan`."""
        if start >= self.cut:
            return super().scan(start, end, reverse=reverse)
        above = super().scan(self.cut, end, reverse=reverse) if end is None or end > self.cut else iter(())
        below = self._changed_between(start, self.cut if end is None else min(end, self.cut))
        if reverse:
            return _chained(above, self._values_of(below[::-1]))
        return _chained(self._values_of(below), above)

    def written(self) -> None:
        """The changes are in the store now, and so is the range delete."""
        super().written()
        self.cut = b""


class StreamParts:
    """A stream's `engine.model.StreamMetadata`, to be changed, and its records.

    Attributes:
        records: of the kind STREAM.
        index: of the kind STREAM_INDEX.
    """

    __slots__ = (
        "end_id", "entries_added", "first_id", "groups", "index", "last_id", "max_deleted_id", "records", "tail_count"
    )  # fmt: skip

    def __init__(self, records: StreamRecords, index: Subkeys, state: StreamMetadata) -> None:
        records.cut = b""
        self.records = records
        self.index = index
        self.restore(state)

    def restore(self, state: StreamMetadata) -> None:
        """Take over a state."""
        (
            self.last_id,
            self.first_id,
            self.end_id,
            self.max_deleted_id,
            self.entries_added,
            self.groups,
            self.tail_count,
        ) = state

    def state(self) -> StreamMetadata:
        """The state as a value."""
        return StreamMetadata(
            self.last_id,
            self.first_id,
            self.end_id,
            self.max_deleted_id,
            self.entries_added,
            self.groups,
            self.tail_count,
        )


def _chained(first: Records, second: Records) -> Records:
    yield from first
    yield from second

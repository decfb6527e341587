"""The state of a stream in a batch, and its records."""

from __future__ import annotations

from engine.batch.overlaid import Records, Scan, Subkeys
from engine.model import StreamMetadata
from engine.store.store import Changes, Get
from engine.tables.compaction_notes import DeletedRange, delete_range
from engine.values.stream_nodes import Node


class StreamRecords(Subkeys):
    """The records of one version of a stream in one column family, of which a batch may delete whole ranges.

    Attributes:
        gone: ranges of subkeys, in order and apart from each other, whose stored records this batch deletes by range,
            which the store does not know yet. What has changed in them since is there.
    """

    __slots__ = ("gone",)

    def __init__(self, column_family: str, get: Get, scan: Scan, prefix: bytes, *, fresh: bool) -> None:
        super().__init__(column_family, get, scan, prefix, fresh=fresh)
        self.gone: list[tuple[bytes, bytes]] = []

    def get(self, subkey: bytes) -> bytes | None:
        """The value of `subkey`, None when it is absent."""
        if self.gone and subkey not in self.changed and any(start <= subkey < end for start, end in self.gone):
            return None
        return super().get(subkey)

    def scan(self, start: bytes = b"", end: bytes | None = None, *, reverse: bool = False) -> Records:
        """As `Subkeys.scan`."""
        return self._around(start, end, reverse=reverse) if self.gone else super().scan(start, end, reverse=reverse)

    def remove_range(self, batch: Changes, start: bytes, end: bytes) -> None:
        """Delete `start <= subkey < end`, which costs the same for any number of records.

        Args:
            batch: what the batch deletes by range.
            start: the first subkey.
            end: the one behind the last.
        """
        delete_range(batch, DeletedRange(self.column_family, self.prefix + start, self.prefix + end))
        for subkey in self.changed_between(start, end):
            self.remove(subkey)
        apart = []
        for low, high in self.gone:
            if high < start or end < low:
                apart.append((low, high))
            else:
                start, end = min(start, low), max(end, high)
        self.gone = sorted([*apart, (start, end)])

    def written(self) -> None:
        """The changes are in the store now, and so are the range deletes."""
        super().written()
        if self.gone:
            self.gone = []

    def _around(self, start: bytes, end: bytes | None, *, reverse: bool) -> Records:
        """A scan that asks the store for nothing that is gone."""
        pieces: list[tuple[bytes, bytes | None, bool]] = []  # from, to, whether what is stored is there
        at = start
        for low, high in self.gone:
            if high <= at or (end is not None and end <= low):
                continue
            if at < low:
                pieces.append((at, low, True))
            at = high if end is None else min(high, end)
            pieces.append((max(start, low), at, False))
        if end is None or at < end:
            pieces.append((at, end, True))
        for low, above, is_stored in reversed(pieces) if reverse else pieces:
            if is_stored:
                yield from super().scan(low, above, reverse=reverse)
            else:
                changed = self.changed_between(low, above)
                yield from self._values_of(changed[::-1] if reverse else changed)


class StreamParts:
    """A stream's `engine.model.StreamMetadata`, to be changed, and its records.

    Attributes:
        records: of the kind STREAM.
        index: of the kind STREAM_INDEX.
        oldest: what is known of the node that the first entry begins; None: nothing. It follows from the entries:
            whatever deletes some must forget it.
    """

    __slots__ = (
        "end_id", "entries_added", "first_id", "groups", "index", "last_id", "max_deleted_id", "oldest", "records",
        "tail_count",
    )  # fmt: skip

    def __init__(self, records: StreamRecords, index: StreamRecords, state: StreamMetadata) -> None:
        self.records = records
        self.index = index
        self.restore(state)

    def restore(self, state: StreamMetadata) -> None:
        """Take over a state."""
        self.oldest: Node | None = None
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

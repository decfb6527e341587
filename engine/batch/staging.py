"""Writes a large collection in parts, ahead of the batch that names it, to bound memory.

RENAME, COPY and the STORE forms make a collection of any size out of a few bytes of event. Whenever much is pending of
it, that is *staged*: written in a batch of its own, without metadata and without the position, under a version that
nothing names yet. The batch that the record belongs to names it. So a reader meets all of the collection or none of it.

    CF local   staged/[version:8]  ->  metadata key     a version that has staged subkeys and is not named

Every staging batch writes that mark, and the naming batch takes it away. A mark that is there at opening, or after a
rollback, belongs to a version that was never named. What is staged under it goes, by range deletes at the head of the
next batch, whichever kind that is; rank counts, of which there are few, one by one. Applied again, the record takes
the same version, as versions follow from position and clock alone, and writes the same bytes. Deleting them first is
for the record that is not applied again because an operator skips it: its subkeys would stay behind without a grave,
and a later record that takes this version for this key would find them in its collection. A reclaimer goes by graves
and never meets what is staged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.layouts.layout import Kind, Layout
from engine.layouts.records import records_of
from engine.store.store import LOCAL_CF, Changes, Store
from engine.tables.compaction_notes import DeletedRange, delete_range, notes_in
from engine.values.encoding import pack_u64, parse_u64, prefix_end

STAGED_BYTES: Final = 4 * 1024 * 1024
"""How much may be pending of a collection that is being filled, and how much of all those that a batch has filled.

Staged or not, the bytes on disk are the same: no bound that takes part in applying.
"""

_RECORD_BYTES: Final = 200  # what a pending record takes beside its bytes: two objects and a dict's entry
MARK: Final = b"staged/"
"""What the marks begin with; the version follows."""


class Staging:
    """The staged records of one partition.

    Attributes:
        failure: what the store raised when the last staging batch was written.
        notes: those of deleted ranges (engine/tables/compaction_notes.py) that were written, until somebody who reads
            them clears this.
    """

    __slots__ = ("_clearing", "_layout", "_left", "_pending", "_pending_bytes", "_staged", "_store", "failure", "notes")

    def __init__(self, store: Store, layout: Layout) -> None:
        self.failure: Exception | None = None
        self.notes: set[bytes] = set()
        self._store = store
        self._layout = layout
        # Marks: of this batch, and of versions that were never named.
        self._staged: dict[bytes, bytes] = {}
        self._left = dict(store.scan(LOCAL_CF, MARK, prefix_end(MARK)))
        self._clearing = False
        # Version -> bytes, of what was filled in this batch and is not staged.
        self._pending: dict[int, int] = {}
        self._pending_bytes = 0

    @property
    def is_left(self) -> bool:
        """Whether anything is staged under a version that was never named: it goes with the next batch."""
        return bool(self._left)

    def fill(
        self, key: Key, subkeys: Subkeys, records: Iterable[tuple[bytes, bytes]], batch: Changes, *, families: int
    ) -> int:
        """Put `records` into `subkeys` of `key`, and stage what is pending of `key` when that is much.

        Args:
            key: one that the record at hand has created. Nothing of that record may fail any more.
            subkeys: one of its column families.
            records: subkeys, all different, and their values.
            batch: what the naming batch holds so far.
            families: into how many column families of `key` who makes the records writes, this one included.

        Returns:
            How many records there were.

        Raises:
            Exception: the store's own, which is `failure` then. What the batch has changed must be forgotten.
        """
        changed = subkeys.changed
        count, bound = 0, STAGED_BYTES // families
        room = bound
        for subkey, value in records:
            changed[subkey] = value
            count += 1
            room -= len(subkey) + len(value) + _RECORD_BYTES
            if room < 0:
                self._stage(key, batch)
                room = bound
        pending = (bound - room) * families
        self._pending[key.version] = self._pending.get(key.version, 0) + pending
        self._pending_bytes += pending
        if self._pending_bytes > STAGED_BYTES:
            self._stage(key, batch)
        return count

    def add_to(self, changes: Changes) -> None:
        """Add to the batch that names what was staged that it is named, and that the rest goes."""
        if self._left:
            self._clear_left(changes)
            self._clearing = True
        if self._staged:
            changes.of(LOCAL_CF).update(dict.fromkeys(self._staged))

    def reset(self, *, written: bool) -> None:
        """What `add_to` added is in the store now; or the batch is to be forgotten."""
        if self._clearing and written:
            self._left = {}
        self._clearing = False
        if self._staged:
            if not written:
                self._left.update(self._staged)
            self._staged = {}
        if self._pending:
            self._pending = {}
            self._pending_bytes = 0

    # ------------------------------------------------------------------ inside

    def _stage(self, key: Key, batch: Changes) -> None:
        """Write everything that is pending of `key` and forget it."""
        changes = Changes()
        self._clear_left(changes)
        for subkeys in key.families():
            subkeys.add_to(changes.of(subkeys.column_family))
        mark = MARK + pack_u64(key.version)
        changes.of(LOCAL_CF)[mark] = key.metadata_key
        try:
            self._store.write(changes)
        except Exception as error:
            self.failure = error
            raise
        self.notes.update(notes_in(changes))
        self._left = {}
        if mark not in self._staged:
            self._staged[mark] = key.metadata_key
            self._spare(key, batch)
        for subkeys in key.families():
            subkeys.written()
        self._pending_bytes -= self._pending.pop(key.version, 0)

    def _clear_left(self, changes: Changes) -> None:
        """Delete what is staged under versions that were never named."""
        for mark, metadata_key in self._left.items():
            for records in records_of(self._layout, metadata_key, parse_u64(mark[len(MARK) :])):
                kind, column_family, prefix = records
                if kind is Kind.RANKS:  # one by one: where they are, nothing may be put again in a deleted range
                    counts = changes.of(column_family)
                    for record, _ in records.scan(self._store):
                        counts.setdefault(record, None)  # not what the batch has put again
                else:
                    delete_range(changes, DeletedRange(column_family, prefix, prefix_end(prefix)))
            changes.of(LOCAL_CF)[mark] = None

    def _spare(self, key: Key, batch: Changes) -> None:
        """Take what is staged out of the batch's range deletes: a flush in this batch came before it."""
        for _, staged_in, prefix in records_of(self._layout, key.metadata_key, key.version, key.type):
            ranges = []
            for column_family, start, end in batch.ranges:
                if column_family == staged_in and start <= prefix < end:
                    ranges.append((column_family, start, prefix))
                    ranges.append((column_family, prefix_end(prefix), end))
                else:
                    ranges.append((column_family, start, end))
            batch.ranges = ranges

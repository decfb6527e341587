"""Deletes the elements of dead collections, in slices, in the order of the graveyard.

A small collection goes record by record. A large one goes by range deletes, which cost the same for any size, and is
noted for a compaction (engine/tables/compaction_notes.py), as a range delete alone gives no room back. Either way its
grave goes in the same batch as its records, so a crash at any moment leaves a grave with all of its records, or
neither.

Nothing that a reply, a digest or a replay depends on is touched: no read finds the records of a dead version, and no
version is taken twice. Records that are not there any more, after a FLUSHALL say, are none to delete. What is staged
(engine/batch/staging.py) has no grave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from engine.apply.machine import Machine
from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.layouts.records import RecordRange, records_of
from engine.store.store import GRAVEYARD_CF, LOCAL_CF, Changes, Store
from engine.tables.compaction_notes import DeletedRange, compacted, delete_range, noted, notes_in
from engine.tables.graveyard import CURSOR, Grave, parse_grave
from engine.values.encoding import U64, pack_u64, prefix_end

POINTS_MAX: Final = 1000
"""Up to so many records of a collection are deleted one by one.

Measured on RocksDB: a record 1.2 us, read and deleted, and a tombstone on the disk until the next compaction. A range
delete takes 8 us, and the first read after it 0.2 us for each range delete in the memtable, which are not to be many.
"""

POINT_BYTES_MAX: Final = 1024 * 1024
"""What is read of a collection before it is deleted as a range all the same: its elements may be large."""

_FOUND_MAX: Final = 4 * POINTS_MAX  # in all column families: a hash has two records for each field with a time to live
_GRAVE_RECORDS: Final = 10  # what a grave costs beside its records, in records: seeks, a look whether its key lives
_RANGE_RECORDS: Final = 100  # a range delete, with what it costs the next read


class Reclaimed(NamedTuple):
    """Counts of one slice.

    Attributes:
        graves: collections that are gone for good.
        records: their elements, by their graves; of a string its fragments.
        ranges: range deletes that wait for a compaction now.
        more: graves are left.
    """

    graves: int
    records: int
    ranges: int
    more: bool


class Reclaimer:
    """The walk over one partition's graveyard. A new one goes on from where the last slice of any other ended.

    Args:
        machine: the partition's.
        store: its store. The machine and this are all that write to it.

    Raises:
        CorruptionError: the kept cursor cannot be read.
    """

    def __init__(self, machine: Machine, store: Store) -> None:
        self._machine = machine
        self._store = store
        self._layout = machine.layout
        self._get_metadata = store.getter(self._layout.families[Kind.METADATA])
        self._at = read_cursor(store)
        self._set_backs = len(machine.position.set_backs)
        # A millisecond in the middle of which a slice ended while it was the clock's: a collection with a lower version
        # may have died in it since, behind the walk. It is looked through once more. The same where the walk is ahead
        # of the clock, in graves from before the clock was set back.
        self._open_ms: int | None = None
        self._notes: frozenset[bytes] = frozenset()

    def reclaim(self, records_max: int) -> Reclaimed:
        """One slice, which is written when this returns.

        Args:
            records_max: how many records to look at and delete, at least; a slice ends with a whole collection, so it
                may be `POINTS_MAX` more. A grave counts as ten records, a range delete as a hundred.

        Raises:
            ValueError: the machine has something that is not committed.
            StoreBusyError: nothing was written; may be called again.
            CorruptionError: a grave cannot be read, or names what is alive.
            Exception: the store's own; whether the slice was written is unknown, so store and machine are done for.
        """
        if not self._machine.is_settled:
            message = "the machine has changes that are not committed: commit them, then reclaim"
            raise ValueError(message)
        if len(self._machine.position.set_backs) != self._set_backs:
            self._set_backs = len(self._machine.position.set_backs)
            self._at, self._open_ms = read_cursor(self._store), None
        changes = Changes()
        graves = looked = records = 0
        last: Grave | None = None
        at, more = self._at, False
        for record, content in self._store.scan(GRAVEYARD_CF, self._at, None):
            if looked >= records_max:
                more = True
                break
            last = parse_grave(record, content)
            looked += _GRAVE_RECORDS + self._bury(last, changes)
            changes.of(GRAVEYARD_CF)[record] = None
            graves += 1
            records += last.elements
            at = record + b"\0"
        if last is not None:
            passed_ms = min(last.died_ms, self._machine.position.clock_ms) if self._open_ms is None else self._open_ms
            changes.of(LOCAL_CF)[CURSOR] = pack_u64(passed_ms)
            self._store.write(changes)
            self._machine.notes.update(notes_in(changes))
        more = self._go_on(at, last, more=more)
        return Reclaimed(graves, records, len(changes.ranges), more)

    def ranges(self) -> list[DeletedRange]:
        """Some ranges that wait for their compaction, in order. There may be more afterwards."""
        self._machine.notes.clear()
        ranges, self._notes = noted(self._store)
        return ranges

    def compacted(self, deleted: DeletedRange) -> bool:
        """Delete the note of a compacted range, one of those that `ranges` gave last.

        What was deleted of it since that call goes on waiting: also where it was all of it once more, by a flush.

        Returns:
            False: something was deleted once more of what that call gave.

        Raises:
            Exception: the store's own.
        """
        again = self._notes & self._machine.notes
        self._store.write(compacted(self._store, deleted, self._notes - again))
        return not again

    # ------------------------------------------------------------------ inside

    def _go_on(self, at: bytes, last: Grave | None, *, more: bool) -> bool:
        """Note where the next slice begins, after one that stopped before `at`. Returns whether there is more to do."""
        clock_ms = self._machine.position.clock_ms
        if more:
            self._at = at
            if self._open_ms is None and last is not None and last.died_ms >= clock_ms:
                self._open_ms = clock_ms
            return True
        # At the end nothing is left from before the clock's millisecond, and nothing can come there. What died behind
        # the walk may be a sweep's: then no event follows that would lead here again, so it is looked for at once.
        open_ms, self._open_ms = self._open_ms, None
        self._at = pack_u64(clock_ms if open_ms is None else open_ms)
        return open_ms is not None

    def _bury(self, grave: Grave, changes: Changes) -> int:
        """Add to a batch that the records of a dead collection go. Returns what that costs, in records."""
        stored = self._get_metadata(grave.metadata_key)
        if stored is not None and self._layout.parse_metadata(stored).version == grave.version:
            message = f"the grave of version {grave.version} names a key that is alive"
            raise CorruptionError(f"{message}; rebuild it with `slotlog replay --swap`")
        ranges = records_of(self._layout, grave.metadata_key, grave.version, grave.type)
        if grave.elements <= POINTS_MAX:
            found = self._records(ranges)
            if found is not None:
                for column_family, record in found:
                    changes.of(column_family)[record] = None
                return len(found)
        for _, column_family, prefix in ranges:
            delete_range(changes, DeletedRange(column_family, prefix, prefix_end(prefix)))
        return _RANGE_RECORDS * len(ranges)

    def _records(self, ranges: Sequence[RecordRange]) -> list[tuple[str, bytes]] | None:
        """The column family and key of each record of a collection; None when they are too many, or too large."""
        found: list[tuple[str, bytes]] = []
        read_bytes = 0
        for each in ranges:
            for record, value in each.scan(self._store):
                found.append((each.column_family, record))
                read_bytes += len(record) + len(value)
                if len(found) > _FOUND_MAX or read_bytes > POINT_BYTES_MAX:
                    return None
        return found


def read_cursor(store: Store) -> bytes:
    """Where the walk over the graveyard goes on, as the kept cursor says.

    Raises:
        CorruptionError: it cannot be read.
    """
    cursor = store.getter(LOCAL_CF)(CURSOR) or b""
    if len(cursor) not in {0, U64.size}:
        message = (
            f"the reclaimer's cursor {cursor.hex()} cannot be read; rebuild the state with `slotlog replay --swap`"
        )
        raise CorruptionError(message)
    return cursor

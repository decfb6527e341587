"""Sets a partition's clock back, after a wrong wall clock, by the event SETCLOCK.

Time in a state only grows, and much relies on it. So the event first lets everything end that is over at the old
clock: keys and fields that are due are removed (by whoever applies it, in slices: `DueLeftError` asks for that),
idempotency keys past their window go, every watch is lost. Nothing comes back to life then, and what was cleaned before
makes no difference. Then the clock is the given time, and the cursors of the cleaners stand before it.

    CF system   set_back/<n>  ->  [from_ms:8][to_ms:8]      the n-th time that this has happened

They are kept, for what was recorded under the old clock is still asked for under the new one: an idempotency key is
found until a day of log time has gone by since, `from_ms` and `to_ms` counted as one moment. It is also found while the
clock is less than a day from the key's own time. A clock that was wrong once may be wrong again by as much; then the
event may be sent again within minutes, though log time has gone by in years.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.apply.records import Record
from engine.batch.transaction import Transaction
from engine.errors import DueLeftError
from engine.limits import DEDUP_WINDOW_MS
from engine.store.store import DEDUP_CF, LOCAL_CF, Changes, Store
from engine.tables import dedup
from engine.tables.compaction_notes import DeletedRange, delete_range
from engine.tables.dedup import Deduplicator
from engine.tables.expiry_index import EXPIRY_CURSOR, due_entries
from engine.tables.graveyard import CURSOR as GRAVEYARD_CURSOR
from engine.tables.system import Retimes
from engine.values.encoding import U32, pack_u64


def set_back(tx: Transaction, store: Store, deduplicator: Deduplicator, to_ms: int) -> None:
    """Add to the batch of `tx`, which must be at the old clock, what setting it back to `to_ms` means.

    Raises:
        DueLeftError: something due is left in the store, or something before it is not committed.
    """
    from_ms, pending, left = tx.now_ms, tx.changes(), Changes()
    tx.staging.add_to(left)  # of a batch that was rolled back: it is nobody's change, and may go with this one
    if deduplicator.has_new or _content(pending) != _content(left):
        raise DueLeftError
    if next(due_entries(store, from_ms), None) is not None:
        raise DueLeftError
    local, get = tx.batch.of(LOCAL_CF), store.getter(LOCAL_CF)
    if (get(EXPIRY_CURSOR) or b"") > pack_u64(to_ms + 1):
        local[EXPIRY_CURSOR] = pack_u64(to_ms + 1)
    if (get(GRAVEYARD_CURSOR) or b"") > pack_u64(to_ms):
        local[GRAVEYARD_CURSOR] = pack_u64(to_ms)
    first = dedup.first_kept(store, U32.pack(0), from_ms, deduplicator.set_backs)
    if next(store.scan(DEDUP_CF, U32.pack(0), first), None) is not None:
        delete_range(tx.batch, DeletedRange(DEDUP_CF, U32.pack(0), first))
    if (get(dedup.CURSOR) or b"") > (bucket := U32.pack(to_ms // DEDUP_WINDOW_MS)):
        local[dedup.CURSOR] = bucket
    tx.floors.clear()  # hints of hashes, which say that no field dies before a time of the old clock
    tx.watches.set_back(from_ms, to_ms)
    deduplicator.set_backs = (*deduplicator.set_backs, (from_ms, to_ms))


def _content(changes: Changes) -> object:
    return changes.ranges, {name: records for name, records in changes.values.items() if records}


def retimed(records: Sequence[Record], retimes: Retimes) -> Sequence[Record]:
    """The records with the times that an operator has decided on: none in one of these ranges is later than it says."""
    for begin, end, time_ms in retimes:
        if records and begin <= records[-1][0] and records[0][0] < end:
            records = [
                (record[0], min(record[1], time_ms), *record[2:]) if begin <= record[0] < end else record
                for record in records
            ]
    return records

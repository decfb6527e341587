"""Deletes expired keys and fields in bounded slices.

Physical only: no reply, no digest and no replay knows whether a key that is due is still stored. A key dies as under
DEL, into the graveyard (what was its elements is the reclaimer's, engine/cleaning/reclaim.py); a hash that is alive
loses the fields that are due. A slice is read and written in one call between two batches, so a key cannot be revived
in between.

The walk goes along the expiry index from a kept cursor, since a scan from the head would cross the tombstones of all
that went before (26 ms after 220,000). Behind the cursor nothing due ever appears: what a command writes is listed
later than the clock, or it is a hash that is listed later than it was, and a copy of a hash has no field that is due.
Where the clock is set back (engine/apply/set_back.py), the cursor is as well.

    CF local   cursor/expiry  ->  where the walk goes on (engine/tables/expiry_index.py)
               cursor/dedup   ->  [bucket:4]   the idempotency keys of all buckets before this one are removed
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from engine.apply.machine import Machine
from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.errors import CorruptionError
from engine.model import NONE
from engine.store.store import DEDUP_CF, EXPIRY_CF, LOCAL_CF, Store
from engine.tables import dedup
from engine.tables.compaction_notes import DeletedRange, delete_range
from engine.tables.expiry_index import EXPIRY_CURSOR, parse_entry
from engine.types.hash import field_expiry
from engine.values.encoding import U32, pack_u64, parse_u64, prefix_end

_VALUE_BYTES_MAX: Final = 1024 * 1024
"""Of strings, that a slice reads to remove them: about a millisecond."""

SESSIONS_MAX: Final = 1000
"""That a slice forgets: about a millisecond."""


class Swept(NamedTuple):
    """Counts of one slice.

    Attributes:
        keys: (logical database, name) of the keys that went.
        fields: (logical database, name, number) of hashes that lost fields. One that went with its last fields stands
            in `keys` too, with the number of all of them.
        more: something that is due is left.
        due_ms: since when the first of it is due, by the log's time; 0 when nothing due is left.
        order: (logical database, name) of all of them, in the order of the index: the same whatever the slices are.
    """

    keys: list[tuple[int, bytes]]
    fields: list[tuple[int, bytes, int]]
    more: bool
    due_ms: int
    order: list[tuple[int, bytes]]


class Forgotten(NamedTuple):
    """Counts of deleted records that no lookup could reach any more.

    Attributes:
        dedup_buckets: days of idempotency keys that are past their window.
        sessions: sessions that lost a watch over a day ago and never came back.
        more: sessions are left.
    """

    dedup_buckets: int
    sessions: int
    more: bool


class Sweeper:
    """Cleans one partition. For each machine a new one.

    Args:
        machine: of the partition; nothing else may write to its store.
        store: of the machine.
    """

    def __init__(self, machine: Machine, store: Store) -> None:
        self._machine = machine
        self._store = store
        self._layout = machine.layout
        self._get = store.getter(LOCAL_CF)
        self._set_backs = -1
        self._cursor = self._bucket = b""
        self._follow_clock()

    def expire(self, keys_max: int) -> Swept:
        """Remove up to `keys_max` keys that are due at the partition's clock; a field of a hash counts as a key.

        Fewer where they are large, as the record of a string has its value, up to 128 KiB, and has to be read.

        An entry of the index that no key has (damage) is walked past and left for `slotlog check` to report.

        Raises:
            ValueError: the machine is not settled.
            StoreBusyError: nothing was written; call again.
            Exception: as `Machine.commit`.
        """
        tx = self._machine.begin_cleaning()
        self._follow_clock()
        swept = Swept([], [], more=False, due_ms=0, order=[])
        end = pack_u64(tx.now_ms + 1)
        if self._cursor >= end:
            return swept
        entries = list(islice(self._store.scan(EXPIRY_CF, self._cursor, end), keys_max + 1))
        if not entries:
            self._cursor = end
            return swept
        try:
            cursor = self._sweep(tx, entries, keys_max, swept) or end
            tx.batch.of(LOCAL_CF)[EXPIRY_CURSOR] = cursor
            self._machine.commit(None)
        except Exception:
            self._machine.rollback()
            raise
        self._cursor = cursor
        due_ms = parse_u64(cursor[:8]) if cursor < end else 0
        return swept._replace(more=due_ms > 0, due_ms=due_ms)

    def next_ms(self) -> int:
        """When the first key or field dies that is not swept, of what is committed; 0: none ever does."""
        self._follow_clock()
        first = next(self._store.scan(EXPIRY_CF, self._cursor, None), None)
        return 0 if first is None else parse_u64(first[0][:8])

    def forget(self) -> Forgotten:
        """Delete what no lookup can reach: idempotency keys past their window, sessions that lost long ago.

        Of these up to `SESSIONS_MAX`. What is staged under versions that were never named goes as well.

        Raises:
            ValueError, StoreBusyError, Exception: as `expire`.
        """
        tx = self._machine.begin_cleaning()
        self._follow_clock()
        first = dedup.first_kept(self._store, self._bucket, tx.now_ms, self._machine.position.set_backs)
        buckets = self._drop_buckets(tx, first) if first > self._bucket else 0
        sessions, more = tx.watches.forget(tx.now_ms, SESSIONS_MAX)
        if buckets or sessions or tx.staging.is_left:
            try:
                self._machine.commit(None)
            except Exception:
                self._machine.rollback()
                raise
        self._bucket = first
        return Forgotten(buckets, sessions, more)

    # ------------------------------------------------------------------ inside

    def _follow_clock(self) -> None:
        """Take the cursors as they are kept: at first, and when the clock was set back, as they were then."""
        set_backs = len(self._machine.position.set_backs)
        if set_backs != self._set_backs:
            self._set_backs = set_backs
            self._cursor = self._get(EXPIRY_CURSOR) or b""
            self._bucket = self._get(dedup.CURSOR) or U32.pack(0)

    def _drop_buckets(self, tx: Transaction, first: bytes) -> int:
        """Let go of the idempotency keys before bucket `first`. Returns in how many buckets there were any."""
        buckets, start = 0, self._bucket
        while (record := next(self._store.scan(DEDUP_CF, start, first), None)) is not None:
            buckets += 1
            start = prefix_end(record[0][: U32.size])
        if buckets:
            delete_range(tx.batch, DeletedRange(DEDUP_CF, self._bucket, first))
            tx.batch.of(LOCAL_CF)[dedup.CURSOR] = first
        return buckets

    def _sweep(self, tx: Transaction, entries: list[tuple[bytes, bytes]], keys_max: int, swept: Swept) -> bytes | None:
        """Remove what `entries` stand for. Returns from where on something is left, None when nothing is."""
        left, bytes_max = keys_max, tx.value_bytes + _VALUE_BYTES_MAX
        for entry, content in entries:
            if left <= 0 or tx.value_bytes > bytes_max:
                return entry
            left -= 1
            key = self._listed(tx, entry, content)
            if key is None:
                continue
            times = key.times
            if 0 < key.expire_ms <= tx.now_ms:
                if times is not None and not 0 < times.own_expire_ms <= tx.now_ms:
                    swept.fields.append((tx.db, key.name, key.size))
                tx.clear_away(key)
                swept.keys.append((tx.db, key.name))
                swept.order.append((tx.db, key.name))
            else:
                count = field_expiry.remove_due(tx, key, left + 1)
                if not count:
                    continue  # its metadata lies
                swept.fields.append((tx.db, key.name, count))
                swept.order.append((tx.db, key.name))
                left -= count - 1
                if 0 < -key.place <= tx.now_ms:
                    return entry  # it is listed again, here or further on
        return None

    def _listed(self, tx: Transaction, entry: bytes, content: bytes) -> Key | None:
        """The key that an entry lists, in the database that `tx` turns to; None when no key has such an entry."""
        try:
            place, metadata_key = parse_entry(entry, content)
            stored_db, _, name = self._layout.parse_metadata_key(metadata_key)
        except CorruptionError:
            return None
        if stored_db not in tx.stored_dbs:
            return None
        db = tx.stored_dbs.index(stored_db)
        if db != tx.db:
            tx.select(db)
        key = tx.find_stored(name)
        return key if key.type != NONE and key.place == place and key.metadata_key == metadata_key else None

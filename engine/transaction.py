"""What a command may touch: the keys of one database at one moment of log time, and nothing else.

A transaction gathers the changes of a whole batch of records. `begin` sets the record that is being applied; commands
find, create and delete keys; `changes` turns all of it into one atomic write. Every command checks everything that can
fail before its first change, so there are no savepoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final

from engine.encoding import pack_u64
from engine.errors import WRONG_TYPE, CommandError
from engine.graveyard import pack_grave
from engine.key import Key, Records, Scan, Subkeys
from engine.layouts.base import LIST_START, NONE, STRING, ZSET, Layout
from engine.slots import slot
from engine.splitmix import SplitMix64
from engine.store.base import EXPIRY_CF, GRAVEYARD_CF, Changes, Store

_COUNTER_BITS: Final = 11
_ABOVE_ALL_EXPIRY: Final = b"\xff" * 9  # an entry begins with eight bytes of time
_HINTS_MAX: Final = 10_000
_CACHED_BYTES_MAX: Final = 1024


class Transaction:
    """The overlay of one batch over one partition's store.

    Attributes:
        now_ms: log time of the record that is being applied.
        last_version: the newest version taken.
        rules: the rules number that the partition follows.
        counts: (db, type) -> keys that have a metadata record, due ones included.
        value_bytes: size of the string values that this batch has loaded or written, to bound it.
        written_bytes: size of the string values that the record at hand has written: the same at every replay.
        floors, ceilings: version of a sorted set -> score key below (at or above) which nothing is left, known from
        pops.
            A hint: a scan that starts there crosses no tombstones of what was popped (0.12 us each).
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        partition: int,
        *,
        counts: dict[tuple[int, int], int],
        last_version: int,
        rules: int,
        cached_keys_max: int,
    ) -> None:
        self.now_ms = 0
        self.last_version = last_version
        self.counts = counts
        self.rules = rules
        self.value_bytes = 0
        self.written_bytes = 0
        self._layout = layout
        self._partition = partition
        self._store = store
        self._get_metadata = store.getter(layout.metadata_cf)
        self._get_data = store.getter(layout.data_cf)
        self._get_score = store.getter(layout.score_cf)
        self._scan_data: Scan = partial(_scan, store, layout.data_cf)
        self._scan_score: Scan = partial(_scan, store, layout.score_cf)
        self._offset = 0
        self._draws = 0
        self._db = 0
        self._databases: dict[int, dict[bytes, Key]] = {}
        self._changes = Changes()
        self._flushed: set[int] = set()
        self._keys = self._databases.setdefault(0, {})
        self._cached_keys_max = cached_keys_max
        self._touched: list[Key] = []
        self._large: list[Key] = []
        self.floors: dict[int, bytes] = {}
        self.ceilings: dict[int, bytes] = {}

    @property
    def db(self) -> int:
        """The logical database that the command runs in."""
        return self._db

    def begin(self, offset: int, now_ms: int, db: int) -> None:
        """Turn to the record at `offset`: its time, its database, its own sequence of random draws."""
        self._offset = offset
        self._draws = 0
        self.written_bytes = 0
        self.now_ms = now_ms
        if db != self._db:
            self._db = db
            self._keys = self._databases.setdefault(db, {})

    # ------------------------------------------------------------------ finding

    def find(self, name: bytes) -> Key | None:
        """The key `name` when it is alive: there, and not due."""
        key = self._keys.get(name) or self._load(name)
        if not key.touched:
            key.touched = True
            self._touched.append(key)
        if key.type == NONE or 0 < key.expire_ms <= self.now_ms:
            return None
        return key

    def find_typed(self, name: bytes, type_code: int) -> Key | None:
        """The key `name` when it is alive.

        Raises:
            CommandError: WRONGTYPE, it is alive with another type.
        """
        key = self._keys.get(name) or self._load(name)
        if not key.touched:
            key.touched = True
            self._touched.append(key)
        if key.type == type_code:
            return key if not 0 < key.expire_ms <= self.now_ms else None
        if key.type == NONE or 0 < key.expire_ms <= self.now_ms:
            return None
        raise CommandError(WRONG_TYPE)

    def holds(self, name: bytes) -> bool:
        """Whether the overlay knows this key already; a key that it knows belongs to this partition."""
        return name in self._keys

    # ------------------------------------------------------------------ changing

    def create(self, name: bytes, type_code: int) -> Key:
        """A new, empty collection of `type_code` in the place of whatever `name` held; it never expires."""
        key = self._touch(name)
        self._bury(key)
        key.type = type_code
        key.version = self._next_version()
        key.size = 0
        key.head = key.tail = LIST_START
        self._bind_subkeys(key, fresh=True)
        key.changed = True
        self._count(key)
        return key

    def put_string(self, name: bytes, value: bytes, expire_ms: int = 0) -> None:
        """A string in the place of whatever `name` held. `expire_ms` is absolute, 0 for never."""
        key = self._touch(name)
        if key.type != STRING:
            self._bury(key)
            key.type = STRING
            self._count(key)
        key.value = value
        key.expire_ms = expire_ms
        key.changed = True
        size = len(value)
        self.value_bytes += size
        self.written_bytes += size
        if size > _CACHED_BYTES_MAX:
            self._large.append(key)

    def delete(self, key: Key) -> None:
        """Remove a key that `find` gave. Its subkeys stay behind as orphans: O(1)."""
        self._bury(key)
        key.changed = True

    def expire(self, key: Key, expire_ms: int) -> None:
        """Let a key that `find` gave die at `expire_ms`; 0 for never."""
        key.expire_ms = expire_ms
        key.changed = True

    def flush(self, databases: Sequence[int]) -> None:
        """Remove every key of these databases: by range deletes alone, when no other database has keys left.

        The expiry index is ordered by time, so one database's entries have no range of their own: if others have keys,
        the index is walked once a batch, and each of the database's entries deleted.
        """
        new = [db for db in databases if db not in self._flushed]
        for db in databases:
            self._flush_records(*self._layout.database_range(db))
            for counted in self.counts:
                if counted[0] == db:
                    self.counts[counted] = 0
            self._flushed.add(db)
            self._databases.setdefault(db, {}).clear()
        self._touched = [key for key in self._touched if key.db not in databases]
        if not any(self.counts.values()):
            self._changes.ranges.append((EXPIRY_CF, b"", _ABOVE_ALL_EXPIRY))
            for key in self._touched:  # deleted in this batch: their entries go with the rest
                key.indexed_expire_ms = 0
        elif new:
            self._forget_expiry([self._layout.database_range(db) for db in new])

    def _flush_records(self, start: bytes, end: bytes) -> None:
        for column_family in (self._layout.metadata_cf, self._layout.data_cf, self._layout.score_cf):
            self._changes.ranges.append((column_family, start, end))
            records = self._changes.of(column_family)
            for record in [record for record in records if start <= record < end]:
                del records[record]

    # ------------------------------------------------------------------ randomness

    def random_below(self, bound: int) -> int:
        """The next draw of this record, 0 <= draw < bound: the same at every replay."""
        self._draws += 1
        return SplitMix64.below(self._partition, self._offset, self._draws, bound)

    # ------------------------------------------------------------------ the end of a batch

    def changes(self) -> Changes:
        """Everything that changed since the last `reset`, as one batch. The overlay stays as it is."""
        changes = self._changes.copy()
        metadata = changes.of(self._layout.metadata_cf)
        data, scores = changes.of(self._layout.data_cf), changes.of(self._layout.score_cf)
        expiry = changes.of(EXPIRY_CF)
        pack_metadata = self._layout.pack_metadata
        for key in self._touched:
            if key.changed:
                metadata[key.metadata_key] = None if key.type == NONE else pack_metadata(key)
                if key.indexed_expire_ms != key.expire_ms:
                    _write_expiry(key, expiry)
            if key.type > STRING:
                subkeys = key.data  # written out, as most keys of a batch have changed one subkey: a call costs 0.1 us
                prefix = subkeys.prefix
                for subkey, value in subkeys.changed.items():
                    data[prefix + subkey] = value
                if key.type == ZSET:
                    _write_subkeys(key.scores, scores)
        return changes

    def reset(self, *, written: bool) -> None:
        """Forget the overlay: after its changes were written, or to throw them away.

        After a write its keys stay for the next batches, as many as may be cached: this transaction is the store's only
        writer. Measured on HSET to 10,000 hashes: a key that is still there costs 0.6 us, one that must be read and
        parsed 4 to 6.
        """
        if not written:
            self._databases = {}
            self._large = []
            self._keys = self._databases.setdefault(self._db, {})
            self.floors.clear()
            self.ceilings.clear()
        else:
            self._keep_keys()
            if len(self.floors) + len(self.ceilings) > _HINTS_MAX:
                self.floors.clear()
                self.ceilings.clear()
        self._touched = []
        self._changes = Changes()
        self._flushed.clear()
        self.value_bytes = 0

    def image(self) -> object:
        """Everything that the overlay would write, to be compared with another image. Slow: for tests."""
        keys = [
            (
                (key.db, key.name, self._layout.pack_metadata(key), dict(key.data.changed))
                + ((dict(key.scores.changed),) if key.type == ZSET else ())
            )
            if key.type > STRING
            else (key.db, key.name, key.type, key.expire_ms, key.value)
            for key in self._touched
            if key.changed or (key.type > STRING and key.data.changed)
        ]
        return sorted(keys, key=repr), dict(self.counts), self.last_version, len(self._changes.ranges)

    # ------------------------------------------------------------------ inside

    def _load(self, name: bytes) -> Key:
        """The key `name` from the store: no batch of late has met it."""
        db = self._db
        key = Key(db, name, self._layout.metadata_key(db, slot(name), name))
        stored = None if db in self._flushed else self._get_metadata(key.metadata_key)
        if stored is not None:
            found = self._layout.parse_metadata(stored)
            key.type, key.expire_ms, key.version, key.size, key.head, key.tail, key.value = found
            key.indexed_expire_ms = key.expire_ms
            self.value_bytes += len(key.value)
            if key.type > STRING:
                self._bind_subkeys(key, fresh=False)
        self._keys[name] = key
        if len(name) + len(key.value) > _CACHED_BYTES_MAX:
            self._large.append(key)
        return key

    def _touch(self, name: bytes) -> Key:
        """The key `name` as it is, noted as one that this batch may change."""
        key = self._keys.get(name) or self._load(name)
        if not key.touched:
            key.touched = True
            self._touched.append(key)
        return key

    def _keep_keys(self) -> None:
        """Make the keys of this batch, which is written, ready for the next one, and forget what is too much."""
        for key in self._touched:
            key.touched = False
            key.changed = False
            key.indexed_expire_ms = key.expire_ms
            if key.type > STRING:
                subkeys = key.data  # written out, as above
                subkeys.changed.clear()
                subkeys.fresh = False
                if subkeys.order:
                    subkeys.order = []
                if key.type == ZSET:
                    key.scores.written()
        for key in self._large:
            self._databases[key.db].pop(key.name, None)
        self._large = []
        surplus = sum(map(len, self._databases.values())) - self._cached_keys_max
        if surplus > 0:  # the oldest go, a quarter more than needed so that this is seldom
            surplus += self._cached_keys_max // 4
            for keys in self._databases.values():
                for name in list(islice(keys, surplus)):
                    del keys[name]
                    surplus -= 1

    def _bind_subkeys(self, key: Key, *, fresh: bool) -> None:
        prefix = self._layout.subkey_prefix(key.metadata_key, key.version)
        key.data = Subkeys(prefix, self._get_data, self._scan_data, fresh=fresh)
        if key.type == ZSET:
            prefix = self._layout.score_prefix(key.metadata_key, key.version)
            key.scores = Subkeys(prefix, self._get_score, self._scan_score, fresh=fresh)

    def _next_version(self) -> int:
        """The version of a new collection: from the log's time, never twice (engine/FORMAT.md, "Type codes")."""
        self.last_version = max(self.last_version + 1, self.now_ms * 1000 << _COUNTER_BITS)
        return self.last_version

    def _bury(self, key: Key) -> None:
        """Take away what `key` holds, if anything; a collection leaves its elements and a graveyard entry behind."""
        if key.type == NONE:
            return
        if key.type > STRING:
            # Its unwritten subkeys are written all the same: with smaller batches they would have been, and the bytes
            # on disk must not depend on where a batch ended.
            _write_subkeys(key.data, self._changes.of(self._layout.data_cf))
            if key.type == ZSET:
                _write_subkeys(key.scores, self._changes.of(self._layout.score_cf))
            if key.size:
                grave, content = pack_grave(self.now_ms, key)
                self._changes.of(GRAVEYARD_CF)[grave] = content
        self.counts[key.db, key.type] -= 1
        key.type = NONE
        key.expire_ms = 0
        key.value = b""

    def _count(self, key: Key) -> None:
        counted = key.db, key.type
        self.counts[counted] = self.counts.get(counted, 0) + 1

    def _forget_expiry(self, ranges: list[tuple[bytes, bytes]]) -> None:
        entries = self._changes.of(EXPIRY_CF)
        for entry, _ in self._store.scan(EXPIRY_CF, b"", None):
            if any(start <= entry[8:] < end for start, end in ranges):
                entries[entry] = None


def _scan(store: Store, column_family: str, start: bytes, end: bytes, reverse: bool) -> Records:
    return store.scan(column_family, start, end, reverse=reverse)


def _write_expiry(key: Key, expiry: dict[bytes, bytes | None]) -> None:
    """Move a key's entry in the expiry index."""
    if key.indexed_expire_ms:
        expiry[pack_u64(key.indexed_expire_ms) + key.metadata_key] = None
    if key.expire_ms:
        expiry[pack_u64(key.expire_ms) + key.metadata_key] = b""


def _write_subkeys(subkeys: Subkeys, records: dict[bytes, bytes | None]) -> None:
    """Add the changed subkeys to the records of their column family."""
    prefix = subkeys.prefix
    for subkey, value in subkeys.changed.items():
        records[prefix + subkey] = value

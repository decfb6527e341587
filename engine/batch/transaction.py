"""The interface of a command to the state: finds, creates and deletes keys of one database at one log time.

A transaction gathers the changes of a whole batch of records. Commands find keys as `Lookup` says, create and delete
them; `changes` turns all of it into one atomic write. Every command checks everything that can fail before its first
change, so there are no savepoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from engine.batch.in_memory.overlay import CACHED_BYTES_MAX
from engine.batch.in_memory.writing import bury_subkeys
from engine.batch.keys import fragments
from engine.batch.keys.key import Key
from engine.batch.lookup import Lookup
from engine.batch.overlaid import Subkeys
from engine.batch.ranks.rank_records import RankCounts
from engine.batch.runner import NO_RUNNER
from engine.batch.staging import Staging
from engine.errors import CommandError, CorruptionError
from engine.layouts.layout import Form, Layout
from engine.model import LIST_START, NONE, STRING, Times
from engine.store.store import Changes, Store
from engine.tables.libraries import Libraries
from engine.tables.scripts import Scripts
from engine.tables.watches import Watches

_COUNTER_BITS: Final = 11
_HINTS_MAX: Final = 10_000


class Transaction(Lookup):
    """The overlay of one batch over one partition's store.

    Attributes:
        watches: what sessions watch.
        scripts, libraries, runner: those that are stored, and what runs them.
        staging: what large collections have written ahead of the batch.
        batch: what is to be written beside the keys and watches.
        last_version: the newest version taken.
        forms: which forms of our own the layout can hold.
        rules: the rules number that the partition follows.
        counts: (stored db, type) -> keys that have a metadata record, due ones included.
        floors, ceilings: version of a sorted set -> score key below (at or above) which pops have left nothing; of a
            hash -> `FieldTimes.floor`. Hints: a scan from there crosses no tombstones of what went (0.12 us each).
    """

    # Beyond 30 attributes, with those of `Lookup`, CPython keeps an object's in a dict of its own: 0.1 us more for each
    # event (measured).
    __slots__ = (
        "_families", "_layout", "batch", "ceilings", "counts", "floors", "forms", "last_version", "libraries", "rules",
        "runner", "scripts", "staging", "watches",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        layout: Layout,
        partition: int,
        *,
        counts: dict[tuple[int, int], int],
        last_version: int,
        rules: int,
        stored_dbs: tuple[int, ...],
        key_cache_bytes: int,
    ) -> None:
        super().__init__(store, layout, partition, stored_dbs, key_cache_bytes)
        self.watches = Watches(store)
        self.scripts, self.libraries, self.runner = Scripts(store), Libraries(store), NO_RUNNER
        self.staging = Staging(store, layout)
        self.last_version, self.counts, self.rules = last_version, counts, rules
        self.forms, self._layout = layout.forms, layout
        self._families = self._overlay.families
        self.batch = Changes()
        self.floors: dict[int, bytes] = {}
        self.ceilings: dict[int, bytes] = {}

    def create(self, name: bytes, type_code: int) -> Key:
        """A new, empty collection of `type_code` in the place of whatever `name` held; it never expires."""
        key = self._keys.get(name) or self._load(name)  # `_touch` without the call
        if not key.touched:
            key.touched = True
            self._touched.append(key)
        if key.type != NONE:
            self._bury(key)
        key.type = type_code
        version = self.now_ms * 1000 << _COUNTER_BITS  # from the log's time, never twice (engine/FORMAT.md)
        if version <= self.last_version:
            version = self.last_version + 1
        key.version = self.last_version = version
        key.size = 0
        key.head = key.tail = LIST_START
        self._families.bind(key, True)
        key.changed = True
        self._count(key)
        return key

    def put_string(self, name: bytes, value: bytes, expire_ms: int = 0) -> None:
        """A string in the place of whatever `name` held. `expire_ms` is absolute, 0 for never."""
        key = self._keys.get(name) or self._load(name)  # `_touch` without the call, 1 % of a SET
        if not key.touched:
            key.touched = True
            self._touched.append(key)
        if key.type != STRING or key.version:
            if key.type != NONE:
                self._bury(key)
            key.type = STRING
            self._count(key)
        size = len(value)
        if size > CACHED_BYTES_MAX:
            if fragments.is_fragmented(size, self.forms):
                fragments.write(self.create(name, STRING), 0, value)
                value = b""
            else:
                self._overlay.large.append(key)
        key.value = value
        key.expire_ms = expire_ms
        key.changed = True
        self.value_bytes += size
        self.written_bytes += size

    def delete(self, key: Key) -> None:
        """Remove a key that `find` gave. Its subkeys stay behind as orphans: O(1)."""
        self._bury(key)
        key.changed = True

    def clear_away(self, key: Key) -> None:
        """As `delete`, for a cleaner: who was due is asked for no more, so it leaves memory with its batch."""
        self.delete(key)
        self._overlay.large.append(key)

    def expire(self, key: Key, expire_ms: int) -> None:
        """Let a key that `find` gave die at `expire_ms`; 0 for never."""
        size = len(key.value)
        if size > CACHED_BYTES_MAX and fragments.is_fragmented(size, self.forms):  # read from an earlier record
            self.put_string(key.name, key.value, expire_ms)
            return
        key.expire_ms = expire_ms
        key.changed = True
        if key.times is not None:
            key.times.own_expire_ms = expire_ms
            key.settle()

    def move(self, name: bytes) -> None:
        """Write the string `name`, which is in an earlier record, in the form of the layout: for a cleaner.

        Raises:
            CorruptionError: it has a metadata record as well.
        """
        if not self._overlay.is_earlier(key := self.find_stored(name)):
            raise CorruptionError("a string is stored in two forms; see `slotlog check`")
        self.expire(key, key.expire_ms)

    def start_times(self, key: Key) -> None:
        """Let a hash, of which `Key.settle` follows, have fields with a time to live from now on.

        Raises:
            CommandError: the layout cannot hold them. Who has changed anything by then has asked `require` before.
        """
        self.require(Form.FIELD_TIMES)
        self._overlay.let_go(key)
        self._families.bind_times(key, Times(0, key.expire_ms, 0), fresh=True)

    @property
    def stamps_fields(self) -> bool:
        """`Layout.stamps_fields`: then `start_times` is for hashes without fields, `field_expiry.start` for all."""
        return self._families.stamps_fields

    def require(self, form: Form) -> None:
        """Refuse a command that needs a form which the layout does not have.

        Raises:
            CommandError: it has none.
        """
        if form not in self.forms:
            raise CommandError(f"ERR the layout {self._layout.name} cannot hold {form.value}")

    def start_ranks(self, key: Key) -> RankCounts:
        """Let a sorted set, which is `changed`, have rank counts from now on."""
        return self._families.bind_ranks(key, fresh=True)

    def flush(self, databases: Sequence[int]) -> None:
        """Remove every key of these databases, given by their stored numbers."""
        for counted in self.counts:
            if counted[0] in databases:
                self.counts[counted] = 0
        self._overlay.flush(databases, self.batch, others=any(self.counts.values()))

    def create_copy(self, name: bytes, source: Key) -> Key:
        """A new collection, or string in fragments, of the form of `source`, without subkeys. It must be filled."""
        key = self.create(name, source.type)
        key.expire_ms, key.size, key.head, key.tail = source.expire_ms, source.size, source.head, source.tail
        self._families.bind_as(key, source)
        return key

    def fill(self, key: Key, subkeys: Subkeys, records: Iterable[tuple[bytes, bytes]], *, families: int = 1) -> int:
        """Put any number of records into a collection that this record has created: see `Staging.fill`."""
        return self.staging.fill(key, subkeys, records, self.batch, families=families)

    def changes(self) -> Changes:
        """Everything that changed since the last `reset`, as one batch. The overlay stays as it is."""
        changes = self.batch.copy()
        self._overlay.add_to(changes, self.last_version)
        self.watches.add_to(changes)
        self.staging.add_to(changes)
        return changes

    def reset_read(self) -> None:
        """As `reset`, when nothing has changed: what reads have loaded stays, as much as may be in memory."""
        self._overlay.weigh_read()
        self.reset(written=True)

    def reset(self, *, written: bool) -> None:
        """Forget the overlay: after its changes were written, or to throw them away.

        After a write its keys stay for the next batches, as many as may be cached.
        """
        if written:
            self._overlay.keep()
        else:
            self._overlay.forget()
            self.select(self.db)
        if not written or len(self.floors) + len(self.ceilings) > _HINTS_MAX:
            self.floors.clear()
            self.ceilings.clear()
        self._observer.forget()
        self.scripts.reset(written=written)
        self.libraries.reset(written=written)
        self.watches.reset(written=written)
        self.staging.reset(written=written)
        self.batch = Changes()
        self.value_bytes = 0

    def image(self) -> object:
        """Everything that the overlay would write, to be compared with another image. Slow: for tests."""
        others = (dict(self.counts), self.last_version, len(self.batch.ranges), self.stored_dbs)
        return self._overlay.image(), others, self.watches.image(), self.scripts.image(), self.libraries.image()

    # ------------------------------------------------------------------ inside

    def _bury(self, key: Key) -> None:
        """Take away what `key` holds; a collection leaves its elements and a graveyard entry behind."""
        if key.version:
            self._overlay.let_go(key)
            bury_subkeys(key, self.now_ms, self.last_version, self.batch)
        self.counts[key.db, key.type] -= 1
        key.type = NONE
        key.expire_ms = 0
        key.value = b""

    def _count(self, key: Key) -> None:
        counted = key.db, key.type
        self.counts[counted] = self.counts.get(counted, 0) + 1

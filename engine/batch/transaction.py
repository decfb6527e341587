"""The interface of a command to the state: the keys of one database at one log time.

A transaction gathers the changes of a whole batch of records. `begin` sets the record that is being applied; commands
find, create and delete keys; `changes` turns all of it into one atomic write. Every command checks everything that can
fail before its first change, so there are no savepoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from engine.batch import fragments
from engine.batch.cursors import Cursors
from engine.batch.effects import Effect, EffectObserver
from engine.batch.key import Key
from engine.batch.keyspace import Keyspace
from engine.batch.object_encoding import DEFAULT_KNOBS
from engine.batch.overlaid import Subkeys
from engine.batch.overlay import CACHED_BYTES_MAX, Loading, Overlay
from engine.batch.rank_records import RankCounts
from engine.batch.runner import NO_RUNNER
from engine.batch.staging import Staging
from engine.batch.writing import bury_subkeys
from engine.errors import WRONG_TYPE, CommandError, CorruptionError
from engine.layouts.layout import Form, Layout
from engine.model import LIST_START, NONE, STRING, Times
from engine.store.store import Changes, Store
from engine.tables.libraries import Libraries
from engine.tables.scripts import Scripts
from engine.tables.watches import Watches
from engine.values.splitmix import SplitMix64

_COUNTER_BITS: Final = 11
_HINTS_MAX: Final = 10_000
_READ_KEYS_MAX: Final = 256
_READ_BYTES_MAX: Final = 1024 * 1024


class Transaction:
    """The overlay of one batch over one partition's store.

    Attributes:
        now_ms, offset: log time and offset of the record that is being applied.
        session: of the record that is being applied, if it names one.
        watches: what sessions watch.
        scripts, libraries, runner: those that are stored, and what runs them.
        staging: what large collections have written ahead of the batch.
        batch: what is to be written beside the keys and watches.
        last_version: the newest version taken.
        forms: which forms of our own the layout can hold.
        rules: the rules number that the partition follows.
        counts: (stored db, type) -> keys that have a metadata record, due ones included.
        stored_dbs: by logical database, the number under which its records are stored: another one after SWAPDB.
        value_bytes: size of the string values that this batch has loaded or written, to bound it.
        written_bytes: size of the string values that the record at hand has written: the same at every replay.
        draws: the number of the last random draw of the record at hand.
        floors, ceilings: version of a sorted set -> score key below (at or above) which pops have left nothing; of a
            hash -> `FieldTimes.floor`. Hints: a scan from there crosses no tombstones of what went (0.12 us each).
        cursors, knobs: what SCAN goes on from and what OBJECT ENCODING compares with. Node-local: no event reads them.
    """

    # Beyond 30 attributes CPython keeps an object's in a dict of its own: 0.1 us more for each event (measured).
    __slots__ = (
        "_db", "_families", "_keys", "_layout", "_observed", "_observer", "_overlay", "_partition", "_touched", "batch",
        "ceilings", "counts", "cursors", "draws", "floors", "forms", "knobs", "last_version", "libraries", "now_ms",
        "offset", "rules", "runner", "scripts", "session", "staging", "stored_dbs", "value_bytes", "watches",
        "written_bytes",
    )  # fmt: skip

    overlay_of: ClassVar[type[Overlay]] = Overlay

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
        cached_keys_max: int,
    ) -> None:
        self.now_ms = 0
        self.session: bytes | None = None
        self.watches = Watches(store)
        self.scripts, self.libraries, self.runner = Scripts(store), Libraries(store), NO_RUNNER
        self.staging = Staging(store, layout)
        self.stored_dbs = stored_dbs
        self.last_version, self.counts, self.rules = last_version, counts, rules
        self.value_bytes = self.written_bytes = 0
        self.forms, self._layout, self._partition = layout.forms, layout, partition
        self._overlay = self.overlay_of(store, layout, cached_keys_max)
        self._touched, self._families = self._overlay.touched, self._overlay.families
        self.offset = self.draws = self._db = 0
        self.batch, self.cursors = Changes(), Cursors()
        self._observer, self._observed = EffectObserver(), False
        self._keys: dict[bytes, Key] | EffectObserver
        self.select(0)
        self.floors: dict[int, bytes] = {}
        self.ceilings: dict[int, bytes] = {}
        self.knobs: Mapping[str, int] = DEFAULT_KNOBS

    @property
    def db(self) -> int:
        """The logical database that the command runs in."""
        return self._db

    @property
    def stored_db(self) -> int:
        """The number under which the records of that database are stored."""
        return self.stored_dbs[self._db]

    def begin(self, offset: int, now_ms: int, db: int) -> None:
        """Turn to the record at `offset`: its time, its database, its own sequence of random draws."""
        self.offset = offset
        self.draws = 0
        self.written_bytes = 0
        self.now_ms = now_ms
        if db != self._db:
            self.select(db)

    def select(self, db: int) -> None:
        """Turn to another logical database for the rest of the record."""
        self._db = db
        keys = self._overlay.databases.setdefault(self.stored_dbs[db], {})
        if self._observed:
            self._observer.turn_to(db, keys)
        else:
            self._keys = keys

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

    find_to_write = find_typed  # for blind writes; engine/batch/uncounted.py has another one

    def holds(self, name: bytes) -> bool:
        """Whether the overlay knows this key already; a key that it knows belongs to this partition."""
        return name in self._keys

    def is_due(self, names: list[bytes] | None, after_ms: int, wall_ms: int) -> bool:
        """Whether one of these keys, which were just looked for, or a field, dies behind `after_ms`, by `wall_ms`.

        None: one of all that are in memory, where nobody can tell which of them the command has read.
        """
        known = self._overlay.databases[self.stored_db] if names is None else names
        return any(self.is_due_soon(name, after_ms, wall_ms) for name in known)

    def is_due_soon(self, name: bytes, after_ms: int, wall_ms: int) -> bool:
        """`is_due` of one key."""
        return (key := self._keys.get(name)) is not None and key.dies_between(after_ms, wall_ms)

    def find_stored(self, name: bytes) -> Key:
        """The key `name` as it is, due or not, for a cleaner: it stays in memory only if it was there."""
        if name not in self._keys:
            self._overlay.large.append(self._load(name))
        return self._touch(name)

    @property
    def loading(self) -> Loading | None:
        """As `Overlay.loading`."""
        return self._overlay.loading

    def is_crowded(self) -> bool:
        """Whether reads alone have loaded so much that it should be forgotten."""
        return len(self._touched) > _READ_KEYS_MAX or self.value_bytes > _READ_BYTES_MAX

    def keyspace(self) -> Keyspace:
        """All keys of the database that the command runs in, due ones included."""
        return self._overlay.keyspace(self.stored_db)

    # ------------------------------------------------------------------ changing

    def create(self, name: bytes, type_code: int) -> Key:
        """A new, empty collection of `type_code` in the place of whatever `name` held; it never expires."""
        key = self._touch(name)
        self._bury(key)
        key.type = type_code
        key.version = self._next_version()
        key.size = 0
        key.head = key.tail = LIST_START
        self._families.bind(key, fresh=True)
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

    def observe(self) -> None:
        """Note from now on which keys the command looks at, until `end_observation`."""
        self._observed = True
        self._keys = self._observer
        self._observer.begin(self.now_ms)
        self.select(self._db)

    def lost_field(self, key: Key) -> None:
        """Note that a field of `key` that was due is replaced."""
        if self._observed:
            self._observer.lost_field(key)

    def end_observation(self) -> list[Effect]:
        """The keys that were modified since `observe`."""
        self._observed = False
        self._keys = self._observer.keys
        return self._observer.effects()

    def random_below(self, bound: int) -> int:
        """The next draw of this record, 0 <= draw < bound: the same at every replay."""
        self.draws += 1
        return SplitMix64.below(self._partition, self.offset, self.draws, bound)

    def changes(self) -> Changes:
        """Everything that changed since the last `reset`, as one batch. The overlay stays as it is."""
        changes = self.batch.copy()
        self._overlay.add_to(changes, self.last_version)
        self.watches.add_to(changes)
        self.staging.add_to(changes)
        return changes

    def reset(self, *, written: bool) -> None:
        """Forget the overlay: after its changes were written, or to throw them away.

        After a write its keys stay for the next batches, as many as may be cached.
        """
        if written:
            self._overlay.keep()
        else:
            self._overlay.forget()
            self.select(self._db)
            self.scripts.load()
            self.libraries.load()
        if not written or len(self.floors) + len(self.ceilings) > _HINTS_MAX:
            self.floors.clear()
            self.ceilings.clear()
        self._observer.forget()
        self.watches.reset(written=written)
        self.staging.reset(written=written)
        self.batch = Changes()
        self.value_bytes = 0

    def image(self) -> object:
        """Everything that the overlay would write, to be compared with another image. Slow: for tests."""
        others = (dict(self.counts), self.last_version, len(self.batch.ranges), self.stored_dbs)
        return self._overlay.image(), others, self.watches.image(), self.scripts.image(), self.libraries.image()

    # ------------------------------------------------------------------ inside

    def _load(self, name: bytes) -> Key:
        """The key `name` from the store: it is not cached."""
        key = self._overlay.load(self.stored_dbs[self._db], name)
        self._keys[name] = key
        self.value_bytes += len(key.value)
        return key

    def _touch(self, name: bytes) -> Key:
        """The key `name` as it is, noted as one that this batch may change."""
        key = self._keys.get(name) or self._load(name)
        if not key.touched:
            key.touched = True
            self._touched.append(key)
        return key

    def _next_version(self) -> int:
        """The version of a new collection: from the log's time, never twice (engine/FORMAT.md, "Type codes")."""
        self.last_version = max(self.last_version + 1, self.now_ms * 1000 << _COUNTER_BITS)
        return self.last_version

    def _bury(self, key: Key) -> None:
        """Take away what `key` holds, if anything; a collection leaves its elements and a graveyard entry behind."""
        if key.type == NONE:
            return
        if key.version:
            bury_subkeys(key, self.now_ms, self.last_version, self.batch)
        self.counts[key.db, key.type] -= 1
        key.type = NONE
        key.expire_ms = 0
        key.value = b""

    def _count(self, key: Key) -> None:
        counted = key.db, key.type
        self.counts[counted] = self.counts.get(counted, 0) + 1

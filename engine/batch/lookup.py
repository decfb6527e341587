"""Finds the keys of one database at one log time, for commands: the half of a transaction that changes nothing.

`begin` sets the record that is being applied. What is found stays in the overlay of the batch, so a command reads what
earlier commands of the same batch wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from engine.batch.cursors import Cursors
from engine.batch.effects import Effect, EffectObserver
from engine.batch.in_memory.memory import MemoryHeld
from engine.batch.in_memory.overlay import Loading, Overlay
from engine.batch.keys.key import Key
from engine.batch.keys.object_encoding import DEFAULT_KNOBS
from engine.batch.keyspace import Keyspace
from engine.errors import WRONG_TYPE, CommandError
from engine.layouts.layout import Layout
from engine.model import NONE
from engine.store.store import Store
from engine.values.splitmix import SplitMix64

_READ_KEYS_MAX: Final = 256
_READ_BYTES_MAX: Final = 1024 * 1024


class Lookup:
    """The keys of one partition as the batch has left them so far.

    Attributes:
        db: the logical database that the command runs in.
        now_ms, offset: log time and offset of the record that is being applied.
        session: of the record that is being applied, if it names one.
        stored_dbs: by logical database, the number under which its records are stored: another one after SWAPDB.
        value_bytes: size of the string values that this batch has loaded or written, to bound it.
        written_bytes: size of the string values that the record at hand has written: the same at every replay. Only a
            transaction or a script is asked for it, and begins at 0; between them it may have those of several records.
        draws: the number of the last random draw of the record at hand.
        cursors, knobs: what SCAN goes on from and what OBJECT ENCODING compares with. Node-local: no event reads them.
    """

    __slots__ = (
        "_keys", "_observed", "_observer", "_overlay", "_partition", "_touched", "cursors", "db", "draws", "knobs",
        "now_ms", "offset", "session", "stored_dbs", "value_bytes", "written_bytes",
    )  # fmt: skip

    overlay_of: ClassVar[type[Overlay]] = Overlay

    def __init__(
        self, store: Store, layout: Layout, partition: int, stored_dbs: tuple[int, ...], key_cache_bytes: int
    ) -> None:
        self.now_ms = 0
        self.session: bytes | None = None
        self.stored_dbs = stored_dbs
        self.value_bytes = self.written_bytes = 0
        self._partition = partition
        self._overlay = self.overlay_of(store, layout, key_cache_bytes)
        self._touched = self._overlay.touched
        self.offset = self.draws = self.db = 0
        self.cursors = Cursors()
        self.knobs: Mapping[str, int] = DEFAULT_KNOBS
        self._observer, self._observed = EffectObserver(), False
        self._keys: dict[bytes, Key] | EffectObserver
        self.select(0)

    @property
    def stored_db(self) -> int:
        """The number under which the records of that database are stored."""
        return self.stored_dbs[self.db]

    def begin(self, offset: int, now_ms: int, db: int) -> None:
        """Turn to the record at `offset`: its time, its database, its own sequence of random draws."""
        self.offset = offset
        self.draws = 0
        self.written_bytes = 0
        self.now_ms = now_ms
        if db != self.db:
            self.select(db)

    def select(self, db: int) -> None:
        """Turn to another logical database for the rest of the record."""
        self.db = db
        keys = self._overlay.databases.setdefault(self.stored_dbs[db], {})
        if self._observed:
            self._observer.turn_to(db, keys)
        else:
            self._keys = keys

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
            return key if not key.expire_ms or not 0 < key.expire_ms <= self.now_ms else None  # most never expire
        if key.type == NONE or 0 < key.expire_ms <= self.now_ms:
            return None
        raise CommandError(WRONG_TYPE)

    find_to_write = find_typed  # for blind writes; engine/batch/variants/uncounted.py has another one

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

    @property
    def held(self) -> MemoryHeld:
        """What is in memory between batches."""
        return self._overlay.held()

    def is_crowded(self) -> bool:
        """Whether reads alone have loaded so much that it should be forgotten."""
        return len(self._touched) > _READ_KEYS_MAX or self.value_bytes > _READ_BYTES_MAX

    def keyspace(self) -> Keyspace:
        """All keys of the database that the command runs in, due ones included."""
        return self._overlay.keyspace(self.stored_db)

    def observe(self) -> None:
        """Note from now on which keys the command looks at, until `end_observation`."""
        self._observed = True
        self._keys = self._observer
        self._observer.begin(self.now_ms)
        self.select(self.db)

    def lost_field(self, key: Key) -> None:
        """Note that a field of `key` that was due is replaced."""
        if self._observed:
            self._observer.lost_field(key)

    def note_done(self, name: bytes, event: bytes) -> None:
        """Note that the command has changed a key in another way, which has a keyspace event of its own."""
        if self._observed:
            done = self._observer.done
            done[name] = (*done.get(name, ()), event)

    def done_to(self, name: bytes) -> tuple[bytes, ...]:
        """What was noted of a key since `observe`."""
        return self._observer.done.get(name, ())

    def end_observation(self) -> list[Effect]:
        """The keys that were modified since `observe`."""
        self._observed = False
        self._keys = self._observer.keys
        return self._observer.effects()

    def random_below(self, bound: int) -> int:
        """The next draw of this record, 0 <= draw < bound: the same at every replay."""
        self.draws += 1
        return SplitMix64.below(self._partition, self.offset, self.draws, bound)

    def _load(self, name: bytes) -> Key:
        """The key `name` from the store: it is not cached."""
        key = self._overlay.load(self.stored_dbs[self.db], name)
        self._keys[name] = key
        if key.value:
            self.value_bytes += len(key.value)
        return key

    def _touch(self, name: bytes) -> Key:
        """The key `name` as it is, noted as one that this batch may change."""
        key = self._keys.get(name) or self._load(name)
        if not key.touched:
            key.touched = True
            self._touched.append(key)
        return key

"""Finds the changes of keys, by events and by the time that they bring, while a partition's events are applied.

What is due when an event comes is removed before it is applied, and told at its offset. So nothing that is due is ever
stored behind a commit, and each death is met once, in the order of the expiry index. What was due before the first
event was told with the events before, or is before the feed's begin: it is removed without a word.

Events are applied one by one, as each has its own values, and committed together. A change is told when its event is
committed, and so not taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from engine.apply.machine import Applied, Machine, Record
from engine.cleaning.all import clean_all
from engine.cleaning.sweep import Sweeper
from engine.commands.registry import find
from engine.errors import CommandError, PartitionStoppedError
from engine.store.store import MaintainedStore
from ops.changes.change import Change
from ops.past.history import Value, value_of

if TYPE_CHECKING:
    from slotlog.log import LogRecord

_ELEMENTS_MAX: Final = 1000
"""Of a collection that is told as a whole."""

_TOLD_AT_ONCE: Final = 1000
"""Changes, before `step` lets them be sent: a million keys may expire before one event."""

_PENDING_MAX: Final = 2000
"""Changes, and elements of their values, that wait for a commit."""

_CLEANED_AFTER: Final = 1000
"""Events: elements of collections that are dead are removed then, as nobody else does so here."""

_BYTES_OF_AN_ELEMENT: Final = 64
_SWEPT_KEYS_MAX: Final = 1000

_TYPE, _SETCLOCK = find(b"TYPE"), b"SETCLOCK"
_SIZES: Final = {
    type_name: find(name)
    for type_name, name in (
        (b"string", b"STRLEN"),
        (b"hash", b"HLEN"),
        (b"list", b"LLEN"),
        (b"set", b"SCARD"),
        (b"zset", b"ZCARD"),
        (b"stream", b"XLEN"),
    )
}
_ABSENT: Final = Value(b"none", None, -2)
_ALL: Final = tuple(range(16))


class Watching:
    """Applies events, and tells of each key that they, or the time that they bring, change.

    Args:
        partition: of the events.
        bytes_max: longer strings are not read.
        tell: takes each change, in order.

    Attributes:
        is_over: nothing more is wanted.
    """

    _sweeper: Sweeper
    _store: MaintainedStore

    def __init__(self, partition: int, bytes_max: int, tell: Callable[[Change], None]) -> None:
        self._partition, self._bytes_max, self._tell = partition, bytes_max, tell
        self.is_over = False
        self._pending: list[Change] = []
        self._weight = self._told = self._uncleaned = 0
        self._dies_ms = 0  # nothing dies before that; 0: nothing ever does
        self._expired = (-1, 0)  # an offset, and how many changes by time were told there
        self._last: tuple[int, int, bytes] | None = None  # the last one of them: offset, database, key

    def begin(self, machine: Machine, store: MaintainedStore) -> None:
        """Remove what is due before the first event."""
        machine.witnessing = True
        self._store, self._sweeper = store, Sweeper(machine, store)
        while self._sweeper.expire(_SWEPT_KEYS_MAX).more:
            pass
        self._dies_ms = self._sweeper.next_ms()

    def step(self, machine: Machine, records: Sequence[Record], _raw: Sequence[LogRecord] = ()) -> None:
        """Apply some records. Not all of them where so much is told that it is to be sent first.

        Raises:
            PartitionStoppedError: one of them cannot be applied; those before it are, and are told.
        """
        try:
            self._step(machine, records)
        except PartitionStoppedError as stop:
            if before := [each for each in records if machine.next_offset <= each[0] < stop.offset]:
                self._step(machine, before)
            raise

    async def may_apply(self, to_offset: int) -> None:
        """It may: nobody else is asked."""

    async def applied(self, next_offset: int) -> None:
        """It was told already."""

    def _step(self, machine: Machine, records: Sequence[Record]) -> None:
        self._pending.clear()  # of an attempt that was taken back
        self._weight = self._told = 0
        for record in records:
            clock_ms = machine.clock_behind(record)
            is_due = 0 < self._dies_ms <= clock_ms
            if is_due or record[2].upper() == _SETCLOCK:  # which wants everything before it committed
                self._commit(machine)
                if is_due and not self._expire(machine, record, clock_ms):
                    return
            if self.is_over or self._told >= _TOLD_AT_ONCE:
                break
            self._apply(machine, record)
            self._uncleaned += 1
            if machine.is_full or self._weight >= _PENDING_MAX:
                self._commit(machine)
        self._commit(machine)
        if self._uncleaned >= _CLEANED_AFTER:
            clean_all(machine, self._store)
            self._uncleaned = 0

    def _apply(self, machine: Machine, record: Record) -> None:
        """Apply one record, and keep what it changes until the commit."""
        applied = machine.apply([record], machine.next_offset)
        offset, time_ms, *_, event_id, _ = record
        number = self._expired[1] if self._expired[0] == offset else 0
        for db, key, commands, databases in _changed(applied):
            value = None if key is None else self._value(machine, db, key)
            change = Change(
                self._partition, offset, number, time_ms, db, key, commands, event_id, value, databases, expired=False
            )
            self._pending.append(change)
            self._weight += 1
            number += 1
            if key is not None and (dies_ms := machine.dies_ms(key, db)):
                self._dies_ms = min(self._dies_ms or dies_ms, dies_ms)

    def _commit(self, machine: Machine) -> None:
        machine.commit(None)
        for change in self._pending:
            self._tell(change)
        self._told += len(self._pending)
        self._pending.clear()
        self._weight = 0

    def _expire(self, machine: Machine, record: Record, clock_ms: int) -> bool:
        """Remove what is due when `record` comes, and tell it. Whether that is all of it."""
        machine.move_clock(clock_ms)
        more = True
        while more and not self.is_over and self._told < _TOLD_AT_ONCE:
            swept = self._sweeper.expire(_SWEPT_KEYS_MAX)
            for db, key in swept.order:
                self._tell_expired(machine, record, db, key)
            more = swept.more
        if not more:
            self._dies_ms = self._sweeper.next_ms()
        return not more

    def _tell_expired(self, machine: Machine, record: Record, db: int, key: bytes) -> None:
        offset, time_ms, *_, event_id, _ = record
        if self._last == (offset, db, key):
            return  # a hash with so many fields that are due that they went in several slices
        self._last = (offset, db, key)
        number = self._expired[1] if self._expired[0] == offset else 0
        self._expired = (offset, number + 1)
        value = self._value(machine, db, key)
        self._tell(Change(self._partition, offset, number, time_ms, db, key, (), event_id, value, (), expired=True))
        self._told += 1

    def _value(self, machine: Machine, db: int, key: bytes) -> Value | None:
        """The key, unless it is too large."""
        type_name = bytes(machine.evaluate(_TYPE, [key], db))
        if type_name == b"none":
            return _ABSENT
        size = machine.evaluate(_SIZES[type_name], [key], db) if type_name in _SIZES else 0
        most = self._bytes_max if type_name == b"string" else _ELEMENTS_MAX
        if size > most:
            return None
        self._weight += size // _BYTES_OF_AN_ELEMENT if type_name == b"string" else size
        try:
            return value_of(machine, db, key)
        except CommandError:  # few elements, and more than any reply may have
            return None


def _changed(applied: Applied) -> Iterator[tuple[int, bytes | None, tuple[bytes, ...], tuple[int, ...]]]:
    """Database, key, commands and databases of each change; first, in their order, those of whole databases.

    What a command changes in a database that another one exchanges may end in either.
    """
    exchanged: set[int] = set()
    for _, db, name, args in applied.emptied:
        databases = _ALL if name == b"FLUSHALL" else (db,)
        if name == b"SWAPDB":
            databases = tuple(map(int, args))
            exchanged.update(databases)
        yield db, None, (name,), databases
    found: dict[tuple[int, bytes], dict[bytes, None]] = {}
    for each in applied.modified:
        for db in sorted(exchanged) if each[1] in exchanged else (each[1],):
            found.setdefault((db, each[5]), {})[each[2]] = None
    for (db, key), commands in found.items():
        yield db, key, tuple(commands), ()

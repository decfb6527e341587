"""The history of a key: each event that named or changed it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from msgpack import unpackb

from engine.apply.machine import Applied, Machine, Record
from engine.apply.records import EMPTYING
from engine.apply.set_back import retimed
from engine.commands.registry import find
from engine.errors import CommandError
from engine.values.replies import Reply
from ops.past.touching import MAY_EMPTY, Touching
from slotlog.shared.limits import TIME_MS_MAX

_WHOLE_READS: Final[dict[bytes, tuple[bytes, ...]]] = {
    b"string": (b"GET",),
    b"hash": (b"HGETALL",),
    b"list": (b"LRANGE", b"0", b"-1"),
    b"set": (b"SMEMBERS",),
    b"zset": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
    b"stream": (b"XRANGE", b"-", b"+"),
}
"""By type: the command that reads all of a key. The key follows the first word."""


@dataclass(frozen=True, slots=True)
class Value:
    """A key at one moment.

    Attributes:
        type: its type; `none`: it is not there.
        content: all of it, as a reading command gives it.
        expire_ms: when it expires, ms since 1970; -1: never, -2: it is not there.
    """

    type: bytes
    content: Reply
    expire_ms: int


@dataclass(frozen=True, slots=True)
class Touch:
    """An event that named or changed the key.

    Attributes:
        offset: of its record.
        time_ms: of its record.
        command: its name and arguments.
        event_id: its idempotency key.
        meta: what its producer has said of it.
        outcome: `applied`, `rejected`, `duplicate`, `dead letter` or `skipped`.
        reply: what its sender got; of a dead letter the reason.
        changed: whether the key is another one after it.
        before, after: the key; None where values were not asked for.
    """

    offset: int
    time_ms: int
    command: tuple[Any, ...]
    event_id: bytes | None
    meta: Any
    outcome: str
    reply: Reply
    changed: bool
    before: Value | None
    after: Value | None


class History:
    """Watches one key while a state is walked along the log (`ops.past.walk`).

    Args:
        db: its logical database.
        key: it.
        tell: told of each event that named or changed it, in order.
        from_offset: earlier ones are not told.
        values: tell also the values.

    Attributes:
        step: applies some records; see `ops.past.walk.Step`.
    """

    def __init__(
        self, db: int, key: bytes, tell: Callable[[Touch], None], *, from_offset: int = 0, values: bool = False
    ) -> None:
        self._db, self._key, self._tell = db, key, tell
        self._from_offset, self._values = from_offset, values
        self._touching = Touching({(db, key)}, self._apply_alone)
        self.step = self._touching.step

    def _apply_alone(self, machine: Machine, record: Record, value: bytes | None) -> None:
        """The key is read where its values are told, and where nothing else tells whether it has changed.

        To read all of a large one for each event took all the time that there was.
        """
        offset, time_ms, name, args, _, event_id, _ = record
        is_told = offset >= self._from_offset
        reads = is_told and self._values
        if name in MAY_EMPTY:
            machine.commit(None)  # so that this event alone can be taken back
        before = self._before(machine, record) if reads else None
        applied = machine.apply([record], machine.next_offset, {offset})
        if is_told and not reads and not EMPTYING.isdisjoint(applied.commands):
            machine.rollback()
            reads = True
            before = self._before(machine, record)
            applied = machine.apply([record], machine.next_offset, {offset})
        after = value_of(machine, self._db, self._key) if reads else None
        machine.commit(None)
        changed = before != after or any(each[1] == self._db and each[5] == self._key for each in applied.modified)
        if not is_told or not (changed or self._touching.named(record)):
            return
        outcome, reply = outcome_of(applied, offset)
        shown = (before, after) if self._values else (None, None)
        self._tell(Touch(offset, time_ms, (name, *args), event_id, meta_of(value), outcome, reply, changed, *shown))

    def _before(self, machine: Machine, record: Record) -> Value:
        """By the time of the event: a key that expired since the one before it was gone when it came."""
        ((_, at_ms, *_),) = retimed([record], machine.position.retimes)
        return value_of(machine, self._db, self._key, at_ms if machine.clock_ms < at_ms <= TIME_MS_MAX else 0)


def value_of(machine: Machine, db: int, key: bytes, at_ms: int = 0) -> Value:
    """All of a key, as reading commands give it at a time; 0: at the partition's clock."""

    def read(name: bytes, *rest: bytes) -> Reply:
        return machine.evaluate(find(name), [key, *rest], db, at_ms=at_ms)

    type_name = bytes(read(b"TYPE"))
    content = read(*_WHOLE_READS[type_name]) if type_name in _WHOLE_READS else None
    return Value(type_name, content, read(b"PEXPIRETIME"))


def outcome_of(applied: Applied, offset: int) -> tuple[str, Reply]:
    """What came of the one record that was applied, as `Touch` says it, and the reply."""
    if applied.dead_letters:
        return "dead letter", applied.dead_letters[0][1].encode()
    if applied.skipped:
        return "skipped", None
    reply = applied.outcomes.get(offset)
    if applied.duplicates:
        return "duplicate", reply
    return ("rejected" if isinstance(reply, CommandError) else "applied"), reply


def meta_of(value: bytes | None) -> Any:
    """What the producer of an event has said of it; None: nothing."""
    try:
        event = unpackb(value or b"", raw=True, strict_map_key=False)
    except ValueError:
        return None
    return event.get(b"meta") if isinstance(event, dict) else None

"""The history of a key: each event that named or changed it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgpack import unpackb

from engine.apply.machine import Applied, Machine, Record
from engine.apply.set_back import retimed
from engine.commands.registry import find, keys_of
from engine.errors import CommandError
from engine.values.replies import Reply
from ops.past.walk import apply_all
from slotlog.shared.errors import EventError
from slotlog.shared.limits import TIME_MS_MAX

if TYPE_CHECKING:
    from slotlog.log import LogRecord

_WHOLE_READS: Final[dict[bytes, tuple[bytes, ...]]] = {
    b"string": (b"GET",),
    b"hash": (b"HGETALL",),
    b"list": (b"LRANGE", b"0", b"-1"),
    b"set": (b"SMEMBERS",),
    b"zset": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
    b"stream": (b"XRANGE", b"-", b"+"),
}
"""By type: the command that reads all of a key. The key follows the first word."""

EMPTYING: Final = frozenset({b"FLUSHALL", b"FLUSHDB", b"SWAPDB"})
"""Change keys that no event names, and that no machine reports one by one."""

_MAY_CARRY: Final = frozenset({*EMPTYING, b"EXEC", b"EVAL", b"EVALSHA", b"FCALL"})
"""May have one of those inside."""


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
    """

    def __init__(
        self, db: int, key: bytes, tell: Callable[[Touch], None], *, from_offset: int = 0, values: bool = False
    ) -> None:
        self._db, self._key, self._tell = db, key, tell
        self._from_offset, self._values = from_offset, values

    def step(self, machine: Machine, records: Sequence[Record], raw: Sequence[LogRecord]) -> None:
        """Apply some records; those that touch the key alone, each between two looks at it.

        They are applied together first, which says what touches it. Where anything does, this is taken back.
        """
        if not records:
            return
        machine.witnessing = True
        touching = self._touching(machine, records)
        if not touching:
            return
        machine.rollback()
        values = {offset: value for offset, _, _, value in raw}
        for run, alone in _parted(records, touching):
            apply_all(machine, run)
            if alone is not None:
                self._apply_alone(machine, alone, values[alone[0]])

    def _touching(self, machine: Machine, records: Sequence[Record]) -> set[int]:
        """Apply them without a commit. The offsets of those that touch the key, or may do so."""
        applied = machine.apply(records, machine.next_offset)
        if applied.records < len(records):  # it takes no more without a commit, behind which nothing can be taken back
            return {each[0] for each in records}
        touching = {each[0] for each in applied.modified if each[1] == self._db and each[5] == self._key}
        touching.update(each[0] for each in records if self._is_named(each))
        if not EMPTYING.isdisjoint(applied.commands):
            touching.update(each[0] for each in records if each[2] in _MAY_CARRY)
        return touching

    def _is_named(self, record: Record) -> bool:
        _, _, name, args, db, _, _ = record
        try:
            if name != b"EXEC":
                return db == self._db and self._key in args and self._key in keys_of(name, args)
            for inner, *inner_args in args:
                if inner.upper() == b"SELECT":
                    db = int(inner_args[0])
                elif db == self._db and self._key in inner_args and self._key in keys_of(inner.upper(), inner_args):
                    return True
        except (EventError, ValueError):  # it will be a dead letter, or be rejected, and names nothing that is known
            pass
        return False

    def _apply_alone(self, machine: Machine, record: Record, value: bytes | None) -> None:
        offset, time_ms, name, args, _, event_id, _ = record
        # By the time of the event: a key that expired since the one before it was gone when it came.
        ((_, at_ms, *_),) = retimed([record], machine.position.retimes)
        before = value_of(machine, self._db, self._key, at_ms if machine.clock_ms < at_ms <= TIME_MS_MAX else 0)
        applied = machine.apply([record], machine.next_offset, {offset})
        after = value_of(machine, self._db, self._key)
        machine.commit(None)
        changed = before != after or any(each[1] == self._db and each[5] == self._key for each in applied.modified)
        if offset < self._from_offset or not (changed or self._is_named(record)):
            return
        outcome, reply = outcome_of(applied, offset)
        shown = (before, after) if self._values else (None, None)
        self._tell(Touch(offset, time_ms, (name, *args), event_id, meta_of(value), outcome, reply, changed, *shown))


def value_of(machine: Machine, db: int, key: bytes, at_ms: int = 0) -> Value:
    """All of a key, as reading commands give it at a time; 0: at the partition's clock."""

    def read(name: bytes, *rest: bytes) -> Reply:
        return machine.evaluate(find(name), [key, *rest], db, at_ms=at_ms)

    type_name = bytes(read(b"TYPE"))
    content = read(*_WHOLE_READS[type_name]) if type_name in _WHOLE_READS else None
    return Value(type_name, content, read(b"PEXPIRETIME"))


def _parted(records: Sequence[Record], touching: set[int]) -> Iterator[tuple[Sequence[Record], Record | None]]:
    """The records as runs of those that touch nothing, each with the one that ends it."""
    begin = 0
    for place, record in enumerate(records):
        if record[0] in touching:
            yield records[begin:place], record
            begin = place + 1
    yield records[begin:], None


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

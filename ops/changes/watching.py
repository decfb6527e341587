"""Finds the changes of keys while a partition's events are applied one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from engine.apply.machine import Applied, Machine, Record
from engine.commands.registry import find
from engine.errors import CommandError
from ops.changes.change import Change
from ops.past.history import Value, value_of
from ops.past.touching import EMPTYING

if TYPE_CHECKING:
    from slotlog.log import LogRecord

_ELEMENTS_MAX: Final = 1000
"""Of a collection that is told as a whole."""

_SIZES: Final[dict[bytes, bytes]] = {
    b"string": b"STRLEN",
    b"hash": b"HLEN",
    b"list": b"LLEN",
    b"set": b"SCARD",
    b"zset": b"ZCARD",
    b"stream": b"XLEN",
}


class Watching:
    """Applies events, and tells of each key that they change.

    Args:
        partition: of the events.
        bytes_max: longer strings are not read.
        tell: takes each change, in order.

    Attributes:
        is_over: nothing more is wanted.
    """

    def __init__(self, partition: int, bytes_max: int, tell: Callable[[Change], None]) -> None:
        self._partition, self._bytes_max, self._tell = partition, bytes_max, tell
        self.is_over = False

    def step(self, machine: Machine, records: Sequence[Record], _raw: Sequence[LogRecord] = ()) -> None:
        """Apply some records."""
        machine.witnessing = True
        for record in records:
            if self.is_over:
                return
            applied = machine.apply([record], machine.next_offset)
            machine.commit(None)  # so that nothing is taken back that was told
            for number, (db, key, commands) in enumerate(_changed(record, applied)):
                value = None if key is None else self._value(machine, db, key)
                offset, time_ms, *_, event_id, _ = record
                self._tell(Change(self._partition, offset, number, time_ms, db, key, commands, event_id, value))

    async def may_apply(self, to_offset: int) -> None:
        """It may: nobody else is asked."""

    async def applied(self, next_offset: int) -> None:
        """It was told already."""

    def _value(self, machine: Machine, db: int, key: bytes) -> Value | None:
        """The key, unless it is too large."""
        type_name = bytes(machine.evaluate(find(b"TYPE"), [key], db))
        size = machine.evaluate(find(_SIZES[type_name]), [key], db) if type_name in _SIZES else 0
        most = self._bytes_max if type_name == b"string" else _ELEMENTS_MAX
        try:
            return value_of(machine, db, key) if size <= most else None
        except CommandError:  # few elements, and more than any reply may have
            return None


def _changed(record: Record, applied: Applied) -> Iterator[tuple[int, bytes | None, tuple[bytes, ...]]]:
    """Database, key and commands, by key; first what empties whole databases, as it names no key."""
    found: dict[tuple[int, bytes | None], dict[bytes, None]] = {}
    for name in sorted(EMPTYING & applied.commands.keys()):
        found.setdefault((record[4], None), {})[name] = None
    for each in applied.modified:
        found.setdefault((each[1], each[5]), {})[each[2]] = None
    for (db, key), commands in found.items():
        yield db, key, tuple(commands)

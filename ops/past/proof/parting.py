"""Finds the first event at which a key of a state parts from a replay of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.apply.machine import Machine, Record
from engine.errors import CommandError
from engine.values.replies import Map, Named, Pairs
from ops.past.history import Value, value_of
from ops.past.touching import DbKey, Touching

if TYPE_CHECKING:
    from slotlog.log import LogRecord

Parts = Mapping[object, object]
"""What a key is made of, each part under a name of its own: fields, members, elements by index, type, time to live."""


class Event(NamedTuple):
    """The event at which a key parts.

    Attributes:
        offset: of its record.
        time_ms: of its record.
        command: its name and arguments.
        is_left_out: whether the key is in the state as it was right before this event; else what differs was written
            by this event last.
    """

    offset: int
    time_ms: int
    command: tuple[Any, ...]
    is_left_out: bool


class Parting(NamedTuple):
    """The place where a key of a state parts from the log.

    Attributes:
        is_shown: whether a reading command shows a difference from what the events make of the key.
        event: the first event at which they part; None: no event has touched the key.
    """

    is_shown: bool
    event: Event | None


@dataclass(slots=True)
class _Watched:
    """A key that differs, along the log.

    Attributes:
        stored: its parts in each of the states.
        behind: for each of them, the first event after the last moment at which the key was like that.
        now: its parts as of the event before.
        last: by part, the event that changed it last.
        touched: the last event that touched the key.
    """

    stored: Sequence[Parts]
    behind: list[Event | None]
    now: Parts = field(default_factory=dict)
    last: dict[object, Event] = field(default_factory=dict)
    touched: Event | None = None

    def become(self, now: Parts, event: Event) -> None:
        """Take what an event has made of the key."""
        self.touched = event
        if now == self.now:
            return
        for number, stored in enumerate(self.stored):
            if stored == self.now:
                self.behind[number] = event
        for part in now.keys() | self.now.keys():
            if now.get(part) != self.now.get(part):
                self.last[part] = event
        self.now = now

    def parting(self, number: int) -> Parting:
        """As `Partings.of`."""
        stored, behind = self.stored[number], self.behind[number]
        if stored == self.now:  # what differs no reading command shows, as a group of a stream
            return Parting(is_shown=False, event=self.touched)
        if behind is not None:
            return Parting(is_shown=True, event=behind._replace(is_left_out=True))
        differing = [part for part in self.now.keys() | stored.keys() if self.now.get(part) != stored.get(part)]
        events = [self.last[part] for part in differing if part in self.last]
        return Parting(is_shown=True, event=min(events, default=None))


class Partings:
    """Watches keys that differ while a state is walked along the log (`ops.past.walk.Step`).

    Args:
        stored: by key, what it is in each of some states.
    """

    def __init__(self, stored: Mapping[DbKey, Sequence[Value]]) -> None:
        self._keys = {
            key: _Watched([parts_of(value) for value in values], [None] * len(values)) for key, values in stored.items()
        }
        self._touching = Touching(stored.keys(), self._apply_alone)
        self._has_begun = False

    def step(self, machine: Machine, records: Sequence[Record], raw: Sequence[LogRecord]) -> None:
        """Apply some records."""
        if not self._has_begun:
            self._has_begun = True
            for (db, name), watched in self._keys.items():
                watched.now = parts_of(value_of_large(machine, db, name))
        self._touching.step(machine, records, raw)

    def of(self, key: DbKey, number: int) -> Parting:
        """Where a key of one of the states parts from the log.

        If the state lacks the effect of an event as a whole, that is the one: right before it the key was, for the last
        time, what it is in the state. Else it is the first of the events that wrote what differs.
        """
        return self._keys[key].parting(number)

    def _apply_alone(self, machine: Machine, record: Record, _value: bytes | None) -> None:
        applied = machine.apply([record], machine.next_offset)
        machine.commit(None)
        event = Event(record[0], record[1], (record[2], *record[3]), is_left_out=False)
        for db, name in self._touching.touched(applied):
            self._keys[db, name].become(parts_of(value_of_large(machine, db, name)), event)


def value_of_large(machine: Machine, db: int, key: bytes, at_ms: int = 0) -> Value:
    """As `value_of`; the content of a value that is too large for a reply is the error that says so."""
    try:
        return value_of(machine, db, key, at_ms)
    except CommandError as error:
        type_name = bytes(machine.read(b"TYPE", [key], db))
        return Value(type_name, error.message.encode(), machine.read(b"PEXPIRETIME", [key], db))


def parts_of(value: Value) -> Parts:
    """The parts of a key; none where it is not there."""
    if value.type == b"none":
        return {}
    parts: dict[object, object] = {"type": value.type, "expire_ms": value.expire_ms}
    content = value.content
    if isinstance(content, Map | Pairs | Named):
        parts.update((bytes(name), each) for name, each in content)
    elif isinstance(content, list):
        parts.update(enumerate(content) if value.type == b"list" else ((_name(each), each) for each in content))
    else:
        parts["value"] = content
    return parts


def _name(element: Any) -> object:
    """An element of a set stands for itself, an entry of a stream for its id."""
    return next(iter(element)) if isinstance(element, list | tuple) else element

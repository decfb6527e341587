"""Applies the records that touch some keys one by one, and all others in runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from engine.apply.machine import Applied, Machine, Record
from engine.apply.records import EMPTYING
from engine.commands.registry import keys_of
from ops.past.walk import apply_all
from slotlog.shared.errors import EventError

if TYPE_CHECKING:
    from slotlog.log import LogRecord

MAY_EMPTY: Final = frozenset({*EMPTYING, b"EXEC", b"EVAL", b"EVALSHA", b"FCALL"})
"""Those that change keys which they do not name, and what may have one of them inside."""

DbKey = tuple[int, bytes]
"""A logical database and the name of a key in it."""

ApplyAlone = Callable[[Machine, Record, bytes | None], None]
"""Applies one record and commits; its last argument is the record's value as the log has it."""


class Touching:
    """Steps along a log (`ops.past.walk.Step`), with a look at some keys.

    Args:
        keys: they.
        apply_alone: told to apply each record that touches one of them, or may do so.
    """

    def __init__(self, keys: Collection[DbKey], apply_alone: ApplyAlone) -> None:
        self._keys = frozenset(keys)
        self._names = frozenset(name for _, name in keys)
        self._apply_alone = apply_alone

    def step(self, machine: Machine, records: Sequence[Record], raw: Sequence[LogRecord]) -> None:
        """Apply some records; those that touch a key alone, each between two looks at it.

        They are applied together first, which says what touches a key. Where anything does, this is taken back.
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

    def named(self, record: Record) -> frozenset[DbKey]:
        """Those of the keys that an event names."""
        _, _, name, args, db, _, _ = record
        found: set[DbKey] = set()
        try:
            if name != b"EXEC":
                found.update((db, key) for key in self._named_by(name, args))
                return self._keys & found
            for inner, *inner_args in args:
                if inner.upper() == b"SELECT":
                    db = int(inner_args[0])
                else:
                    found.update((db, key) for key in self._named_by(inner.upper(), inner_args))
        except (EventError, ValueError):  # it will be a dead letter, or be rejected, and names nothing that is known
            pass
        return self._keys & found

    def touched(self, applied: Applied) -> frozenset[DbKey]:
        """Those of the keys that an event which was applied alone has modified, or may have."""
        if not EMPTYING.isdisjoint(applied.commands):
            return self._keys
        return self._keys & {(each[1], each[5]) for each in applied.modified}

    def _named_by(self, name: bytes, args: list[bytes]) -> list[bytes]:
        return [] if self._names.isdisjoint(args) else keys_of(name, args)

    def _touching(self, machine: Machine, records: Sequence[Record]) -> set[int]:
        """Apply them without a commit. The offsets of those that touch a key, or may do so."""
        applied = machine.apply(records, machine.next_offset)
        if applied.records < len(records):  # it takes no more without a commit, behind which nothing can be taken back
            return {each[0] for each in records}
        touching = {each[0] for each in applied.modified if (each[1], each[5]) in self._keys}
        touching.update(each[0] for each in records if self.named(each))
        if not EMPTYING.isdisjoint(applied.commands):
            touching.update(each[0] for each in records if each[2] in MAY_EMPTY)
        return touching


def _parted(records: Sequence[Record], touching: set[int]) -> Iterator[tuple[Sequence[Record], Record | None]]:
    """The records as runs of those that touch nothing, each with the one that ends it."""
    begin = 0
    for place, record in enumerate(records):
        if record[0] in touching:
            yield records[begin:place], record
            begin = place + 1
    yield records[begin:], None

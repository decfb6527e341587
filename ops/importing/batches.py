"""Makes appends of the keys of a source, and counts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ops.importing.libraries import LIBRARY
from ops.importing.source import Command, ImportKey, LeftOut
from ops.sending.target import APPEND_BYTES_MAX, APPEND_ENTRIES_MAX
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.producer import prepare_value
from slotlog.shared.errors import EventError
from slotlog.shared.slots import partition_of, slot


@dataclass(slots=True)
class Batch:
    """The records of one append, and the keys that end in it.

    Attributes:
        entries: the records; empty where there is only something to tell.
        types: of the keys whose last record is among them, without those that were left out after all.
        mark: of the last of these keys.
        left_out: what was met meanwhile.
        left_out_before_mark: so many of these were met before the key of the mark was dealt with.
    """

    entries: list[Entry] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    mark: str | None = None
    left_out: list[LeftOut] = field(default_factory=list)
    left_out_before_mark: int = 0
    _value_bytes: int = 0

    def takes(self, entries: list[Entry]) -> bool:
        """Whether there is room for one more event."""
        value_bytes = self._value_bytes + sum(len(entry.value) for entry in entries)
        fits = len(self.entries) + len(entries) <= APPEND_ENTRIES_MAX and value_bytes <= APPEND_BYTES_MAX
        return not self.entries or fits

    def add(self, entries: list[Entry]) -> None:
        """Take one event."""
        self._value_bytes += sum(len(entry.value) for entry in entries)
        self.entries += entries


_LEFT_OUT_MAX = 1000

_CHECKED_ABOVE_BYTES = 64 * 1024
"""A shorter record of an import is within all limits of an event, as sources make nothing but plain commands."""


def batches(keys: Iterator[ImportKey | LeftOut | None], partitions: int) -> Iterator[Batch]:
    """The keys as appends. What was read goes out before an error of the source is raised.

    A key that no event can hold is left out, and its part that is in the log already is deleted.
    """
    maker = _Maker(partitions)
    try:
        for each in keys:
            if each is None:
                yield maker.cut()
            elif isinstance(each, LeftOut):
                maker.batch.left_out.append(each)
                if len(maker.batch.left_out) >= _LEFT_OUT_MAX:
                    yield maker.cut()
            else:
                yield from maker.take(each)
    except Exception:
        yield maker.cut()
        raise
    yield maker.cut()


class _Maker:
    """Fills one batch after another."""

    def __init__(self, partitions: int) -> None:
        self.batch = Batch()
        self._partitions = partitions

    def cut(self) -> Batch:
        """What is there, and begin anew."""
        batch, self.batch = self.batch, Batch()
        return batch

    def take(self, key: ImportKey) -> Iterator[Batch]:
        """Add the events of a key; gives the batches that become full on the way."""
        begun = False
        try:
            for command in key.events:
                yield from self._add(key, command)
                begun = True
        except EventError as error:
            if begun:
                yield from self._add(key, (b"DEL", [key.name]))
            self.batch.left_out.append(LeftOut(key.db, key.name, key.type, str(error)))
        else:
            self.batch.types.append(key.type)
        if key.mark is not None:
            self.batch.mark = key.mark
            self.batch.left_out_before_mark = len(self.batch.left_out)

    def _add(self, key: ImportKey, command: Command) -> Iterator[Batch]:
        entries = self._entries(key, command)
        if not self.batch.takes(entries):
            yield self.cut()
        self.batch.add(entries)

    def _entries(self, key: ImportKey, command: Command) -> list[Entry]:
        """As `slotlog.producer.prepare`, in a third of the time: a short record is not decoded again to be judged."""
        value = encode(*command, db=key.db)
        is_everywhere = key.type == LIBRARY  # it has no slot
        if len(value) > _CHECKED_ABOVE_BYTES or is_everywhere or (key.db and self._partitions > 1):
            return prepare_value(self._partitions, value)
        key_slot = slot(key.name)
        return [Entry(partition_of(key_slot, self._partitions), key_slot.to_bytes(2, "big"), value)]

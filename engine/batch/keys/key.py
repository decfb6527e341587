"""A key in a batch: its metadata, and the unwritten changes to its subkeys.

A command reads what earlier commands of the same batch wrote; nothing reaches the store before `Transaction.changes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from engine.batch.keys.stream_parts import StreamParts
from engine.batch.overlaid import Subkeys
from engine.batch.ranks.rank_records import RankCounts
from engine.model import LIST_START, NONE, UNCOUNTED_FROM, ZSET
from engine.tables.expiry_index import place_of
from engine.values.encoding import pack_u64, parse_u64

BY_FIELD: Final = b"\0"
BY_TIME: Final = b"\1"
"""What the records of `FieldTimes` begin with."""

_FIELD_AT: Final = 9  # in a record by time, behind the tag and the time


class FieldTimes:
    """The times to live of a hash's fields: `engine.model.Times`, and the records of the kind TIMES.

        00 [field]                  ->  [expire_ms:8]     the time of one field
        01 [expire_ms:8] [field]    ->  empty             the fields by time

    A field that is due keeps its records until it is written or removed: `soonest_ms` may lie behind the clock.
    `floor` is a hint: a record by time below which none is left. Of many fields that die at one moment those that went
    leave their tombstones before the others (0.12 us each, for every scan).
    """

    __slots__ = (
        "_due", "_due_ms", "_latest_ms", "_stale", "floor", "own_expire_ms", "soonest_ms", "subkeys", "timed"
    )  # fmt: skip

    def __init__(self, subkeys: Subkeys, timed: int, own_expire_ms: int, soonest_ms: int, latest_ms: int) -> None:
        self.subkeys = subkeys
        self._stale = False  # the soonest time may be that of no field any more: it is a lower bound
        self._latest_ms = latest_ms  # the latest time; 0 until it was looked for
        self._due_ms = self._due = 0  # how many fields die then or before, once they were counted
        self.floor = b""
        self.timed = timed
        self.own_expire_ms = own_expire_ms
        self.soonest_ms = soonest_ms

    def of(self, field: bytes) -> int:
        """When `field` dies, 0 for never; it may be due."""
        packed = self.subkeys.get(BY_FIELD + field) if self.timed else None
        return 0 if packed is None else parse_u64(packed)

    def put(self, field: bytes, expire_ms: int) -> None:
        """Let `field` die at `expire_ms`, 0 for never. `Key.settle` must follow."""
        old_ms, changed = self.of(field), self.subkeys.changed
        if old_ms:
            changed[BY_TIME + pack_u64(old_ms) + field] = None
            self._stale = self._stale or old_ms == self.soonest_ms
        if expire_ms:
            changed[BY_FIELD + field] = pack_u64(expire_ms)
            by_time = BY_TIME + pack_u64(expire_ms) + field
            changed[by_time] = b""
            self.floor = min(self.floor, by_time)  # it may lie below it after the clock was set back
        elif old_ms:
            changed[BY_FIELD + field] = None
        self._due += (0 < expire_ms <= self._due_ms) - (0 < old_ms <= self._due_ms)
        self.timed += bool(expire_ms) - bool(old_ms)
        self.soonest_ms = min(self.soonest_ms or expire_ms, expire_ms or self.soonest_ms)
        if expire_ms >= self._latest_ms > 0:
            self._latest_ms = expire_ms
        elif old_ms == self._latest_ms:
            self._latest_ms = 0

    def due(self, now_ms: int) -> Iterator[bytes]:
        """The fields that are due at `now_ms`, the first to die first."""
        if not 0 < self.soonest_ms <= now_ms:
            return iter(())
        records = self.subkeys.scan(self._first, BY_TIME + pack_u64(now_ms + 1))
        return (record[_FIELD_AT:] for record, _ in records)

    def count_due(self, now_ms: int) -> int:
        """How many fields are due at `now_ms`. What was counted once is not walked again, as long as this is kept."""
        if not 0 < self.soonest_ms <= now_ms:
            return 0
        if now_ms < self._due_ms:
            return sum(1 for _ in self.due(now_ms))
        start = max(self._first, BY_TIME + pack_u64(self._due_ms + 1))
        self._due += sum(1 for _ in self.subkeys.scan(start, BY_TIME + pack_u64(now_ms + 1)))
        self._due_ms = now_ms
        return self._due

    def dies_between(self, after_ms: int, until_ms: int) -> bool:
        """Whether a field dies behind `after_ms`, at `until_ms` or before."""
        if not 0 < self.soonest_ms <= until_ms:
            return False
        records = self.subkeys.scan(BY_TIME + pack_u64(after_ms + 1), BY_TIME + pack_u64(until_ms + 1))
        return next(records, None) is not None

    def settle(self) -> None:
        """Find the soonest time again, after changes: from the last one on, across no tombstones of earlier ones."""
        if self._stale:
            first = next(self.subkeys.scan(self._first), None) if self.timed else None
            self.soonest_ms = 0 if first is None else parse_u64(first[0][1:_FIELD_AT])
            self._stale = False

    @property
    def _first(self) -> bytes:
        """No record by time is before this one."""
        return max(self.floor, BY_TIME + pack_u64(self.soonest_ms))

    @property
    def latest_ms(self) -> int:
        """The latest time of a field; 0 when none has one."""
        if self.timed and not self._latest_ms:
            self._latest_ms = parse_u64(next(self.subkeys.scan(BY_TIME, reverse=True))[0][1:_FIELD_AT])
        return self._latest_ms


class Key:
    """One key: the fields of `engine.model.Metadata`, and where its subkeys are.

    Attributes:
        type: a type code; NONE when no record is there. A record that is due counts as there (see `Transaction.find`).
        indexed_expire_ms: where the store's expiry index lists this key, as `engine.tables.expiry_index.place_of` says
            it: `expire_ms` unless fields have a time to live.
        changed: the metadata record must be written.
        touched: this batch has looked at it, so it is listed among those that the batch may change.
        version: 0 when there are no subkeys: a string that is not in fragments, or no key.
        value: of a string that is not in fragments; whoever wants a string's value asks
            `engine.types.string.strings.read`.
        data, scores: subkeys of a collection, or the fragments of a large string; `scores` of a sorted set alone.
        ranks: the rank counts of a large sorted set.
        weight: what it takes in memory, as engine/batch/in_memory/memory.py counts it; 0 until its batch is written.
        times: of a hash that has, or had, fields with a time to live.
        stream: of a stream, whose `data` stays empty.
    """

    __slots__ = (
        "changed",
        "data",
        "db",
        "expire_ms",
        "head",
        "indexed_expire_ms",
        "metadata_key",
        "name",
        "ranks",
        "scores",
        "size",
        "stream",
        "tail",
        "times",
        "touched",
        "type",
        "value",
        "version",
        "weight",
    )

    data: Subkeys
    scores: Subkeys

    def __init__(self, db: int, name: bytes, metadata_key: bytes) -> None:
        self.db = db
        self.name = name
        self.metadata_key = metadata_key
        self.type = NONE
        self.expire_ms = 0
        self.indexed_expire_ms = 0
        self.version = 0
        self.size = 0
        self.head = LIST_START
        self.tail = LIST_START
        self.value = b""
        self.ranks: RankCounts | None = None
        self.times: FieldTimes | None = None
        self.stream: StreamParts | None = None
        self.changed = False
        self.touched = False
        self.weight = 0

    @property
    def ranked(self) -> bool:
        """Whether it is a sorted set with rank counts."""
        return self.ranks is not None

    def families(self) -> list[Subkeys]:
        """Its subkeys in every column family; none when it has no version."""
        if not self.version:
            return []
        if self.stream is not None:
            return [self.stream.records, self.stream.index]
        families = [self.data]
        if self.type == ZSET:
            families.append(self.scores)
            if self.ranks is not None:
                families.append(self.ranks)
        elif self.times is not None:
            families.append(self.times.subkeys)
        return families

    def count(self) -> int:
        """How many elements it has. Where the layout keeps no count, by a walk over all of them."""
        size = self.size
        return size if size < UNCOUNTED_FROM else sum(1 for _ in self.data.scan())

    def has_more_than(self, number: int) -> bool:
        """Whether it has more elements than that. No walk goes further."""
        if self.size < UNCOUNTED_FROM:
            return self.size > number
        return next(islice(self.data.scan(), number, None), None) is not None

    @property
    def own_expire_ms(self) -> int:
        """When the key is to die, 0 for never, whatever becomes of its fields: what TTL shows and EXPIRE changes."""
        return self.expire_ms if self.times is None else self.times.own_expire_ms

    @property
    def place(self) -> int:
        """Where the expiry index is to list it."""
        return place_of(self.expire_ms, self.times)

    def dies_between(self, after_ms: int, until_ms: int) -> bool:
        """Whether it, or a field of it, dies behind `after_ms`, at `until_ms` or before."""
        if after_ms < self.expire_ms <= until_ms:
            return True
        return self.times is not None and self.times.dies_between(after_ms, until_ms)

    def settle(self) -> None:
        """Work out when a hash dies, after a change of its own time, of its fields or of theirs.

        With the last of its fields, if all of them have a time to live, so that no empty hash is ever alive.
        """
        times = self.times
        self.changed = True
        if times is None:
            return
        times.settle()
        self.expire_ms = times.own_expire_ms
        if times.timed == self.size > 0:
            latest_ms = times.latest_ms
            self.expire_ms = min(self.expire_ms or latest_ms, latest_ms)

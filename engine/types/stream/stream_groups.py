"""Consumer groups of streams: what each has got, and what its consumers have not acknowledged.

A command asks for a `Group`, changes it, and saves it. A pending entry has a record by its id, and one by its consumer
in the index, so that a command costs what it touches, whatever else is pending. The records count: a group its
consumers and pending entries, a consumer its pending entries.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.batch.keys.key import Key
from engine.batch.keys.stream_parts import StreamRecords
from engine.batch.transaction import Transaction
from engine.errors import CorruptionError
from engine.model import NO_ID
from engine.types.stream.streams import MAX_ID, POINTS_MAX, parts
from engine.values.encoding import prefix_end
from engine.values.stream_records import (
    GROUPS,
    GROUPS_END,
    ID_BYTES,
    ConsumerRecord,
    GroupRecord,
    PendingRecord,
    by_consumer_prefix,
    by_consumer_subkey,
    consumer_subkey,
    consumers_prefix,
    group_prefix,
    group_subkey,
    pack_consumer,
    pack_group,
    pack_pending,
    parse_consumer,
    parse_consumer_subkey,
    parse_group,
    parse_group_subkey,
    parse_pending,
    pending_prefix,
    pending_subkey,
)

NEVER: int = -1
"""`active_ms` of a consumer that has never got an entry."""


class Consumer:
    """A consumer, to be changed: see `ConsumerRecord`. Its pending entries its group alone counts."""

    __slots__ = ("active_ms", "name", "pending", "seen_ms")

    def __init__(self, name: bytes, record: ConsumerRecord) -> None:
        self.name = name
        self.pending, self.seen_ms, self.active_ms = record


class Group:
    """A group, to be changed and then saved: see `GroupRecord`."""

    __slots__ = ("_consumers", "_index", "_records", "consumers", "entries_read", "last_id", "name", "pending")

    def __init__(self, key: Key, name: bytes, record: GroupRecord) -> None:
        stream = parts(key)
        self.name = name
        self.consumers, self.pending, self.last_id, self.entries_read = record
        self._records = stream.records
        self._index = stream.index
        self._consumers: dict[bytes, Consumer] = {}

    def save(self) -> None:
        """Write the group, and the consumers that were asked for."""
        record = GroupRecord(self.consumers, self.pending, self.last_id, self.entries_read)
        self._put(group_subkey(self.name), pack_group(record))
        for each in self._consumers.values():
            packed = pack_consumer(ConsumerRecord(each.pending, each.seen_ms, each.active_ms))
            self._put(consumer_subkey(self.name, each.name), packed)

    # ------------------------------------------------------------------ consumers

    def consumer(self, name: bytes) -> Consumer | None:
        """The consumer of that name."""
        found = self._consumers.get(name)
        if found is None:
            packed = self._records.get(consumer_subkey(self.name, name))
            if packed is None:
                return None
            found = self._consumers[name] = Consumer(name, parse_consumer(packed))
        return found

    def add_consumer(self, name: bytes, now_ms: int) -> Consumer:
        """A new consumer."""
        self.consumers += 1
        found = self._consumers[name] = Consumer(name, ConsumerRecord(0, now_ms, NEVER))
        return found

    def remove_consumer(self, tx: Transaction, consumer: Consumer) -> int:
        """Remove a consumer with its pending entries. Returns how many they were.

        Many of them go by range where few entries are pending for others, as they lie among those: these are put again.
        Else it is O(them).
        """
        others = self.pending - consumer.pending
        if consumer.pending > POINTS_MAX >= others:
            kept = [each for each in self.all_consumers() if each.pending and each.name != consumer.name]
            ids = [entry_id for each in kept for entry_id in self.ids_of(each.name)]
            values = [(subkey := pending_subkey(self.name, entry_id), self._records.get(subkey)) for entry_id in ids]
            _remove(tx, self._records, pending_prefix(self.name), self.pending)
            self._records.changed.update(values)
        else:
            for entry_id in list(self.ids_of(consumer.name)):
                self._records.remove(pending_subkey(self.name, entry_id))
        _remove(tx, self._index, by_consumer_prefix(self.name, consumer.name), consumer.pending)
        self._records.remove(consumer_subkey(self.name, consumer.name))
        self._consumers.pop(consumer.name, None)
        self.consumers -= 1
        self.pending -= consumer.pending
        return consumer.pending

    def remove_all(self, tx: Transaction) -> None:
        """Remove all consumers and pending entries, and the group itself."""
        _remove(tx, self._records, consumers_prefix(self.name), self.consumers)
        _remove(tx, self._records, pending_prefix(self.name), self.pending)
        _remove(tx, self._index, group_prefix(self.name), self.pending)
        self._records.remove(group_subkey(self.name))

    def all_consumers(self) -> list[Consumer]:
        """All consumers in the order of their names."""
        prefix = consumers_prefix(self.name)
        found = (
            Consumer(parse_consumer_subkey(self.name, subkey), parse_consumer(packed))
            for subkey, packed in self._records.scan(prefix, prefix_end(prefix))
        )
        return sorted(found, key=lambda each: each.name)

    # ------------------------------------------------------------------ pending entries

    def pending_entry(self, entry_id: bytes) -> PendingRecord | None:
        """The pending entry of that id."""
        packed = self._records.get(pending_subkey(self.name, entry_id))
        return None if packed is None else parse_pending(packed)

    def pending_entries(
        self, start: bytes = NO_ID, end: bytes = MAX_ID, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, PendingRecord]]:
        """The pending entries with `start <= id <= end`, in their order. Collect what is needed before a change."""
        prefix = pending_prefix(self.name)
        for subkey, packed in self._records.scan(prefix + start, prefix + end + b"\0", reverse=reverse):
            yield subkey[-ID_BYTES:], parse_pending(packed)

    def ids_of(self, consumer: bytes, start: bytes = NO_ID, end: bytes = MAX_ID) -> Iterator[bytes]:
        """The ids of a consumer's pending entries with `start <= id <= end`, in their order."""
        prefix = by_consumer_prefix(self.name, consumer)
        for subkey, _ in self._index.scan(prefix + start, prefix + end + b"\0"):
            yield subkey[-ID_BYTES:]

    def pending_of(self, consumer: bytes, start: bytes, end: bytes) -> Iterator[tuple[bytes, PendingRecord]]:
        """As `pending_entries`, of one consumer.

        Raises:
            CorruptionError: the index has one that is not there.
        """
        for entry_id in self.ids_of(consumer, start, end):
            record = self.pending_entry(entry_id)
            if record is None:
                raise CorruptionError(f"the index of a stream has a pending entry {entry_id.hex()} that is not there")
            yield entry_id, record

    def give(self, entry_id: bytes, to: Consumer, delivered_ms: int, deliveries: int) -> None:
        """Make an entry pending for a consumer, whosever it was."""
        old = self.pending_entry(entry_id)
        if old is None:
            self.pending += 1
        if old is None or old.consumer != to.name:
            if old is not None:
                self._take(entry_id, old.consumer)
            to.pending += 1
            self._index.put(by_consumer_subkey(self.name, to.name, entry_id), b"")
        self._put(pending_subkey(self.name, entry_id), pack_pending(PendingRecord(delivered_ms, deliveries, to.name)))

    def acknowledge(self, entry_id: bytes) -> bool:
        """Take an entry out of what is pending. Returns whether it was."""
        old = self.pending_entry(entry_id)
        if old is None:
            return False
        self._take(entry_id, old.consumer)
        self._records.remove(pending_subkey(self.name, entry_id))
        self.pending -= 1
        return True

    # ------------------------------------------------------------------ inside

    def _take(self, entry_id: bytes, consumer: bytes) -> None:
        """Take a pending entry from its consumer."""
        owner = self.consumer(consumer)
        if owner is None:
            raise CorruptionError(f"a stream has a pending entry of the consumer {consumer!r}, which is not there")
        owner.pending -= 1
        self._index.remove(by_consumer_subkey(self.name, consumer, entry_id))

    def _put(self, subkey: bytes, packed: bytes) -> None:
        self._records.put(subkey, packed)


def find(key: Key, name: bytes) -> Group | None:
    """The group of that name."""
    packed = parts(key).records.get(group_subkey(name))
    return None if packed is None else Group(key, name, parse_group(packed))


def groups(key: Key) -> list[Group]:
    """All groups in the order of their names."""
    if not parts(key).groups:
        return []
    found = (
        Group(key, parse_group_subkey(subkey), parse_group(packed))
        for subkey, packed in parts(key).records.scan(GROUPS, GROUPS_END)
        if len(subkey) > ID_BYTES  # else it is an entry of the highest millisecond
    )
    return sorted(found, key=lambda each: each.name)


def create(key: Key, name: bytes, last_id: bytes, entries_read: int) -> Group:
    """A new group, which is saved."""
    group = Group(key, name, GroupRecord(0, 0, last_id, entries_read))
    group.save()
    parts(key).groups += 1
    key.changed = True
    return group


def destroy(tx: Transaction, key: Key, group: Group) -> None:
    """Remove a group with its consumers and pending entries: O(1) for many of them."""
    group.remove_all(tx)
    parts(key).groups -= 1
    key.changed = True


def _remove(tx: Transaction, records: StreamRecords, prefix: bytes, count: int) -> None:
    """Delete the records that begin with a prefix, about so many: one by one, or many by one range."""
    end = prefix_end(prefix)
    if count > POINTS_MAX:
        records.remove_range(tx.batch, prefix, end)
    else:
        for subkey in [subkey for subkey, _ in records.scan(prefix, end)]:
            records.remove(subkey)

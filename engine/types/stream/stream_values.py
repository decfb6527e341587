"""Reads a stream as a value for DUMP, and makes one from it for RESTORE."""

from __future__ import annotations

from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.types.stream import stream_groups, streams
from engine.types.stream.streams import parts
from engine.values.stream_records import parse_entry
from engine.values.streams import (
    PendingEntry,
    StreamConsumer,
    StreamEntry,
    StreamGroup,
    StreamPart,
    StreamState,
)

# What an entry, a consumer or a pending entry takes in a batch beside its texts, at least: a compressed payload names
# many of them in few bytes.
_RECORD_BYTES: Final = 128


def read(key: Key) -> StreamPart:
    """What a stream holds. O(its bytes)."""
    stream = parts(key)
    entries = [StreamEntry(entry_id, parse_entry(value)) for entry_id, value in streams.entries(key)]
    groups = [_read_group(group) for group in stream_groups.groups(key)]
    return StreamPart(entries, StreamState(stream.last_id, stream.max_deleted_id, stream.entries_added, groups))


def _read_group(group: stream_groups.Group) -> StreamGroup:
    consumers = [StreamConsumer(each.name, each.seen_ms, each.active_ms) for each in group.all_consumers()]
    pending = [
        PendingEntry(entry_id, record.consumer, record.delivered_ms, record.deliveries)
        for entry_id, record in group.pending_entries()
    ]
    return StreamGroup(group.name, group.last_id, group.entries_read, consumers, pending)


def create(tx: Transaction, name: bytes, value: StreamPart) -> Key:
    """A stream in the place of whatever `name` held.

    Raises:
        CommandError: the layout holds no streams. Nothing has changed then.
    """
    key, state = streams.create(tx, name), value.state
    assert state is not None, "a whole stream has it"
    records = len(value.entries) + sum(len(group.consumers) + len(group.pending) for group in state.groups)
    size = sum(len(text) for entry in value.entries for text in entry.texts) + _RECORD_BYTES * records
    tx.value_bytes += size
    tx.written_bytes += size
    for entry in value.entries:
        streams.add(tx, key, entry.id, entry.texts)
    streams.set_last_id(key, state.last_id, state.entries_added, state.max_deleted_id)
    for group in state.groups:
        _create_group(key, group)
    key.changed = True
    return key


def _create_group(key: Key, value: StreamGroup) -> None:
    group = stream_groups.create(key, value.name, value.last_id, value.entries_read)
    consumers = {}
    for each in value.consumers:
        consumer = consumers[each.name] = group.add_consumer(each.name, each.seen_ms)
        consumer.active_ms = each.active_ms
    for entry in value.pending:
        group.give(entry.id, consumers[entry.consumer], entry.delivered_ms, entry.deliveries)
    group.save()

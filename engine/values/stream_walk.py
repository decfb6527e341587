"""Takes a walk over the records of a stream apart, as `engine.proof.walk.LiveKey` gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.errors import CorruptionError
from engine.values.encoding import U64, parse_u64
from engine.values.stream_records import (
    GROUPS,
    ID_BYTES,
    consumers_prefix,
    parse_consumer,
    parse_consumer_subkey,
    parse_entry,
    parse_group,
    parse_group_subkey,
    parse_pending,
    pending_prefix,
)
from engine.values.streams import PendingEntry, StreamConsumer, StreamEntry, StreamGroup, StreamPart, StreamState

_PART_ENTRIES: Final = 64
_NAME_AT: Final = len(GROUPS) + U64.size


def parts_of(pieces: Iterator[bytes]) -> Iterator[StreamPart]:
    """The parts of a stream: entries as they come, and at the end its state, which is held in memory.

    Raises:
        CorruptionError: a record cannot be read.
    """
    last_id, max_deleted_id, entries_added = next(pieces), next(pieces), parse_u64(next(pieces))
    entries: list[StreamEntry] = []
    groups: dict[bytes, StreamGroup] = {}
    for subkey in pieces:
        value = next(pieces)
        if len(subkey) == ID_BYTES:
            entries.append(StreamEntry(subkey, parse_entry(value)))
            if len(entries) == _PART_ENTRIES:
                yield StreamPart(entries)
                entries = []
        else:
            _add(groups, subkey, value)
    for group in groups.values():
        if not {each.consumer for each in group.pending} <= {each.name for each in group.consumers}:
            raise CorruptionError("a stream has a pending entry of a consumer that is not there")
    ordered = [
        group._replace(consumers=sorted(group.consumers)) for _, group in sorted(groups.items())
    ]  # fmt: skip
    yield StreamPart(entries, StreamState(last_id, max_deleted_id, entries_added, ordered))


def _add(groups: dict[bytes, StreamGroup], subkey: bytes, value: bytes) -> None:
    """Take a record of a group in; that of the group itself comes before the others."""
    if subkey.startswith(GROUPS):
        name, record = parse_group_subkey(subkey), parse_group(value)
        groups[name] = StreamGroup(name, record.last_id, record.entries_read, [], [])
        return
    size = parse_u64(subkey[len(GROUPS) : _NAME_AT]) if len(subkey) >= _NAME_AT else 0
    group = groups.get(subkey[_NAME_AT : _NAME_AT + size])
    if group is None:
        raise CorruptionError(f"a stream has a record of {len(subkey)} bytes of a group that is not there")
    if subkey.startswith(consumers_prefix(group.name)):
        consumer = parse_consumer(value)
        name = parse_consumer_subkey(group.name, subkey)
        group.consumers.append(StreamConsumer(name, consumer.seen_ms, consumer.active_ms))
    elif subkey.startswith(pending_prefix(group.name)):
        pending = parse_pending(value)
        entry_id = subkey[-ID_BYTES:]
        group.pending.append(PendingEntry(entry_id, pending.consumer, pending.delivered_ms, pending.deliveries))

"""Writes the value of a stream; `engine.values.rdb.streams` has the formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final

from engine.values.rdb.compact import listpack
from engine.values.rdb.encode import pack_length, pack_string, seal
from engine.values.rdb.streams import IDS, OLDEST, SAME_FIELDS, WITH_ACTIVE_TIMES, WITH_COUNTERS, signed
from engine.values.streams import ID_BYTES, StreamEntry, StreamGroup, StreamPart, StreamState

VERSIONS: Final = {OLDEST: 9, WITH_COUNTERS: 10, WITH_ACTIVE_TIMES: 11}
"""The RDB version since which there is each type."""

_NODE_ENTRIES_MAX: Final = 100
_NODE_BYTES_MAX: Final = 4096

_ID: Final = Struct(">QQ")
_TIME: Final = Struct("<q")


def encode_stream(stream: StreamPart) -> bytes:
    """The payload of a whole stream, for as many servers as can have all of it.

    Raises:
        TooLargeError: it would be longer than the longest string.
    """
    kind = oldest_kind(stream)
    return seal((bytes((kind,)), *pack(kind, stream)), VERSIONS[kind])


def oldest_kind(stream: StreamPart) -> int:
    """The type of the oldest servers that read all of a stream, from Redis 7 on."""
    groups = stream.state.groups if stream.state is not None else ()
    consumers = (consumer for group in groups for consumer in group.consumers)
    return WITH_ACTIVE_TIMES if any(each.active_ms != each.seen_ms for each in consumers) else WITH_COUNTERS


def pack(kind: int, stream: StreamPart) -> Iterator[bytes]:
    """The value of a whole stream for a type: it loses what the type does not have."""
    assert stream.state is not None
    nodes = list(pack_nodes(stream.entries))
    yield pack_length(len(nodes))
    yield from nodes
    first_id = stream.entries[0].id if stream.entries else bytes(ID_BYTES)
    yield from pack_state(kind, stream.state, len(stream.entries), first_id)


def pack_nodes(entries: Iterable[StreamEntry]) -> Iterator[bytes]:
    """The ids and listpacks of entries in their order, about as servers fill them."""
    node: list[StreamEntry] = []
    size = 0
    for entry in entries:
        more = sum(map(len, entry.texts))
        if node and (len(node) == _NODE_ENTRIES_MAX or size + more > _NODE_BYTES_MAX):
            yield _pack_node(node)
            node, size = [], 0
        node.append(entry)
        size += more
    if node:
        yield _pack_node(node)


def _pack_node(entries: Sequence[StreamEntry]) -> bytes:
    master = entries[0]
    fields = master.texts[::2]
    ms, seq = _ID.unpack(master.id)
    elements = [b"%d" % len(entries), b"0", b"%d" % len(fields), *fields, b"0"]
    for entry in entries:
        own_ms, own_seq = _ID.unpack(entry.id)
        distance = [b"%d" % signed((own_ms - ms) % IDS), b"%d" % signed((own_seq - seq) % IDS)]
        if entry.texts[::2] == fields:
            words = [b"%d" % SAME_FIELDS, *distance, *entry.texts[1::2]]
        else:
            words = [b"0", *distance, b"%d" % (len(entry.texts) // 2), *entry.texts]
        elements += words
        elements.append(b"%d" % len(words))
    packed = listpack(elements)
    return pack_length(ID_BYTES) + master.id + pack_length(len(packed)) + packed


def pack_state(kind: int, state: StreamState, length: int, first_id: bytes) -> Iterator[bytes]:
    """What follows the listpacks of a stream of `length` entries, the first of which is `first_id`, or zero."""
    yield pack_length(length) + _pack_id(state.last_id)
    if kind != OLDEST:
        yield _pack_id(first_id) + _pack_id(state.max_deleted_id) + pack_length(state.entries_added)
    yield pack_length(len(state.groups))
    for group in state.groups:
        yield from _pack_group(kind, group)


def _pack_group(kind: int, group: StreamGroup) -> Iterator[bytes]:
    yield pack_string(group.name) + _pack_id(group.last_id)
    if kind != OLDEST:
        yield pack_length(group.entries_read % IDS)
    yield pack_length(len(group.pending))
    owned: dict[bytes, list[bytes]] = {consumer.name: [] for consumer in group.consumers}
    for entry in group.pending:
        owned[entry.consumer].append(entry.id)
        yield entry.id + _TIME.pack(entry.delivered_ms) + pack_length(entry.deliveries)
    yield pack_length(len(group.consumers))
    for consumer in group.consumers:
        ids = owned[consumer.name]
        times = [consumer.seen_ms, consumer.active_ms] if kind == WITH_ACTIVE_TIMES else [consumer.seen_ms]
        yield b"".join([pack_string(consumer.name), *map(_TIME.pack, times), pack_length(len(ids)), *ids])


def _pack_id(entry_id: bytes) -> bytes:
    ms, seq = _ID.unpack(entry_id)
    return pack_length(ms) + pack_length(seq)

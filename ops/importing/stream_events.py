"""Makes the events that bring one stream of any size into the log.

A stream that fits is one event, which brings all of it exactly:

    RESTORE key time payload REPLACE ABSTTL

A larger one comes in several. Of it the times at which consumers were last seen are not kept, nor what is pending of
entries that were deleted: no command makes that.

    EXEC: DEL key; XADD …      then XADD …, XGROUP CREATE …, XSETID, XGROUP CREATECONSUMER …, XCLAIM …

Each event of a stream with a time to live ends with PEXPIREAT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from engine.types.stream.streams import show_id
from engine.values.rdb.stream_encoding import encode_stream
from engine.values.streams import StreamGroup, StreamPart, StreamState, joined
from ops.importing.source import Command

_TOGETHER_BYTES: Final = 1024 * 1024
_TOGETHER_COMMANDS: Final = 1000
_ENTRY_BYTES: Final = 64
_PENDING_BYTES: Final = 64

_Words = list[bytes]


def stream_events(name: bytes, expire_ms: int, parts: Iterable[StreamPart]) -> Iterator[Command]:
    """The events of the stream `name`, made as they are asked for. `largest_entry_bytes` has let all parts pass."""
    parts = iter(parts)
    begun, size = [], 0
    for part in parts:
        begun.append(part)
        size += _bytes_of(part)
        if size > _TOGETHER_BYTES:
            break
    if size <= _TOGETHER_BYTES:
        payload = encode_stream(joined(begun))
        yield b"RESTORE", [name, b"%d" % expire_ms, payload, b"REPLACE", b"ABSTTL"]
        return
    commands = chain([[b"DEL", name]], _commands(name, chain(begun, parts)))
    for together in _together(commands):
        lifetime = [[b"PEXPIREAT", name, b"%d" % expire_ms]] if expire_ms else []
        yield b"EXEC", [*together, *lifetime]


def largest_entry_bytes(part: StreamPart) -> int:
    """What the largest entry takes in an event."""
    return max((sum(len(text) + 8 for text in entry.texts) for entry in part.entries), default=0)


def _bytes_of(part: StreamPart) -> int:
    size = sum(_ENTRY_BYTES + sum(map(len, entry.texts)) for entry in part.entries)
    groups = () if part.state is None else part.state.groups
    return size + sum(_PENDING_BYTES * (len(group.pending) + len(group.consumers)) for group in groups)


def _together(commands: Iterable[_Words]) -> Iterator[list[_Words]]:
    """As many commands together as go into one event, at least one."""
    together: list[_Words] = []
    size = 0
    for words in commands:
        more = sum(len(word) + 8 for word in words)
        if together and (size + more > _TOGETHER_BYTES or len(together) == _TOGETHER_COMMANDS):
            yield together
            together, size = [], 0
        together.append(words)
        size += more
    yield together


def _commands(name: bytes, parts: Iterable[StreamPart]) -> Iterator[_Words]:
    ids: set[bytes] = set()
    for part in parts:
        for entry in part.entries:
            ids.add(entry.id)
            yield [b"XADD", name, show_id(entry.id), *entry.texts]
        if part.state is not None:
            yield from _of_state(name, part.state, ids)


def _of_state(name: bytes, state: StreamState, ids: set[bytes]) -> Iterator[_Words]:
    for group in state.groups:
        read = b"%d" % group.entries_read
        yield [b"XGROUP|CREATE", name, group.name, show_id(group.last_id), b"MKSTREAM", b"ENTRIESREAD", read]
    added, deleted = b"%d" % state.entries_added, show_id(state.max_deleted_id)
    yield [b"XSETID", name, show_id(state.last_id), b"ENTRIESADDED", added, b"MAXDELETEDID", deleted]
    for group in state.groups:
        yield from _of_group(name, group, ids)


def _of_group(name: bytes, group: StreamGroup, ids: set[bytes]) -> Iterator[_Words]:
    for consumer in group.consumers:
        yield [b"XGROUP|CREATECONSUMER", name, group.name, consumer.name]
    for entry in group.pending:
        if entry.id in ids:
            given = [b"TIME", b"%d" % entry.delivered_ms, b"RETRYCOUNT", b"%d" % entry.deliveries]
            owner = [name, group.name, entry.consumer, b"0", show_id(entry.id)]
            yield [b"XCLAIM", *owner, *given, b"FORCE", b"JUSTID"]

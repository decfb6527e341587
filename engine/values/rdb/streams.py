"""Reads the value of a stream; `engine.values.rdb.stream_encoding` writes it.

    type   since RDB   value
    15     9           [n] (id, listpack) … [entries] [last id] [n] group …
    19     10          as 15; before the groups [first id] [highest deleted id] [entries ever added]
    21     11          as 19; each consumer has a second time

    group      name [last id] [entries read, 2**64 - 1 unknown; not in 15] [n] pending … [n] consumer …
    pending    id:16 [when delivered:8] [deliveries]
    consumer   name [when it last asked:8] [when it last got an entry, -1 never:8; in 21 alone] [n] id:16 …

What is in brackets without a width is a length, an id in brackets two of them; times are milliseconds since the epoch,
little-endian. The id before a listpack is a string of 16 bytes. It is that of the first entry that was written to the
listpack, the *master*, whose fields come first:

    [entries] [deleted] [fields] field … 0
    [flags] [ms - master's] [seq - master's] value … [elements of this entry]               flag 2: the master's fields
    [flags] [ms - master's] [seq - master's] [fields] (field, value) … [elements of this entry]

An entry with flag 1 is deleted. A difference is one of 64 bits, with a sign. Source: rdb.c and t_stream.c of Valkey 9
and Redis 7.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from engine.values.numbers import parse_int
from engine.values.rdb.errors import FormatError
from engine.values.rdb.packed import listpack
from engine.values.rdb.reader import Reader
from engine.values.streams import (
    ID_BYTES,
    NEVER,
    UNKNOWN,
    PendingEntry,
    StreamConsumer,
    StreamEntry,
    StreamGroup,
    StreamPart,
    StreamState,
)

OLDEST, WITH_COUNTERS, WITH_ACTIVE_TIMES = 15, 19, 21
STREAMS: Final = frozenset((OLDEST, WITH_COUNTERS, WITH_ACTIVE_TIMES))

_DELETED, SAME_FIELDS = 1, 2
IDS: Final = 1 << 64

_ID: Final = Struct(">QQ")
_TIME_BYTES: Final = 8


def read_parts(kind: int, reader: Reader) -> Iterator[StreamPart]:
    """The parts of the stream of type `kind` at `reader`: one for each listpack, and one without entries at the end.

    Raises:
        FormatError: it is none that a server could have. TooLargeError: see there.
    """
    first_id = last_id = b""
    length = 0
    for _ in range(reader.count(2, none=True)):
        entries = _read_node(reader.string(), reader.string())
        for entry in entries:
            if entry.id <= last_id:
                raise FormatError("stream: order")
            last_id = entry.id
        if entries:
            first_id = first_id or entries[0].id
            length += len(entries)
            yield StreamPart(entries)
    if reader.length() != length:
        raise FormatError("stream: length")
    yield StreamPart([], _read_state(kind, reader, length, first_id, last_id))


def _read_node(master: bytes, packed: bytes) -> list[StreamEntry]:
    """The entries of one listpack that are not deleted."""
    if len(master) != ID_BYTES:
        raise FormatError("stream: id")
    elements = _Elements(listpack(packed))
    left = elements.integer()
    left += elements.integer()
    fields = elements.take(elements.integer())
    if elements.integer() or left <= 0:
        raise FormatError("stream: node")
    entries = []
    for _ in range(left):
        start = elements.at
        flags = elements.integer()
        entry_id = _sum(master, elements.integer(), elements.integer())
        if flags & SAME_FIELDS:
            texts = _alternating(fields, elements.take(len(fields)))
        else:
            texts = elements.take(2 * elements.integer())
        if elements.at - start != elements.integer() or not texts:
            raise FormatError("stream: entry")
        if not flags & _DELETED:
            entries.append(StreamEntry(entry_id, texts))
    elements.end()
    return entries


class _Elements:
    """A position among the elements of a listpack."""

    __slots__ = ("_elements", "at")

    def __init__(self, elements: list[bytes]) -> None:
        self._elements = elements
        self.at = 0

    def integer(self) -> int:
        """The next one, which is an integer of 64 bits."""
        (text,) = self.take(1)
        number = parse_int(text)
        if number is None:
            raise FormatError("stream: no integer")
        return number

    def take(self, count: int) -> list[bytes]:
        """The next `count`."""
        end = self.at + count
        if not self.at <= end <= len(self._elements):
            raise FormatError("stream: too few elements")
        taken = self._elements[self.at : end]
        self.at = end
        return taken

    def end(self) -> None:
        """Refuse more of them."""
        if self.at != len(self._elements):
            raise FormatError("stream: too many elements")


def _sum(master: bytes, ms: int, seq: int) -> bytes:
    master_ms, master_seq = _ID.unpack(master)
    return _ID.pack((master_ms + ms) % IDS, (master_seq + seq) % IDS)


def _alternating(fields: Sequence[bytes], values: Sequence[bytes]) -> list[bytes]:
    return [text for pair in zip(fields, values, strict=True) for text in pair]


def _read_state(kind: int, reader: Reader, length: int, first_id: bytes, top_id: bytes) -> StreamState:
    last_id = _read_id(reader)
    max_deleted_id, entries_added = bytes(ID_BYTES), length
    if kind != OLDEST:
        _read_id(reader)  # the first entry's
        max_deleted_id, entries_added = _read_id(reader), reader.length()
    if last_id < top_id or not length <= entries_added < IDS // 2:
        raise FormatError("stream: counters")

    def entries_read(last_read_id: bytes) -> int:
        """How many entries a group of the oldest form has read, where that is certain; as servers set it."""
        if not length or last_read_id < first_id:
            return 0
        return {last_id: length, first_id: 1}.get(last_read_id, UNKNOWN)

    groups: dict[bytes, StreamGroup] = {}
    for _ in range(reader.count(5, none=True)):
        name, group_id = reader.string(), _read_id(reader)
        read = entries_read(group_id) if kind == OLDEST else signed(reader.length())
        if name in groups or read < UNKNOWN:
            raise FormatError("stream: group")
        groups[name] = _read_group(kind, reader, name, group_id, read)
    return StreamState(last_id, max_deleted_id, entries_added, [groups[name] for name in sorted(groups)])


def _read_group(kind: int, reader: Reader, name: bytes, last_id: bytes, entries_read: int) -> StreamGroup:
    pending: dict[bytes, PendingEntry] = {}
    count = reader.count(ID_BYTES + _TIME_BYTES + 1, none=True)
    for _ in range(count):
        entry_id = reader.take(ID_BYTES)
        pending[entry_id] = PendingEntry(entry_id, b"", reader.integer(_TIME_BYTES), reader.length())
    owned: set[bytes] = set()
    consumers: dict[bytes, StreamConsumer] = {}
    consumer_bytes = 2 + (2 if kind == WITH_ACTIVE_TIMES else 1) * _TIME_BYTES
    for _ in range(reader.count(consumer_bytes, none=True)):
        consumer = reader.string()
        seen_ms = reader.integer(_TIME_BYTES)
        active_ms = reader.integer(_TIME_BYTES) if kind == WITH_ACTIVE_TIMES else seen_ms
        if consumer in consumers or min(seen_ms, active_ms) < NEVER:
            raise FormatError("stream: consumer")
        consumers[consumer] = StreamConsumer(consumer, seen_ms, active_ms)
        for _ in range(reader.count(ID_BYTES, none=True)):
            entry_id = reader.take(ID_BYTES)
            if entry_id not in pending or entry_id in owned:
                raise FormatError("stream: pending")
            owned.add(entry_id)
            pending[entry_id] = pending[entry_id]._replace(consumer=consumer)
    if not len(owned) == len(pending) == count or any(not _is_possible(entry) for entry in pending.values()):
        raise FormatError("stream: pending")
    return StreamGroup(
        name,
        last_id,
        entries_read,
        [consumers[consumer] for consumer in sorted(consumers)],
        [pending[entry_id] for entry_id in sorted(pending)],
    )


def _is_possible(entry: PendingEntry) -> bool:
    return entry.delivered_ms >= 0 and entry.deliveries < IDS // 2


def _read_id(reader: Reader) -> bytes:
    ms = reader.length()
    return _ID.pack(ms, reader.length())


def signed(number: int) -> int:
    """A number of 64 bits with a sign."""
    return number - IDS if number >= IDS // 2 else number

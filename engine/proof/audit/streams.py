"""Audits the records of a stream against each other and its metadata.

A group says how many consumers and pending entries it has, a consumer how many pending entries. The counts of all
groups of one stream are held in memory, with a sum over its pending entries, which the index has to have too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.layouts.layout import Form, Kind
from engine.model import NO_ID, StreamMetadata
from engine.proof.audit.violation import Live, Tally, several, shown
from engine.proof.audit.walk import RecordCursor
from engine.values.encoding import U64, parse_u64
from engine.values.stream_records import (
    BLOCKS,
    ENTRIES_END,
    ID_BYTES,
    by_consumer_subkey,
    consumer_subkey,
    group_subkey,
    parse_consumer,
    parse_entry,
    parse_group,
    parse_pending,
)

_TAG_AT: Final = len(ENTRIES_END)
_GROUP, _CONSUMER, _PENDING = b"\1", b"\2", b"\3"


class Finding(NamedTuple):
    """One thing that is wrong: what kind, where, at which subkey, and in words."""

    kind: str
    cursor: RecordCursor
    subkey: bytes
    text: str


class _Stream:
    """What was met of one stream so far."""

    def __init__(self, records: RecordCursor, index: RecordCursor, live: Live, forms: Container[Form]) -> None:
        self._records, self._index, self._live, self._forms = records, index, live, forms
        self._state = live.metadata.stream or StreamMetadata()
        self._first = self._end = NO_ID
        self._entries = 0
        self._groups: dict[bytes, list[int]] = {}  # what each has to have, less what was met: consumers, pending
        self._consumers: dict[tuple[bytes, bytes], int] = {}
        self._pending, self._indexed = Tally(), Tally()
        self._ids: list[bytes] = []  # of entries that were met and not held against a block yet
        self._held = 0  # more of them, of which the block is known to be a later one
        self._checks: dict[bytes, Callable[[bytes, bytes], Iterator[Finding]]] = {
            _GROUP: self._group,
            _CONSUMER: self._consumer,
            _PENDING: self._one_pending,
        }

    def check(self) -> Iterator[Finding]:
        """Take all of its records."""
        for subkey, value in self._records.under(self._live.prefixes[Kind.STREAM]):
            try:
                if len(subkey) == ID_BYTES:
                    yield from self._entry(subkey, value)
                else:
                    check = self._checks.get(subkey[_TAG_AT : _TAG_AT + 1], self._unknown)
                    yield from check(subkey, value)
            except CorruptionError as error:
                yield Finding("unreadable", self._records, subkey, f"has {error} in {self._records.column_family}")
        yield from self._ended()
        yield from self._check_index()

    # ------------------------------------------------------------------ records

    def _entry(self, subkey: bytes, value: bytes) -> Iterator[Finding]:
        parse_entry(value)
        self._entries += 1
        if self._first == NO_ID:
            self._first = subkey
        self._end = subkey
        if Form.STREAM_COUNTS in self._forms:
            self._ids.append(subkey)
            if len(self._ids) >= _IDS_AT_ONCE:
                yield from self._count_blocks(subkey)

    def _unknown(self, subkey: bytes, _: bytes) -> Iterator[Finding]:
        raise CorruptionError(f"the subkey {shown(subkey)}")

    def _group(self, subkey: bytes, value: bytes) -> Iterator[Finding]:
        name, rest = _named(subkey)
        if rest:
            raise CorruptionError(f"the group {shown(subkey)}")
        group = parse_group(value)
        self._groups[name] = [group.consumers, group.pending]
        yield from ()

    def _consumer(self, subkey: bytes, value: bytes) -> Iterator[Finding]:
        group, rest = _named(subkey)
        name = rest[U64.size :]
        if subkey != consumer_subkey(group, name):
            raise CorruptionError(f"the consumer {shown(subkey)}")
        self._consumers[group, name] = parse_consumer(value).pending
        if group not in self._groups:
            yield self._of_none(subkey, "consumer", group)
        else:
            self._groups[group][0] -= 1

    def _one_pending(self, subkey: bytes, value: bytes) -> Iterator[Finding]:
        group, entry_id = _named(subkey)
        pending = parse_pending(value)
        if len(entry_id) != ID_BYTES:
            raise CorruptionError(f"the pending entry {shown(subkey)}")
        self._pending.add(by_consumer_subkey(group, pending.consumer, entry_id))
        if group not in self._groups:
            yield self._of_none(subkey, "pending entry", group)
        else:
            self._groups[group][1] -= 1
        if (group, pending.consumer) not in self._consumers:
            text = f"has a pending entry of the consumer {shown(pending.consumer)}, which is not there"
            yield Finding("stream", self._records, subkey, text)
        else:
            self._consumers[group, pending.consumer] -= 1

    def _of_none(self, subkey: bytes, what: str, group: bytes) -> Finding:
        return Finding("stream", self._records, subkey, f"has a {what} of the group {shown(group)}, which is not there")

    # ------------------------------------------------------------------ sums

    def _ended(self) -> Iterator[Finding]:
        size, state = self._live.metadata.size, self._state
        if self._entries != size:
            text = f"has {self._entries} entries, by its metadata {size}"
            yield Finding("size", self._records, b"", text)
        if (self._first, self._end) != (state.first_id, state.end_id):
            text = f"has entries from {self._first.hex()} to {self._end.hex()}, by its metadata"
            yield Finding("stream", self._records, b"", f"{text} {state.first_id.hex()} to {state.end_id.hex()}")
        if self._end > state.last_id:
            yield Finding("stream", self._records, self._end, f"has an entry above its last id {state.last_id.hex()}")
        if len(self._groups) != state.groups:
            text = f"has {several(len(self._groups), 'group')}, by its metadata {state.groups}"
            yield Finding("stream", self._records, b"", text)
        for group, (consumers, pending) in self._groups.items():
            if consumers or pending:
                text = f"says of the group {shown(group)} that it has {consumers} more consumers and {pending} more"
                yield Finding("stream", self._records, group_subkey(group), f"{text} pending entries than there are")
        for (group, name), pending in self._consumers.items():
            if pending:
                text = f"says of the consumer {shown(name)} that it has {pending} more pending entries than there are"
                yield Finding("stream", self._records, consumer_subkey(group, name), text)

    # ------------------------------------------------------------------ the index

    def _check_index(self) -> Iterator[Finding]:
        yield from self._count_blocks(None)
        for subkey, value in self._index.under(self._live.prefixes[Kind.STREAM_INDEX]):
            if value:
                text = f"has {shown(value)} with the pending entry {shown(subkey)} in {self._index.column_family}"
                yield Finding("unreadable", self._index, subkey, text)
            self._indexed.add(subkey)
        if not self._pending.agrees(self._indexed):
            yield Finding("stream", self._index, b"", "has an index that has not the pending entries of its groups")

    def _count_blocks(self, up_to: bytes | None) -> Iterator[Finding]:
        """Hold the blocks that end at or below an id, or all, against the entries that were met; then forget these."""
        prefix = self._live.prefixes[Kind.STREAM_INDEX] + BLOCKS
        at = 0
        while (record := self._index.key) is not None and record.startswith(prefix):
            last_id = record[len(prefix) :]
            if up_to is not None and last_id > up_to:
                break
            before = at
            while at < len(self._ids) and self._ids[at] <= last_id:
                at += 1
            ((_, value),) = self._index.under(record)
            count = parse_u64(value) if len(value) == U64.size else None
            if count != self._held + at - before or len(last_id) != ID_BYTES or not count:
                text = f"counts {count} entries up to {last_id.hex()}, and has {self._held + at - before}"
                yield Finding("stream", self._index, BLOCKS + last_id, text)
            self._held = 0
        self._held += len(self._ids) - at
        self._ids.clear()
        if up_to is None and self._held != self._state.tail_count and Form.STREAM_COUNTS in self._forms:
            text = f"has {self._held} entries after its last block, by its metadata {self._state.tail_count}"
            yield Finding("stream", self._index, b"", text)


_IDS_AT_ONCE: Final = 4096


def check_stream(records: RecordCursor, index: RecordCursor, live: Live, forms: Container[Form]) -> Iterator[Finding]:
    """Take all records of a stream, and say what is wrong with them."""
    return _Stream(records, index, live, forms).check()


def _named(subkey: bytes) -> tuple[bytes, bytes]:
    """The group that a subkey names behind its tag, and what follows."""
    start = _TAG_AT + 1 + U64.size
    end = start + parse_u64(subkey[_TAG_AT + 1 : start]) if len(subkey) >= start else start
    if len(subkey) < end:
        raise CorruptionError(f"the subkey {shown(subkey)}")
    return subkey[start:end], subkey[end:]

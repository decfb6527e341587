"""Audits the subkeys of live keys against their metadata: one walk over each column family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.batch.keys.fragments import is_fragmented
from engine.layouts.layout import Indexing, Kind
from engine.layouts.records import has_index, version_records
from engine.limits import FRAGMENT_BYTES, STRING_BYTES_MAX
from engine.model import HASH, LIST, SET, STREAM, STRING, UNCOUNTED_FROM, ZSET
from engine.proof.audit.field_times import check_times
from engine.proof.audit.ranks import Ranks
from engine.proof.audit.streams import check_stream
from engine.proof.audit.violation import Live, State, Tally, Violation, Violations, several, shown
from engine.proof.audit.walk import RecordCursor
from engine.values.encoding import U64, pack_score, pack_u64, parse_score, parse_u64

_SCORE_BYTES: Final = 8
_LENGTH_MAX: Final = STRING_BYTES_MAX + 8  # BITFIELD may begin at the last bit that a string can have, as in Redis


class Contents:
    """The subkeys of one state.

    Attributes:
        cursors: on every kind of records that the layout has, but the metadata.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._data, self._scores = RecordCursor(state, Kind.DATA), RecordCursor(state, Kind.SCORES)
        self._ranks, self._times = RecordCursor(state, Kind.RANKS), RecordCursor(state, Kind.TIMES)
        self._members, self._counts = RecordCursor(state, Kind.MEMBERS), RecordCursor(state, Kind.COUNTS)
        self._names = RecordCursor(state, Kind.NAMES)
        self._streams, self._index = RecordCursor(state, Kind.STREAM), RecordCursor(state, Kind.STREAM_INDEX)
        of_sorted_sets = self._scores, self._ranks, self._members, self._counts, self._names
        every = (self._data, self._times, *of_sorted_sets, self._streams, self._index)
        self.cursors = tuple(cursor for cursor in every if cursor.kind in state.layout.families)
        self._checks: dict[int, Callable[[Live], Violations]] = {
            STRING: self._string,
            HASH: self._hash,
            LIST: self._list,
            SET: self._set,
            ZSET: self._zset,
            STREAM: self._stream,
        }

    def check(self, live: Live) -> Violations:
        """Take all records of a key that has subkeys, and say what is wrong with them."""
        yield from self._checks[live.metadata.type](live)
        for cursor in self.cursors:
            count = cursor.skip(live.prefixes[cursor.kind])
            if count:
                text = f"has {several(count, 'record')} in {cursor.column_family}, where its form has none"
                yield self._wrong(cursor.kind.name.lower(), cursor, live, text)

    # ------------------------------------------------------------------ the types

    def _string(self, live: Live) -> Violations:
        length = live.metadata.size
        if not is_fragmented(length, self._state.layout.forms) or length > _LENGTH_MAX:
            text = f"{self._state.name_of(live.metadata_key)} is in fragments, with a length of {length} bytes"
            yield Violation("fragments", self._state.metadata_cf, live.metadata_key, text)
        for subkey, content in self._data.under(live.prefixes[Kind.DATA]):
            if len(subkey) != U64.size:
                yield self._unreadable(self._data, live, subkey, "a fragment without a number")
                continue
            index = parse_u64(subkey)
            room = min(FRAGMENT_BYTES, length - index * FRAGMENT_BYTES)
            if room <= 0:
                text = f"has a fragment {index} after its {length} bytes"
            elif not 0 < len(content) <= room:
                text = f"has {several(len(content), 'byte')} in fragment {index}, which may have 1 to {room}"
            elif content.endswith(b"\0"):
                text = f"has zeros at the end of fragment {index}"
            else:
                continue
            yield self._wrong("fragments", self._data, live, text, subkey)

    def _hash(self, live: Live) -> Violations:
        if live.metadata.times is None:
            count = self._data.skip(live.prefixes[Kind.DATA])
        else:
            fields = self._data.under(live.prefixes[Kind.DATA])
            count = yield from check_times(self._state, self._times, fields, live)
        yield from self._sized(live, count)

    def _set(self, live: Live) -> Violations:
        count = 0
        for member, value in self._data.under(live.prefixes[Kind.DATA]):
            count += 1
            if value:
                yield self._unreadable(self._data, live, member, "a member with a value")
        yield from self._sized(live, count)

    def _list(self, live: Live) -> Violations:
        head, tail, size = live.metadata.head, live.metadata.tail, live.metadata.size
        expected, count = head, 0
        for subkey, _ in self._data.under(live.prefixes[Kind.DATA]):
            count += 1
            if len(subkey) != U64.size:
                yield self._unreadable(self._data, live, subkey, "an element without an index")
                continue
            index = parse_u64(subkey)
            if not head <= index < tail:
                text = f"has an element at {index}, outside of {head} … {tail - 1}"
                yield self._wrong("list", self._data, live, text, subkey)
                continue
            if index > expected:
                yield self._hole(live, expected, index)
            expected = index + 1
        if expected < tail:
            yield self._hole(live, expected, tail)
        if tail - head != size:
            text = f"has {several(size, 'element')} by its metadata, which lets them stand at {head} … {tail - 1}"
            yield self._wrong("list", self._data, live, text)
        yield from self._sized(live, count)

    def _zset(self, live: Live) -> Violations:
        members, scores = Tally(), Tally()
        elements = self._members if has_index(self._state.layout) else self._data
        for member, score in elements.under(live.prefixes[elements.kind]):
            members.add(score + member)
            if not _is_score(score):
                yield self._unreadable(elements, live, member, f"the score {shown(score)}")
        ranks = Ranks(self._state, self._ranks, live)
        yield from ranks.begin()
        for score_key, value in self._scores.under(live.prefixes[Kind.SCORES]):
            scores.add(score_key)
            if not ranks.counts(score_key):
                yield from ranks.catch_up(score_key)
            if value:
                yield self._unreadable(self._scores, live, score_key, "a score record with a value")
        yield from ranks.end()
        if not members.agrees(scores):
            yield from self._differences(live)
        if elements is self._members:
            yield from self._named(live)
            yield from self._counted(live, members.count)
        else:
            yield from self._sized(live, members.count)

    def _stream(self, live: Live) -> Violations:
        for kind, cursor, subkey, text in check_stream(self._streams, self._index, live, self._state.layout.forms):
            yield self._wrong(kind, cursor, live, text, subkey)

    def _differences(self, live: Live) -> Violations:
        """Which members and score records are without the other one. A look-up for each of both: for damage alone."""
        store, layout = self._state.store, self._state.layout
        owner = live.metadata_key, live.metadata.version
        elements = self._members if has_index(layout) else self._data
        members, scores = (version_records(layout, kind, *owner) for kind in (elements.kind, Kind.SCORES))
        get_member, get_score = store.getter(members.column_family), store.getter(scores.column_family)
        for record, score in members.scan(store):
            member = record[len(members.prefix) :]
            if get_score(scores.prefix + score + member) is None:
                text = f"has no score record for its member {shown(member)}"
                yield self._wrong("scores", elements, live, text, member)
        for record, _ in scores.scan(store):
            score_key = record[len(scores.prefix) :]
            score, member = score_key[:_SCORE_BYTES], score_key[_SCORE_BYTES:]
            if get_member(members.prefix + member) != score:
                text = f"has a score record of {shown(member)} that no member has"
                yield self._wrong("scores", self._scores, live, text, score + member)

    # ------------------------------------------------------------------ what is said

    def _sized(self, live: Live, count: int) -> Violations:
        if live.metadata.size < UNCOUNTED_FROM and (count != live.metadata.size or not count):
            text = f"has {several(count, 'element')}, by its metadata {live.metadata.size}"
            yield self._wrong("size", self._data, live, text)

    def _named(self, live: Live) -> Violations:
        """The long members of a sorted set in an index outside of the store, each under what the index has for it."""
        layout = self._state.layout
        for item, member in self._names.under(live.prefixes[Kind.NAMES]):
            if not isinstance(layout, Indexing) or layout.index_item(member) != item:
                yield self._unreadable(self._names, live, item, f"the member {shown(member)} under another one's hash")

    def _counted(self, live: Live, members: int) -> Violations:
        """The record that says how many members a sorted set in an index has."""
        counts = [value for subkey, value in self._counts.under(live.prefixes[Kind.COUNTS]) if not subkey]
        said = parse_u64(counts[0]) if counts and len(counts[0]) == U64.size else None
        if said != members or not members:
            text = f"has {several(members, 'member')}, by the index {'unknown' if said is None else said}"
            yield self._wrong("size", self._counts, live, text)

    def _hole(self, live: Live, first: int, end: int) -> Violation:
        at = str(first) if end - first == 1 else f"{first} … {end - 1}"
        return self._wrong("list", self._data, live, f"has no element at {at}", pack_u64(first))

    def _unreadable(self, cursor: RecordCursor, live: Live, subkey: bytes, what: str) -> Violation:
        return self._wrong("unreadable", cursor, live, f"has {what} in {cursor.column_family}", subkey)

    def _wrong(self, kind: str, cursor: RecordCursor, live: Live, text: str, subkey: bytes = b"") -> Violation:
        name = self._state.name_of(live.metadata_key)
        return Violation(kind, cursor.column_family, live.prefixes[cursor.kind] + subkey, f"{name} {text}")


def _is_score(packed: bytes) -> bool:
    """Whether these are the bytes of a score: eight of them, no NaN, no negative zero."""
    if len(packed) != _SCORE_BYTES:
        return False
    try:
        return pack_score(parse_score(packed)) == packed
    except ValueError:
        return False

"""Audits the rank counts of a sorted set against its score records."""

from __future__ import annotations

from collections.abc import Iterator

from engine.batch.ranks import rank_counts
from engine.layouts.layout import Kind
from engine.proof.audit.violation import Live, State, Violation, Violations, several
from engine.proof.audit.walk import RecordCursor
from engine.values.encoding import U64, parse_u64

_Records = Iterator[tuple[bytes, bytes]]


class Ranks:
    """The rank counts of one sorted set, or that it has none. Its groups are held, its blocks pass by."""

    def __init__(self, state: State, cursor: RecordCursor, live: Live) -> None:
        self._state = state
        self._cursor = cursor
        self._live = live
        self._blocks: _Records = iter(())
        self._groups: _Records = iter(())
        self._block: tuple[bytes, bytes] | None = None  # at hand: end and packed count; None behind the last one
        self._group: tuple[bytes, bytes] | None = None
        self._members = 0  # of the block at hand
        self._group_members = 0
        self._last_end = b""

    def begin(self) -> Violations:
        """Before the first score record."""
        metadata = self._live.metadata
        if not metadata.ranked:
            if rank_counts.is_counted(metadata.size, self._state.layout.forms):
                yield self._wrong(b"", f"has {several(metadata.size, 'member')} and no rank counts")
            return
        prefix = self._live.prefixes[Kind.RANKS]
        start, end = prefix + rank_counts.GROUP, prefix + bytes((rank_counts.GROUP[0] + 1,))
        records = self._state.store.scan(self._cursor.column_family, start, end)
        groups = [(record[len(start) :], count) for record, count in records]
        if not groups or groups[-1][0] != rank_counts.END:
            yield self._wrong(rank_counts.GROUP + rank_counts.END, "has no last group")
        self._groups = iter(groups)
        self._group = next(self._groups, None)
        self._blocks = self._cursor.under(prefix + rank_counts.BLOCK)
        self._block = next(self._blocks, None)

    def counts(self, score_key: bytes) -> bool:
        """Count the next score record in; False when it is not one of the block at hand: `catch_up`."""
        if self._block is None or score_key < self._block[0]:
            self._members += 1
            return True
        return False

    def catch_up(self, score_key: bytes) -> Violations:
        """Go on to the block of the next score record, and count it in."""
        while not self.counts(score_key):
            yield from self._close_block()

    def end(self) -> Violations:
        """Behind the last score record."""
        if not self._live.metadata.ranked:
            return
        while self._block is not None:
            yield from self._close_block()
        if self._last_end != rank_counts.END:
            yield self._wrong(rank_counts.BLOCK + rank_counts.END, "has no last block")
        while self._group is not None:
            yield from self._lost_group()
        self._cursor.skip(self._live.prefixes[Kind.RANKS] + rank_counts.GROUP)

    def _close_block(self) -> Violations:
        assert self._block is not None
        end, packed = self._block
        yield from self._compare("block", rank_counts.BLOCK + end, packed, self._members)
        if self._members > rank_counts.BLOCK_MAX:
            yield self._wrong(rank_counts.BLOCK + end, f"has a block of {self._members} members")
        self._group_members += self._members
        while self._group is not None and self._group[0] < end:
            yield from self._lost_group()
        if self._group is not None and self._group[0] == end:
            yield from self._compare("group", rank_counts.GROUP + end, self._group[1], self._group_members)
            self._group_members = 0
            self._group = next(self._groups, None)
        self._last_end, self._members = end, 0
        self._block = next(self._blocks, None)

    def _lost_group(self) -> Violations:
        assert self._group is not None
        yield self._wrong(rank_counts.GROUP + self._group[0], "has a group that ends where no block does")
        self._group = next(self._groups, None)

    def _compare(self, what: str, subkey: bytes, packed: bytes, members: int) -> Violations:
        if len(packed) != U64.size:
            yield self._wrong(subkey, f"has a {what} without a count", kind="unreadable")
        elif parse_u64(packed) != members:
            text = f"has {several(members, 'member')} in a {what}, by its count {parse_u64(packed)}"
            yield self._wrong(subkey, text)
        elif not members:
            yield self._wrong(subkey, f"has an empty {what}")

    def _wrong(self, subkey: bytes, text: str, kind: str = "ranks") -> Violation:
        name = self._state.name_of(self._live.metadata_key)
        return Violation(kind, self._cursor.column_family, self._live.prefixes[Kind.RANKS] + subkey, f"{name} {text}")

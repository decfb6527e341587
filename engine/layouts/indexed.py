"""A store of which an index, outside of it, has the sorted sets.

To who uses it, it has the same records as one without: members and score keys in the column family of the index. Here
they are made of what the index says. All other records are those of the store within; among them is how many members
a sorted set has, which is also the list of all sorted sets, in the order of keys.

Items of one score come from the index in an order of its own. Their members are put in order here, all of one score at
a time; in order of members a set comes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple

from engine.errors import CorruptionError, IndexUnavailableError, StateMismatchError
from engine.layouts.index import BATCH, Index, IndexChanges, pack_batch, parse_batch
from engine.layouts.layout import Indexing, Kind
from engine.layouts.records import all_records
from engine.store.store import LOCAL_CF, Changes, Get, MaintainedStore
from engine.values.encoding import prefix_end

_SCORE_BYTES: Final = 8
_LOWEST: Final = bytes(_SCORE_BYTES)
_HIGHEST: Final = b"\xff" * _SCORE_BYTES
_SERVED: Final = (Kind.MEMBERS, Kind.SCORES)

_first = itemgetter(0)

Records = Iterator[tuple[bytes, bytes]]


class _Set(NamedTuple):
    """One version of a sorted set, and what its records of a kind begin with."""

    kind: Kind
    metadata_key: bytes
    version: int
    prefix: bytes


class IndexedStore:
    """A store, and the index that has its sorted sets.

    Args:
        store: with the column families of the layout.
        layout: bound to the partition.
        index: of this partition.
        read_only: the index is to be left as it is.

    Attributes:
        is_gathering: makes no difference, see `write_gathered`.

    Raises:
        StateMismatchError: the index and the store are not of one state, or one has lost what the other has.
        IndexUnavailableError: the index cannot be reached.
    """

    def __init__(self, store: MaintainedStore, layout: Indexing, index: Index, *, read_only: bool = False) -> None:
        self._store = store
        self._layout = layout
        self._index = index
        self._family = layout.families[Kind.MEMBERS]
        self._names = layout.families[Kind.NAMES]
        self._get_name = store.getter(self._names)
        self.is_gathering = False
        self._starts = {kind: layout.kind_prefix(kind) for kind in (*_SERVED, Kind.COUNTS)}
        self._number = self._settle(read_only=read_only)

    # ------------------------------------------------------------------ reading

    def getter(self, column_family: str) -> Get:
        """A function from key to value."""
        return self._get if column_family == self._family else self._store.getter(column_family)

    def scan(self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False) -> Records:
        """The records with `start <= key < end`; of a sorted set as the index has it while they are taken."""
        if column_family != self._family:
            return self._store.scan(column_family, start, end, reverse=reverse)
        of = self._set_of(start)
        if of is not None and (end == prefix_end(of.prefix) or (end is not None and end.startswith(of.prefix))):
            return self._scan_set(of, start, end, reverse=reverse)
        others = self._store.scan(column_family, start, end, reverse=reverse)
        served = [self._scan_kind(kind, start, end, reverse=reverse) for kind in _SERVED]
        return merge(others, *served, key=_first, reverse=reverse)

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The first `most` keys of `scan`."""
        if column_family != self._family:
            return self._store.keys(column_family, start, end, most)
        return [key for key, _ in islice(self.scan(column_family, start, end), most)]

    def records(self, column_family: str, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """The first `most` records of `scan`."""
        if column_family != self._family:
            return self._store.records(column_family, start, end, most)
        return list(islice(self.scan(column_family, start, end), most))

    def _get(self, record: bytes) -> bytes | None:
        of = self._set_of(record)
        if of is None:
            return self._store.getter(self._family)(record)
        subkey = record[len(of.prefix) :]
        member = subkey if of.kind == Kind.MEMBERS else subkey[_SCORE_BYTES:]
        score = self._index.score(self._name(of), self._layout.index_item(member))
        if of.kind == Kind.MEMBERS:
            return score
        return b"" if score is not None and score == subkey[:_SCORE_BYTES] else None

    def _scan_kind(self, kind: Kind, start: bytes, end: bytes | None, *, reverse: bool) -> Records:
        """The records of a kind of all sorted sets, one after the other."""
        first = self._starts[kind]
        if (end is not None and end <= first) or start >= prefix_end(first):
            return
        for of in self._sets(kind, reverse=reverse):
            behind = prefix_end(of.prefix)
            if start < behind and (end is None or of.prefix < end):
                last = behind if end is None else min(end, behind)
                yield from self._scan_set(of, max(start, of.prefix), last, reverse=reverse)

    def _sets(self, kind: Kind, *, reverse: bool = False) -> Iterator[_Set]:
        counts = all_records(self._layout, Kind.COUNTS)
        for record, _ in self._store.scan(self._family, counts.prefix, counts.end, reverse=reverse):
            owner = self._layout.owner(Kind.COUNTS, record)
            yield _Set(kind, *owner, self._layout.prefix(kind, *owner))

    def _scan_set(self, of: _Set, start: bytes, end: bytes | None, *, reverse: bool) -> Records:
        """The records of a set with `start <= key < end`, both at or above its prefix."""
        name, skip = self._name(of), len(of.prefix)
        if of.kind == Kind.MEMBERS:
            found = (
                (self._member(of, item), score)
                for score, item in self._index.scan(name, _LOWEST, _HIGHEST, reverse=False)
            )
            records = sorted(((of.prefix + member, score) for member, score in found), reverse=reverse)
            return (record for record in records if start <= record[0] and (end is None or record[0] < end))
        low = start[skip:][:_SCORE_BYTES].ljust(_SCORE_BYTES, b"\0")
        is_bounded = end is not None and end.startswith(of.prefix)
        high = end[skip:][:_SCORE_BYTES].ljust(_SCORE_BYTES, b"\0") if end is not None and is_bounded else _HIGHEST
        by_score = groupby(self._index.scan(name, low, high, reverse=reverse), key=_first)
        score_keys = (
            of.prefix + score + member
            for score, items in by_score
            for member in sorted((self._member(of, item) for _, item in items), reverse=reverse)
        )
        return ((record, b"") for record in score_keys if start <= record and (end is None or record < end))

    # ------------------------------------------------------------------ writing

    def write(self, changes: Changes) -> None:
        """Write into the store, then into the index; what a crash between the two leaves out, the next opening repeats.

        Raises:
            IndexUnavailableError: the store has the batch. Open it anew.
            StateMismatchError: the index has lost what it had.
        """
        stored, of_index = Changes(), IndexChanges()
        stored.ranges = list(changes.ranges)
        for column_family, start, end in changes.ranges:
            if column_family == self._family:
                of_index.dropped.update(dict.fromkeys(self._dropped(start, end)))
        for column_family, records in changes.values.items():
            if column_family == self._family:
                self._translate(records, stored, of_index)
            else:
                stored.of(column_family).update(records)
        if not of_index:
            self._store.write(stored)
            return
        stored.of(LOCAL_CF)[BATCH] = pack_batch(self._number + 1, of_index)
        self._store.write(stored)
        self._number += 1
        self._index.apply(self._number, of_index)

    def _translate(self, records: dict[bytes, bytes | None], stored: Changes, of_index: IndexChanges) -> None:
        """Add the records of the index's column family to what is stored, or to what goes into the index."""
        counts, names = stored.of(self._family), stored.of(self._names)
        for record, value in records.items():
            of = self._set_of(record)
            if of is None:
                counts[record] = value
            elif of.kind == Kind.MEMBERS:
                member = record[len(of.prefix) :]
                item = self._layout.index_item(member)
                of_index.items.setdefault(self._name(of), {})[item] = value
                if self._layout.index_member(item) is None:
                    record_of_name = self._layout.prefix(Kind.NAMES, of.metadata_key, of.version) + item
                    names[record_of_name] = None if value is None else member

    def _dropped(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """The names of the sets of which all members are in a range that is deleted."""
        if not start.startswith(self._starts[Kind.MEMBERS]):
            return
        of = self._set_of(start)
        if of is not None and (start, end) == (of.prefix, prefix_end(of.prefix)):
            yield self._name(of)
            return
        for each in self._sets(Kind.MEMBERS):
            if start <= each.prefix < end:
                yield self._name(each)

    # ------------------------------------------------------------------ to be audited

    def versions(self) -> Iterator[tuple[bytes, bytes, int]]:
        """The name, metadata key and version of each set that the index has for this partition; one may come twice."""
        for name in self._index.names():
            owner = self._layout.index_owner(name)
            if owner is not None:
                yield name, *owner

    # ------------------------------------------------------------------ inside

    def _settle(self, *, read_only: bool) -> int:
        """Bring the index to where the store is. Returns the number of the newest batch."""
        content = self._store.getter(LOCAL_CF)(BATCH)
        number, changes = (0, IndexChanges()) if content is None else parse_batch(content)
        reached = self._index.number() or 0
        if not number and next(self._store.scan(self._family, b"", None), None) is not None:
            raise StateMismatchError("the state has its sorted sets in itself: open it without an index, or rebuild it")
        if reached == number:
            return number
        if read_only:
            text = f"the state was read at batch {number} of its index, which stands at {reached}: a service writes, or"
            raise IndexUnavailableError(f"{text} was killed; try again, or when it is stopped, or start it")
        if reached == number - 1:
            self._index.apply(number, changes)
        else:
            lost = "the index has lost batches" if reached < number else "the state has lost batches, or is another one"
            text = f"{lost} (the index stands at {reached}, the state at {number})"
            raise StateMismatchError(f"{text}: rebuild both with `slotlog replay --to NEW` and an empty index")
        return number

    def _set_of(self, record: bytes) -> _Set | None:
        """The set whose member or score key this is; None when it is another record, or the beginning of many."""
        for kind in _SERVED:
            if record.startswith(self._starts[kind]):
                try:
                    owner = self._layout.owner(kind, record)
                except CorruptionError:
                    return None
                return _Set(kind, *owner, self._layout.prefix(kind, *owner))
        return None

    def _name(self, of: _Set) -> bytes:
        return self._layout.index_name(of.metadata_key, of.version)

    def _member(self, of: _Set, item: bytes) -> bytes:
        member = self._layout.index_member(item)
        if member is None:
            member = self._get_name(self._layout.prefix(Kind.NAMES, of.metadata_key, of.version) + item)
        if member is None:
            raise CorruptionError(f"the index has the item {item.hex()}, which is the hash of no member")
        return member

    # ------------------------------------------------------------------ as the store within

    def close(self) -> None:
        """Close the index, and the store."""
        self._index.close()
        self._store.close()

    def sameness(self) -> Callable[[], bool]:
        """That of the store."""
        return self._store.sameness()

    def write_gathered(self) -> None:
        """Nothing to do: the index must not be more than one batch ahead of the store."""

    def flush_all(self) -> None:
        """That of the store."""
        self._store.flush_all()

    def settle(self) -> bool:
        """That of the store."""
        return self._store.settle()

    def checkpoint(self, path: str) -> None:
        """Impossible: the directory would lack what the index has."""
        raise OSError("the sorted sets are in an index outside of the state, and would be missing")

    def compact(
        self, column_family: str, start: bytes, end: bytes, go_on: Callable[[int], bool] = lambda _: True
    ) -> bool:
        """That of the store."""
        return self._store.compact(column_family, start, end, go_on)

    def created_s(self) -> float | None:
        """That of the store."""
        return self._store.created_s()

    def stored_bytes(self) -> int:
        """Without what the index takes."""
        return self._store.stored_bytes()

    def wal_bytes(self) -> int:
        """That of the store."""
        return self._store.wal_bytes()

    def properties(self) -> dict[str, dict[str, int]]:
        """Those of the store."""
        return {name: dict(numbers) for name, numbers in self._store.properties().items()}

    def number_of(self, name: str) -> int:
        """That of the store."""
        return self._store.number_of(name)

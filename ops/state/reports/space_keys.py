"""Measures keys on disk by type, by prefix and one by one, partly from a sample.

The walk reads every metadata record, so numbers of keys and elements are exact, and so are the bytes of strings that
are one record. How large elements are is counted for two groups of keys alone:

    the candidates   those that the walk takes for the largest, by their numbers of elements
    the sample       every n-th key in stored order

Of each, records are counted up to a bound, and what is behind the bound is put at the mean of those counted. What the
sample stands for is taken from it by proportion, without the candidates, which stand for themselves. Bytes are those of
record keys and values in all column families of the layout and the expiry index, before compression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappush, heappushpop, nlargest
from itertools import islice
from typing import Final, NamedTuple

from engine.layouts.layout import Kind, Layout
from engine.layouts.records import RecordRange, element_kind, metadata_records, records_of, version_records
from engine.limits import FRAGMENT_BYTES
from engine.model import STRING, TYPE_NAMES, UNCOUNTED_FROM, Metadata
from engine.store.store import Store
from engine.values.encoding import U64

SAMPLED_RECORDS_MAX: Final = 1000
"""Records that are counted in each column family of a key of the sample."""

CANDIDATE_RECORDS_MAX: Final = 10_000
"""The same of a key that may be one of the largest."""

_CANDIDATES_FOR_EACH: Final = 4
_CANDIDATES_MIN: Final = 20
_GUESSED_BYTES: Final = 16
_PROGRESS_KEYS: Final = 1000


class SpaceOptions(NamedTuple):
    """Options: size of the sample, lines of each list, delimiter of prefixes."""

    sample: int
    top: int
    delimiter: bytes


class LargeKey(NamedTuple):
    """One key. `elements` of a string are its bytes; `is_exact`: all of its records were counted."""

    stored_bytes: int
    partition: int
    db: int
    name: bytes
    type: str
    elements: int
    is_exact: bool


@dataclass(slots=True)
class Share:
    """The size of a group of keys; `bytes` are an estimate."""

    keys: float = 0
    elements: int = 0
    bytes: float = 0

    def add(self, other: Share) -> None:
        """Count the keys of another group in."""
        self.keys += other.keys
        self.elements += other.elements
        self.bytes += other.bytes


@dataclass(slots=True)
class KeySizes:
    """The result of the walk. `prefixes` are estimates by prefix with delimiter, None for names without one.

    Attributes:
        keys: how many there are, due ones included.
        sampled: how many of them are in the sample.
        every: the sample has every n-th key; 0 where several partitions have different ones.
        types: by type; number of keys and elements are exact.
        largest: of the candidates and the sample, the largest first.
    """

    keys: int = 0
    sampled: int = 0
    every: int = 0
    types: dict[str, Share] = field(default_factory=dict)
    prefixes: dict[bytes | None, Share] = field(default_factory=dict)
    largest: list[LargeKey] = field(default_factory=list)

    def prefixes_by_bytes(self) -> list[tuple[bytes | None, Share]]:
        """The prefixes, the one that takes most first."""
        return sorted(self.prefixes.items(), key=lambda item: (-item[1].bytes, item[0] or b""))


def total_of(parts: list[KeySizes], top: int) -> KeySizes:
    """The keys of several partitions as one."""
    intervals = {part.every for part in parts}
    result = KeySizes(
        sum(part.keys for part in parts),
        sum(part.sampled for part in parts),
        intervals.pop() if len(intervals) == 1 else 0,
    )
    for part in parts:
        for type_name, share in part.types.items():
            result.types.setdefault(type_name, Share()).add(share)
        for prefix, share in part.prefixes.items():
            result.prefixes.setdefault(prefix, Share()).add(share)
    result.largest = nlargest(top, [key for part in parts for key in part.largest])
    return result


class _Found(NamedTuple):
    """A key that the walk met. `record_bytes`: of its metadata record and its entry in the expiry index."""

    guess: int
    record: bytes
    metadata: Metadata
    record_bytes: int


@dataclass(slots=True)
class _Counted:
    """A key of the sample or a candidate: `subkey_bytes` beside its metadata record."""

    found: _Found
    subkey_bytes: int
    is_exact: bool


@dataclass(slots=True)
class _Type:
    """Sums over all keys of a type: those whose elements are records of their own, and the bytes of the others."""

    keys: int = 0
    size: int = 0
    record_bytes: int = 0


class KeyWalk:
    """One walk over the keys of one partition.

    Args:
        store: the state, which is not written to meanwhile.
        layout: of the state.
        keys: how many there are, as the state counts them.
        stored_dbs: by logical database, the number under which it is stored.
        partition: its number.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        keys: int,
        stored_dbs: tuple[int, ...],
        partition: int,
        options: SpaceOptions,
    ) -> None:
        self._store = store
        self._layout = layout
        self._every = max(1, -(-keys // options.sample))
        self._logical = {stored: db for db, stored in enumerate(stored_dbs)}
        self._partition = partition
        self._options = options
        self._keys = 0
        self._types: dict[int, _Type] = {}
        self._candidates: list[_Found] = []
        self._sample: list[_Counted] = []

    def run(self, advance: Callable[[int], None]) -> KeySizes:
        """Walk through all of it; `advance` is told of the keys that are done.

        Raises:
            CorruptionError: stored bytes are damaged.
        """
        candidates_max = max(_CANDIDATES_MIN, _CANDIDATES_FOR_EACH * self._options.top)
        for found in self._found():
            if self._keys % self._every == self._every // 2:
                self._sample.append(self._count(found, SAMPLED_RECORDS_MAX))
            if len(self._candidates) < candidates_max:
                heappush(self._candidates, found)
            elif found.guess > self._candidates[0].guess:
                heappushpop(self._candidates, found)
            self._keys += 1
            if self._keys % _PROGRESS_KEYS == 0:
                advance(self._keys)
        advance(self._keys)
        counted = [self._count(found, CANDIDATE_RECORDS_MAX) for found in self._candidates]
        themselves = {candidate.found.record for candidate in counted}
        others = [sampled for sampled in self._sample if sampled.found.record not in themselves]
        return KeySizes(
            self._keys,
            len(self._sample),
            self._every,
            {TYPE_NAMES[code]: self._share(code, counted, others) for code in sorted(self._types)},
            self._prefixes(counted, others),
            nlargest(self._options.top, map(self._large, counted + others)),
        )

    # ------------------------------------------------------------------ the walk

    def _found(self) -> Iterator[_Found]:
        """Every key, as its metadata record says."""
        parse, types = self._layout.parse_metadata, self._types
        for record, value in metadata_records(self._store, self._layout):
            metadata = parse(value)
            if metadata.size >= UNCOUNTED_FROM:
                kind = element_kind(self._layout, metadata.type)
                of_data = version_records(self._layout, kind, record, metadata.version)
                metadata = metadata._replace(size=sum(1 for _ in of_data.scan(self._store)))
            record_bytes = len(record) + len(value)
            if metadata.expire_ms or (metadata.times is not None and metadata.times.soonest_ms):
                record_bytes += U64.size + len(record)
            of_type = types.setdefault(metadata.type, _Type())
            of_type.keys += 1
            of_type.record_bytes += record_bytes
            guess = record_bytes
            if metadata.version:
                of_type.size += metadata.size
                a_record = 1 if metadata.type == STRING else len(record) + U64.size + _GUESSED_BYTES
                guess += metadata.size * a_record
            elif metadata.value:
                metadata = metadata._replace(size=len(metadata.value), value=b"")
            yield _Found(guess, record, metadata, record_bytes)

    def _count(self, found: _Found, records_max: int) -> _Counted:
        """Count the records of a key beside its metadata."""
        total, is_exact = 0.0, True
        for of_kind, expected in self._records(found):
            scan = of_kind.scan(self._store)
            records = [len(record) + len(value) for record, value in islice(scan, records_max)]
            counted = sum(records)
            if len(records) == records_max < expected:
                counted = counted * expected // records_max
                is_exact = False
            total += counted
        return _Counted(found, int(total), is_exact)

    def _records(self, found: _Found) -> Iterator[tuple[RecordRange, int]]:
        """Where a key has records beside its metadata, and how many there are of each kind."""
        metadata = found.metadata
        if not metadata.version:
            return
        expected = {
            Kind.DATA: -(-metadata.size // FRAGMENT_BYTES) if metadata.type == STRING else metadata.size,
            Kind.SCORES: metadata.size,
            Kind.RANKS: 0,  # some per mille of the rest: those behind the bound may be left out
            Kind.TIMES: 0 if metadata.times is None else 2 * metadata.times.timed,
            Kind.MEMBERS: metadata.size,
            Kind.COUNTS: 1,
            Kind.NAMES: 0,  # of long members alone, and only where the index is outside of the store
            Kind.STREAM: metadata.size,
            Kind.STREAM_INDEX: 0,  # nobody counts what is pending: behind the bound it is left out
        }
        for of_kind in records_of(self._layout, found.record, metadata.version, metadata.type):
            yield of_kind, expected[of_kind.kind]

    # ------------------------------------------------------------------ what follows from it

    def _share(self, code: int, candidates: list[_Counted], others: list[_Counted]) -> Share:
        """A type: what is exact, what was counted, and the rest of its elements at the mean of the sample's."""
        of_type = self._types[code]
        large, small = ([each for each in group if each.found.metadata.type == code] for group in (candidates, others))
        bytes_large, size_large = _subkeys(large)
        bytes_small, size_small = _subkeys(small)
        rest = of_type.size - size_large
        counted, size = (bytes_small, size_small) if size_small else (bytes_large, size_large)
        mean = counted / size if size else 0.0
        elements = 0 if code == STRING else of_type.size
        return Share(of_type.keys, elements, of_type.record_bytes + bytes_large + rest * mean)

    def _prefixes(self, candidates: list[_Counted], others: list[_Counted]) -> dict[bytes | None, Share]:
        """Each candidate for itself, each other key of the sample for as many as were not looked at."""
        rest = (self._keys - len(candidates)) / len(others) if others else 0.0
        # Of a tiny sample nothing may be left without the candidates: then these stand for all.
        themselves = 1.0 if others or not candidates else self._keys / len(candidates)
        prefixes: dict[bytes | None, Share] = {}
        for group, keys in ((candidates, themselves), (others, rest)):
            for each in group:
                share = prefixes.setdefault(self._prefix(each.found.record), Share())
                share.keys += keys
                share.bytes += keys * (each.found.record_bytes + each.subkey_bytes)
        return prefixes

    def _prefix(self, record: bytes) -> bytes | None:
        name = self._layout.parse_metadata_key(record)[2]
        head, delimiter, _ = name.partition(self._options.delimiter)
        return head + delimiter if delimiter else None

    def _large(self, counted: _Counted) -> LargeKey:
        found = counted.found
        stored, _, name = self._layout.parse_metadata_key(found.record)
        return LargeKey(
            found.record_bytes + counted.subkey_bytes,
            self._partition,
            self._logical.get(stored, stored),
            name,
            TYPE_NAMES[found.metadata.type],
            found.metadata.size,
            counted.is_exact,
        )


def _subkeys(group: list[_Counted]) -> tuple[int, int]:
    """Bytes and number of the elements of these keys."""
    with_subkeys = [each for each in group if each.found.metadata.version]
    return sum(each.subkey_bytes for each in with_subkeys), sum(each.found.metadata.size for each in with_subkeys)

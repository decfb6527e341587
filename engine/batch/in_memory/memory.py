"""Estimates what the keys of a partition take in memory, and lets the oldest go when it is too much.

An estimate, as Python tells no sizes for nothing. Measured with CPython 3.11, of 40,000 keys of each kind: a string
takes 340 bytes, its name twice and its value once; a hash 700, a list 800, a sorted set 1,070; an element 130 to 180,
at most 270. A key weighs what its last batch has left of it. That is kept with it (`Key.weight`) in units, as a number
below 257: of these Python has one object each. Elements that are packed are counted where they are
(engine/native/packed.c).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final, NamedTuple, Protocol

from engine.batch.keys.key import Key
from engine.batch.overlaid import PackedElements
from engine.batch.ranks.rank_records import COUNT_BYTES, SCORES_BYTES

UNIT_SHIFT: Final = 4
UNIT_BYTES: Final = 1 << UNIT_SHIFT
"""Of `Key.weight`."""

WEIGHTS: Final = (25, 25, 48, 52, 48, 68, 68, 68, 100)
"""By type code, of a key without name and value: as in engine/native/writing.c."""

SUBKEY_BYTES: Final = 224
"""Of a subkey that is kept with its value."""

_RANKS_PART: Final = 2
_PACKED_LEAST: Final = 3 / 8  # so that an eighth is left for all else where ranks have half
_COUNTS_PART: Final = 8  # of what rank counts have: the rest is for scores
_COUNTS_MIN: Final = 1024
_SCORES_MIN: Final = 64


class PackedMemory(Protocol):
    """The packed elements of large collections of a partition: of `engine.native`.

    Attributes:
        held_bytes, bytes_max: what they take, and may take.
        elements: how many they are.
    """

    held_bytes: int
    bytes_max: int
    elements: int

    def limit(self, bytes_max: int, /) -> None:
        """From now on they may take so much: pages that were not used lately go until they do."""
        ...

    def table(self) -> PackedElements:
        """A table without elements, for one collection."""
        ...


class MemoryHeld(NamedTuple):
    """The keys that a partition holds in memory between batches, and their size.

    Attributes:
        keys, elements: how many keys, and how many of their elements.
        key_bytes, element_bytes, rank_bytes: what they take, and the counts, scores and members of large sorted sets.
        listing_bytes: what small collections that were read whole take, beside `bytes_max`.
        bytes_max: what all but these may take.
    """

    keys: int
    elements: int
    key_bytes: int
    element_bytes: int
    rank_bytes: int
    listing_bytes: int
    bytes_max: int


def rank_limits(bytes_max: int, counts_max: int, scores_max: int) -> tuple[int, int, int]:
    """How many rank counts, scores of how many blocks, and bytes in all may be held of `bytes_max`: at most half."""
    of_ranks = bytes_max // _RANKS_PART
    of_counts = of_ranks // _COUNTS_PART
    counts = max(_COUNTS_MIN, of_counts // COUNT_BYTES)
    scores = max(_SCORES_MIN, (of_ranks - of_counts) // SCORES_BYTES)
    return min(counts_max, counts), min(scores_max, scores), of_ranks


def packed_least(bytes_max: int) -> int:
    """What packed elements may always take of `bytes_max` for all; and what nothing else takes."""
    return int(bytes_max * _PACKED_LEAST)


def kept_of(key: Key) -> int:
    """How many subkeys of a key are kept in a dict."""
    return len(key.data.kept) if key.version and key.data.kept is not None else 0


class Weighed:
    """The weight of the keys of a partition, and how many subkeys are kept with them.

    Args:
        bytes_max: what they may take together with the rank counts.
        packed: the packed elements of large collections; None: nobody packs any.

    Attributes:
        bytes_max, packed: as above.
        weight: of all keys, in units.
        subkeys: how many are kept in dicts.
    """

    __slots__ = ("bytes_max", "packed", "subkeys", "weight")

    def __init__(self, bytes_max: int, packed: PackedMemory | None = None) -> None:
        self.bytes_max = bytes_max
        self.packed = packed
        self.weight = self.subkeys = 0

    @property
    def size(self) -> int:
        """What keys take, and subkeys in dicts."""
        return self.weight * UNIT_BYTES + self.subkeys * SUBKEY_BYTES

    def held(self, keys: int, of_ranks: int, of_listings: int) -> MemoryHeld:
        """What is held in memory with so many keys."""
        of_keys, of_subkeys = self.weight * UNIT_BYTES, self.subkeys * SUBKEY_BYTES
        elements = self.subkeys
        if self.packed is not None:
            of_subkeys += self.packed.held_bytes
            elements += self.packed.elements
        return MemoryHeld(keys, elements, of_keys, of_subkeys, of_ranks, of_listings, self.bytes_max)

    def clear(self) -> None:
        """All keys have left memory."""
        self.weight = self.subkeys = 0

    def weigh(self, keys: Iterable[Key]) -> None:
        """Weigh those of `keys` that were not weighed yet."""
        for key in keys:
            if not key.weight:
                key.weight = WEIGHTS[key.type] + (2 * len(key.name) + len(key.value) >> UNIT_SHIFT)
                self.weight += key.weight

    def lose(self, key: Key) -> None:
        """`key` leaves memory."""
        self.weight -= key.weight
        self.subkeys -= kept_of(key)

    def cut(self, databases: dict[int, dict[bytes, Key]], of_ranks: int) -> None:
        """Let go of the oldest when there is too much, and of a sixteenth more than needed.

        Of subkeys first, if they have more than half: a key without them is read by one get. `of_ranks`, what rank
        counts take, never leaves less than half, of which packed elements have three quarters at most. These have what
        nothing else takes, besides; of them the part in C lets go.

        Not of less, as a dict passes what was deleted at its front each time that it is asked for its oldest keys.
        """
        packed = self.packed
        of_packed = 0 if packed is None else min(packed.held_bytes, packed_least(self.bytes_max))
        room = max(self.bytes_max - of_ranks, self.bytes_max // _RANKS_PART) - of_packed
        if self.size > room:
            self._cut_keys(databases, room - room // 16)
        if packed is not None:
            packed.limit(max(packed_least(self.bytes_max), self.bytes_max - of_ranks - self.size))

    def _cut_keys(self, databases: dict[int, dict[bytes, Key]], goal: int) -> None:
        if self.subkeys * SUBKEY_BYTES > goal // 2:
            for key in chain.from_iterable(keys.values() for keys in databases.values()):
                if self.size <= goal or self.subkeys * SUBKEY_BYTES <= goal // 2:
                    break
                if kept_of(key):
                    self.subkeys += key.data.let_go()
        for keys in databases.values():
            gone = []
            for name, key in keys.items():
                if self.size <= goal:
                    break
                self.lose(key)
                gone.append(name)
            for name in gone:
                del keys[name]

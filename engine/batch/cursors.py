"""Cursors of SCAN and its relatives: numbers that stand for the element to continue from.

A number of 64 bits cannot say where among strings of any length it stands, so it says it by a digest: a cursor within a
*space* (one slot's keys, or one collection) is the digest of the last element given, and the next call begins behind
it. `Cursors` remembers the latest elements, so that this is one seek. An element that it does not remember (this
process has started since, or many others were scanned) is looked for through the whole space; and when it is gone, the
space is given from its beginning again.

The guarantee, as Redis gives it: an element that is there from the first call to the last is given at least once,
whatever else comes and goes; one that is not there at any time between the two is not given; some may be given twice.

Cursors stay below 2**53, so that a client may hold them in a double.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

Space = tuple[int, int]
"""What a cursor is valid in: (database, slot) for keys, (-1, version) for a collection, as versions never repeat."""

DIGEST_BITS: Final = 39
_ELEMENTS_MAX: Final = 4096
_ELEMENT_BYTES_MAX: Final = 1024


def digest(element: bytes) -> int:
    """`DIGEST_BITS` bits that depend on all of `element`, never 0."""
    return int.from_bytes(blake2b(element, digest_size=5).digest()) >> 1 or 1


def search(number: int, elements: Iterable[bytes]) -> bytes | None:
    """The first element that has this digest, whatever is remembered; None when there is none."""
    return next((element for element in elements if digest(element) == number), None)


class Cursors:
    """The latest cursors of one partition, and the elements that they stand for."""

    def __init__(self) -> None:
        self._elements: dict[tuple[Space, int], bytes] = {}

    def make(self, space: Space, element: bytes) -> int:
        """The digest by which the next call finds its way behind `element`; 0: cut behind another one.

        Two elements of one digest would be taken for each other, so the second one to come gets none.
        """
        number = digest(element)
        if len(element) > _ELEMENT_BYTES_MAX:
            return number
        elements = self._elements
        if elements.setdefault((space, number), element) != element:
            return 0
        if len(elements) > _ELEMENTS_MAX:
            del elements[next(iter(elements))]
        return number

    def find(self, space: Space, number: int, elements: Iterable[bytes]) -> bytes | None:
        """The element that `make` gave `number` for; `elements` are all of the space. None when it is gone."""
        known = self._elements.get((space, number))
        return search(number, elements) if known is None else known

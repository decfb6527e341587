"""Small collections that were read whole, as bytes of which replies consist: for reads in C (engine/native/listings.c).

A *listing* is `[count:4]` in the machine's order of bytes, and that many bulk strings as RESP has them: the fields and
values of a hash in turn, the elements of a list, the members of a set, in the order of a scan. A collection of which
none is to be kept, as it is too large, has `TOO_LARGE` instead.

It says what the store has under the prefix of the collection's records. That has the collection's version, so no other
one is ever taken for it, and its key may leave memory and come back. Each batch knows what it changes
(`Subkeys.changed`): who has written it forgets those listings, who throws it away forgets all. What is changed and not
written is in no listing, so none is used of a collection with such changes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from engine.batch.keys.key import Key
from engine.model import HASH, LIST, SET
from engine.values.encoding import pack_u64, prefix_end

Pack = Callable[[list[tuple[bytes, bytes]], int, bool, bool, int], bytes | None]
"""Packs records as a listing: records, how many bytes of a key come before the subkey, whether subkeys are shown, and
values, and the bytes at most. None: it would have more.
"""

ReadRecords = Callable[[bytes, bytes, int], list[tuple[bytes, bytes]]]
"""Gives the first so many records from a key on, before another one."""

ELEMENTS_MAX: Final = 512
LISTING_BYTES_MAX: Final = 64 * 1024
"""Of one collection; and half of what all may take."""

LISTINGS_PART: Final = 8
"""All listings of a partition take at most an eighth of what its keys in memory may take, and are not part of that."""

ENTRY_BYTES: Final = 256
"""What a listing takes beside its own bytes: its prefix, both objects, and its place in the dict."""

TOO_LARGE: Final = b""

_SHOWN: Final = {HASH: (True, True), LIST: (False, True), SET: (True, False)}
_LOOKED_AT_MAX: Final = 4 * ELEMENTS_MAX  # what was deleted is kept, too
_KEPT_PART: Final = 16  # a sixteenth less than there may be is left when there is too much


class Listings:
    """The listings of one partition.

    Args:
        read: reads the stored subkeys of collections.
        pack: of `engine.native`; None: none are made.
        key_cache_bytes: what the partition's keys in memory may take.

    Attributes:
        held: prefix -> listing.
        bytes: what all of them take.
        bytes_max: what they may take.
    """

    __slots__ = ("_pack", "_read", "bytes", "bytes_max", "held")

    def __init__(self, read: ReadRecords, pack: Pack | None, key_cache_bytes: int) -> None:
        self.held: dict[bytes, bytes] = {}
        self.bytes = 0
        self.bytes_max = key_cache_bytes // LISTINGS_PART
        self._read = read
        self._pack = pack

    def make(self, key: Key) -> bytes:
        """The listing of a hash, list or set of up to `ELEMENTS_MAX` elements, of which nothing is unwritten.

        `TOO_LARGE` too where the store has other records than `key` says: who reads them without this says what it is.
        """
        if self._pack is None:
            return TOO_LARGE
        records, skip = self._records_of(key)
        if len(records) != key.size:
            return TOO_LARGE
        most = min(LISTING_BYTES_MAX, self.bytes_max // 2)
        listing = self._pack(records, skip, *_SHOWN[key.type], most) or TOO_LARGE
        self.forget(key.data.prefix)
        self.held[key.data.prefix] = listing
        self.bytes += ENTRY_BYTES + len(listing)
        if self.bytes > self.bytes_max:
            self._forget_oldest()
        return listing

    def forget(self, prefix: bytes) -> None:
        """What is stored under `prefix` is another one now."""
        listing = self.held.pop(prefix, None)
        if listing is not None:
            self.bytes -= ENTRY_BYTES + len(listing)

    def forget_all(self) -> None:
        """Nothing is known any more."""
        self.held.clear()
        self.bytes = 0

    def _records_of(self, key: Key) -> tuple[list[tuple[bytes, bytes]], int]:
        """The records of a collection in order, and how many bytes of their keys come before the subkeys."""
        data = key.data
        if data.whole and data.kept is not None and len(data.kept) <= _LOOKED_AT_MAX:
            return sorted((subkey, value) for subkey, value in data.kept.items() if value is not None), 0
        prefix = data.prefix
        start, end = prefix, prefix_end(prefix)
        if key.type == LIST:
            start, end = prefix + pack_u64(key.head), prefix + pack_u64(key.tail)
        return self._read(start, end, key.size + 1), len(prefix)

    def _forget_oldest(self) -> None:
        """Forget those that were made first, and a few more than needed: the front of a dict is passed each time."""
        most = self.bytes_max - self.bytes_max // _KEPT_PART
        for prefix in list(islice(self.held, len(self.held) - 1)):
            if self.bytes <= most:
                break
            self.forget(prefix)

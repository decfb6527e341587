"""Nodes of a stream as Redis has them: the entries that `~` trims together or not at all.

Redis keeps a stream in nodes, each a listpack. An entry begins a new one where the last has 100 entries (deleted ones,
too), or where the listpack's bytes and those of the new fields and values are 4096 together: the defaults of
`stream-node-max-entries` and `stream-node-max-bytes`. Nothing of it is stored: the first entry that there is begins a
node, and the others follow from it. That is Redis' own division as long as only `~` trims a stream. An entry that XDEL
or an exact trim has taken out of a node still counts there and not here, so behind it the ends are others.

Source: streamAppendItem in t_stream.c and lpEncodeGetType in listpack.c of Redis 7.
"""

from __future__ import annotations

from typing import Final

from engine.values.numbers import parse_int

NODE_ENTRIES: Final = 100
NODE_BYTES: Final = 4096

_FRAME_BYTES: Final = 7  # a listpack's header and its end
_SMALL_BYTES: Final = 2  # an integer from 0 to 127
_ID_BITS: Final = 64
_MS_BYTES: Final = 8
_DIGITS_MAX: Final = 20
_FIRST_OF_NUMBER: Final = frozenset(b"-0123456789")

# (bound of a signed integer, its bytes in a listpack with the length behind it)
_INTEGERS: Final = ((1 << 12, 3), (1 << 15, 4), (1 << 23, 5), (1 << 31, 6))
_LONG_BYTES: Final = 10


class Node:
    """One node, as far as its entries were taken.

    Args:
        start: its first entry has this id, or the next one that there is.

    Attributes:
        count: how many entries it has.
        last_id: of them; of no meaning without any.
        is_closed: no other entry belongs to it.
    """

    __slots__ = ("_bytes", "_fields", "_ms", "_seq", "count", "is_closed", "last_id", "start")

    def __init__(self, start: bytes) -> None:
        self.start = self.last_id = start
        self.count = 0
        self.is_closed = False
        self._bytes = self._ms = self._seq = 0
        self._fields: list[bytes] = []

    def take(self, entry_id: bytes, texts: list[bytes]) -> bool:
        """Take the next entry, fields and values in turn, if it belongs to this node. Returns whether it does."""
        if self.count and self._bytes + sum(map(len, texts)) >= NODE_BYTES:
            self.is_closed = True
        if self.is_closed:
            return False
        ms, seq, fields = int.from_bytes(entry_id[:_MS_BYTES]), int.from_bytes(entry_id[_MS_BYTES:]), texts[::2]
        if not self.count:
            self._begin(ms, seq, fields)
        texts_bytes = sum(map(element_bytes, texts[1::2]))
        words = 3 + len(fields)
        if fields != self._fields:
            texts_bytes += sum(map(element_bytes, fields)) + integer_bytes(len(fields))
            words += len(fields) + 1
        distance = integer_bytes(_signed(ms - self._ms)) + integer_bytes(_signed(seq - self._seq))
        self._bytes += _SMALL_BYTES + distance + texts_bytes + integer_bytes(words)
        self.count += 1
        self.last_id = entry_id
        self.is_closed = self.count == NODE_ENTRIES
        return True

    def _begin(self, ms: int, seq: int, fields: list[bytes]) -> None:
        """The entry that a node begins with gives it its id and its fields."""
        self._ms, self._seq, self._fields = ms, seq, fields
        counts = 2 * _SMALL_BYTES + integer_bytes(len(fields)) + _SMALL_BYTES
        self._bytes = _FRAME_BYTES + counts + sum(map(element_bytes, fields))


def element_bytes(text: bytes) -> int:
    """How many bytes a text takes in a listpack. One that is an integer's spelling is kept as an integer."""
    size = len(text)
    if 0 < size <= _DIGITS_MAX and text[0] in _FIRST_OF_NUMBER:
        number = parse_int(text)
        if number is not None:
            return integer_bytes(number)
    size += 1 if size < 1 << 6 else 2 if size < 1 << 12 else 5
    return size + (1 if size < 1 << 7 else 2 if size < 1 << 14 else 3 if size < 1 << 21 else 4)


def integer_bytes(number: int) -> int:
    """How many bytes an integer takes in a listpack."""
    if 0 <= number < 1 << 7:
        return _SMALL_BYTES
    for bound, size in _INTEGERS:
        if -bound <= number < bound:
            return size
    return _LONG_BYTES


def _signed(number: int) -> int:
    """The difference of two numbers of 64 bits as C's int64_t has it."""
    number %= 1 << _ID_BITS
    return number - (1 << _ID_BITS) if number >> (_ID_BITS - 1) else number

"""Decodes the packed forms of small collections: listpack, ziplist, intset and zipmap.

All integers in them are little-endian. An element that is an integer comes as its decimal digits, as Redis reads it.
Every element is checked, as Redis does with `sanitize-dump-payload yes`: bytes that pass here have one reading.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from engine.values.rdb.errors import FormatError, TooLargeError
from slotlog.shared.limits import ARGUMENTS_MAX

_END: Final = 0xFF
_COUNT_UNKNOWN: Final = 0xFFFF

# ---------------------------------------------------------------------------------------------------------- listpack

_LISTPACK_HEADER: Final = 6
_LISTPACK_INTEGERS: Final = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}
_BACKLEN_BOUNDS: Final = (
    128,
    16383,
    2097151,
    268435455,
)  # the first lengths that take one byte more; not powers of two


def listpack(data: bytes) -> list[bytes]:
    """The elements of `[bytes:4][elements:2] element … ff`.

        0xxxxxxx                    0 … 127
        10nnnnnn [n]                a string of n bytes
        110xxxxx [1]                13 bits with a sign, big-endian
        1110nnnn [n: 1] [n]         n in 12 bits, big-endian
        f0 [n:4] [n]  f1 [2]  f2 [3]  f3 [4]  f4 [8]

    Behind each, for walking back, how many bytes that was: 7 bits a byte, the lowest last, all but the first with 0x80.

    Raises:
        FormatError: it is none.
    """
    end = len(data) - 1
    if end < _LISTPACK_HEADER or _u32(data, 0) != len(data) or data[end] != _END:
        raise FormatError("listpack: header")
    count = _u16(data, 4)
    elements: list[bytes] = []
    at = _LISTPACK_HEADER
    while at < end:
        first = data[at]
        if first < 0x80:  # this and the next one are most elements of most listpacks
            element, size = b"%d" % first, 1
        elif first < 0xC0:
            size = 1 + (first & 0x3F)
            element = data[at + 1 : at + size]
        else:
            element, size = _long_element(data, at)
        at += size
        if size < _BACKLEN_BOUNDS[0]:
            if at >= end or data[at] != size:
                raise FormatError("listpack: element")
            at += 1
        else:
            backwards = backlen(size)
            at += len(backwards)
            if at > end or data[at - len(backwards) : at] != backwards:
                raise FormatError("listpack: element")
        _append(elements, element)
    if count not in (_COUNT_UNKNOWN, len(elements)):
        raise FormatError("listpack: count")
    return elements


def _long_element(data: bytes, at: int) -> tuple[bytes, int]:
    """The element at `at` that is neither 0 to 127 nor a string of at most 63 bytes, and its size in bytes.

    It is cut off where the data ends.
    """
    first = data[at]
    if first < 0xE0:
        value = (first & 0x1F) << 8 | data[at + 1]
        return b"%d" % (value - (1 << 13) if value >= 1 << 12 else value), 2
    if first < 0xF0:
        start, size = at + 2, (first & 0x0F) << 8 | data[at + 1]
    elif first == 0xF0:
        start, size = at + 5, _u32(data, at + 1)
    elif first in _LISTPACK_INTEGERS:
        width = _LISTPACK_INTEGERS[first]
        return _integer(data, at + 1, width), 1 + width
    else:
        raise FormatError("listpack: unknown element")
    return data[start : start + size], start + size - at


def backlen(size: int) -> bytes:
    """What stands behind an element of `size` bytes."""
    if size < _BACKLEN_BOUNDS[0]:
        return bytes((size,))
    count = 1 + sum(size >= bound for bound in _BACKLEN_BOUNDS)
    return bytes(size >> 7 * shift & 0x7F | (0x80 if shift < count - 1 else 0) for shift in reversed(range(count)))


# ----------------------------------------------------------------------------------------------------------- ziplist

_ZIPLIST_HEADER: Final = 10
_ZIPLIST_INTEGERS: Final = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}
_ZIPLIST_LONG: Final = 0xFE


def ziplist(data: bytes) -> list[bytes]:
    """The elements of `[bytes:4][offset of the last element:4][elements:2] element … ff`.

    Each begins with the bytes that the one before it takes, `[1]`, or from 254 on `fe [4]`, and goes on with

        00nnnnnn [n]   01nnnnnn [n: 1] [n]   10xxxxxx [n: 4] [n]      strings; n is big-endian
        c0 [2]  d0 [4]  e0 [8]  f0 [3]  fe [1]   f1 … fd: 0 … 12      integers

    Raises:
        FormatError: it is none.
    """
    end = len(data) - 1
    if end < _ZIPLIST_HEADER or _u32(data, 0) != len(data) or data[end] != _END:
        raise FormatError("ziplist: header")
    tail, count = _u32(data, 4), _u16(data, 8)
    elements: list[bytes] = []
    at, before, last = _ZIPLIST_HEADER, 0, tail
    while at < end:
        start = at
        if data[at] == _END:
            raise FormatError("ziplist: ends early")
        if data[at] == _ZIPLIST_LONG:
            stated, at = _u32(data, at + 1), at + 5
        else:
            stated, at = data[at], at + 1
        if stated != before or at >= end:
            raise FormatError("ziplist: element")
        element, at = _ziplist_element(data, at)
        _append(elements, element)
        before, last = at - start, start
    if at != end or last != tail or tail > end or count not in (_COUNT_UNKNOWN, len(elements)):
        raise FormatError("ziplist: end")
    return elements


def _ziplist_element(data: bytes, at: int) -> tuple[bytes, int]:
    """The element whose encoding is at `at`, cut off where the data ends, and where it ends."""
    first = data[at]
    if first < 0x40:
        start, size = at + 1, first
    elif first < 0x80:
        start, size = at + 2, (first & 0x3F) << 8 | data[at + 1]
    elif first < 0xC0:
        start, size = at + 5, int.from_bytes(data[at + 1 : at + 5], "big")
    elif first in _ZIPLIST_INTEGERS:
        width = _ZIPLIST_INTEGERS[first]
        return _integer(data, at + 1, width), at + 1 + width
    elif 0xF1 <= first <= 0xFD:
        return b"%d" % (first - 0xF1), at + 1
    else:
        raise FormatError("ziplist: unknown element")
    return data[start : start + size], start + size


# ------------------------------------------------------------------------------------------------------------ intset

_INTSET_HEADER: Final = 8


def intset(data: bytes) -> list[bytes]:
    """The members of `[width:4][members:4] member …`, each `width` (2, 4 or 8) bytes with a sign, ascending.

    Raises:
        FormatError: it is none.
    """
    width, count = _u32(data, 0), _u32(data, 4)
    if len(data) < _INTSET_HEADER or width not in (2, 4, 8) or not count or len(data) != _INTSET_HEADER + count * width:
        raise FormatError("intset: header")
    if count > ARGUMENTS_MAX:
        raise TooLargeError("too many elements")
    steps = range(_INTSET_HEADER, len(data), width)
    numbers = [int.from_bytes(data[at : at + width], "little", signed=True) for at in steps]
    if any(low >= high for low, high in pairwise(numbers)):
        raise FormatError("intset: order")
    return [b"%d" % number for number in numbers]


# ------------------------------------------------------------------------------------------------------------ zipmap

_ZIPMAP_LONG: Final = 0xFE


def zipmap(data: bytes) -> list[bytes]:
    """The fields and values, alternating, of `[pairs:1]` and pairs `[n][field][n][unused:1][value][unused bytes] … ff`.

    n is `[1]` below 254, else `fe [4]`. The number of pairs is 254 when it is more.

    Raises:
        FormatError: it is none.
    """
    end = len(data) - 1
    if end < 1 or data[end] != _END:
        raise FormatError("zipmap: header")
    texts: list[bytes] = []
    at = 1
    while data[at] != _END:
        size, at = _zipmap_length(data, at, end)
        _append(texts, data[at : at + size])
        size, value = _zipmap_length(data, at + size, end)
        if value >= end:
            raise FormatError("zipmap: value")
        _append(texts, data[value + 1 : value + 1 + size])
        at = value + 1 + size + data[value]
        if at > end:
            raise FormatError("zipmap: value")
    if not texts or data[0] not in (_ZIPMAP_LONG, len(texts) // 2):
        raise FormatError("zipmap: count")
    return texts


def _zipmap_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The length at `at`, and where what it measures begins."""
    if at >= end or data[at] == _END:
        raise FormatError("zipmap: length")
    if data[at] < _ZIPMAP_LONG:
        return data[at], at + 1
    size = _u32(data, at + 1)
    if at + 5 > end or size < _ZIPMAP_LONG:
        raise FormatError("zipmap: length")
    return size, at + 5


# ------------------------------------------------------------------------------------------------------------ inside


def _append(elements: list[bytes], element: bytes) -> None:
    """No more of them than one command may bring: a byte of the payload would become some hundred in memory."""
    if len(elements) == ARGUMENTS_MAX:
        raise TooLargeError("too many elements")
    elements.append(element)


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _integer(data: bytes, at: int, width: int) -> bytes:
    return b"%d" % int.from_bytes(data[at : at + width], "little", signed=True)

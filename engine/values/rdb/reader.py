"""Reads RDB's lengths and strings from untrusted bytes.

    length    00xxxxxx                       6 bits
              01xxxxxx [1]                   14 bits, big-endian
              10000000 [4]  10000001 [8]     32 or 64 bits, big-endian
    string    [length][bytes], or instead of the length:
              11000000 [1]  11000001 [2]  11000010 [4]    an integer, little-endian with a sign: its decimal digits
              11000011 [length: compressed][length: plain][compressed]    LZF

What a length promises is compared with what is left before anything is built.
"""

from __future__ import annotations

from typing import Final

from engine.limits import RESTORED_BYTES_MAX
from engine.values.rdb.errors import FormatError, TooLargeError
from slotlog.shared.limits import ARGUMENTS_MAX

_INTEGER_BYTES: Final = {0: 1, 1: 2, 2: 4}
_LZF: Final = 3
_LZF_RUN_MAX: Final = 264
_LZF_REFERENCE_BYTES_MAX: Final = 3


class Reader:
    """A position in bytes that hold values. A subclass says where they come from, in `take`."""

    __slots__ = ()

    def take(self, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            FormatError: they are not there.
        """
        raise NotImplementedError

    def count(self, least_bytes: int, strings: int = 1, *, none: bool = False) -> int:
        """The number of elements that follow, each of `least_bytes` or more and made of so many `strings`.

        Only with `none` there may be no element.
        """
        return self.length()

    def expect(self, plain: int) -> None:
        """Make ready for the `plain` bytes of a string that is decompressed."""

    def byte(self) -> int:
        """The next byte."""
        return self.take(1)[0]

    def integer(self, width: int) -> int:
        """The next `width` bytes as a little-endian integer with a sign."""
        return int.from_bytes(self.take(width), "little", signed=True)

    def length(self) -> int:
        """A length. As in Redis, the bits of an encoding that stands in its place are one too."""
        return self._length(self.byte())

    def string(self) -> bytes:
        """A string."""
        first = self.byte()
        if first < 0xC0:
            return self.take(self._length(first))
        kind = first & 0x3F
        if kind in _INTEGER_BYTES:
            return b"%d" % self.integer(_INTEGER_BYTES[kind])
        if kind != _LZF:
            raise FormatError("unknown string encoding")
        compressed, plain = self.length(), self.length()
        packed = self.take(compressed)
        if plain > (compressed // _LZF_REFERENCE_BYTES_MAX + 1) * _LZF_RUN_MAX:
            raise FormatError("promises more than LZF can hold")
        self.expect(plain)
        return decompress(packed, plain)

    def _length(self, first: int) -> int:
        kind = first >> 6
        if kind == 1:
            return (first & 0x3F) << 8 | self.byte()
        if kind != 2:
            return first & 0x3F
        if first not in (0x80, 0x81):
            raise FormatError("unknown length")
        return int.from_bytes(self.take(8 if first & 1 else 4), "big")


class PayloadReader(Reader):
    """A position in `data`, which one command brings.

    All strings that one reader decompresses have RESTORED_BYTES_MAX bytes at most.
    """

    __slots__ = ("_at", "_budget", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._budget = RESTORED_BYTES_MAX

    def left(self) -> int:
        """How many bytes follow."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """As `Reader.take`."""
        start = self._at
        if count > len(self._data) - start:
            raise FormatError("cut off")
        self._at = start + count
        return self._data[start : self._at]

    def byte(self) -> int:
        """As `Reader.byte`."""
        at = self._at
        if at == len(self._data):
            raise FormatError("cut off")
        self._at = at + 1
        return self._data[at]

    def count(self, least_bytes: int, strings: int = 1, *, none: bool = False) -> int:
        """As `Reader.count`.

        Raises:
            FormatError: none follow, or so many cannot. TooLargeError: more strings than one command may bring.
        """
        count = self.length()
        if not (count or none) or count > (len(self._data) - self._at) // least_bytes:
            raise FormatError("no elements, or fewer than promised")
        check_count(count * strings)
        return count

    def expect(self, plain: int) -> None:
        """As `Reader.expect`.

        Raises:
            TooLargeError: with those before it, it is more than one command may decompress.
        """
        self._budget -= plain
        if self._budget < 0:
            raise TooLargeError("decompresses to too much")


def check_count(count: int) -> None:
    """Refuse more elements than the arguments of one command could bring: each costs some 200 bytes of memory.

    Raises:
        TooLargeError: they are more.
    """
    if count > ARGUMENTS_MAX:
        raise TooLargeError("too many elements")


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that `data` is the LZF of.

        000nnnnn [n + 1]                         these n + 1 bytes
        nnnooooo [oooooooo]                      n + 2 bytes (n from 1 to 6) of the output, from o + 1 bytes back on
        111ooooo [nnnnnnnn] [oooooooo]           n + 9 bytes, likewise

    Source: lzf_d.c of liblzf.

    Raises:
        FormatError: it is the LZF of nothing, or of something longer or shorter.
    """
    output = bytearray()
    at, end, length = 0, len(data), 0
    try:
        while at < end:
            control = data[at]
            at += 1
            if control < 0x20:
                run = control + 1
                output += data[at : at + run]
                at += run
            else:
                run = control >> 5
                if run == 7:
                    run += data[at]
                    at += 1
                run += 2
                back = ((control & 0x1F) << 8 | data[at]) + 1
                at += 1
                start = length - back
                if start < 0:
                    raise FormatError("LZF: before the beginning")
                if run <= back:
                    output += output[start : start + run]
                else:  # it goes on into what it writes
                    output += (bytes(output[start:]) * (run // back + 1))[:run]
            length += run
            if length > size:
                raise FormatError("LZF: too long")
    except IndexError as error:
        raise FormatError("LZF: cut off") from error
    if length != size or len(output) != size:
        raise FormatError("LZF: too short")
    return bytes(output)

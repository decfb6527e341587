"""Integers of any width at any bit of a string, with their overflow modes."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.limits import FRAGMENT_BYTES
from engine.types.string import strings

_BITS: Final = 8


class Encoding(NamedTuple):
    """An integer of 1 to 64 bits (63 when it is not `signed`), the highest one first."""

    signed: bool
    bits: int

    def fitted(self, value: int, overflow: bytes) -> int | None:
        """`value` if it fits; else its lowest bits (`WRAP`), the nearest one that fits (`SAT`), or None (`FAIL`)."""
        least, most = (-1 << self.bits - 1, (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)
        if least <= value <= most:
            return value
        if overflow == b"FAIL":
            return None
        if overflow == b"SAT":
            return most if value > most else least
        return self.of_bits(value & (1 << self.bits) - 1)

    def of_bits(self, bits: int) -> int:
        """What these bits mean."""
        return bits - (1 << self.bits) if self.signed and bits >> self.bits - 1 else bits


class Draft:
    """A string, None for a new one, that a command reads and changes in many places. `finish` writes it.

    It holds the fragments that it changes, so that a command with many changes does not write the string many times; of
    those that it only reads, the last one: a few bytes of command can name each fragment of the longest string.
    """

    def __init__(self, tx: Transaction, name: bytes, key: Key | None) -> None:
        self._tx = tx
        self._name = name
        self._key = key
        self._size = 0 if key is None else strings.length(key)
        self._changed: dict[int, bytearray] = {}
        self._read: tuple[int, bytearray] = (-1, bytearray())

    def grow(self, last_bit: int) -> None:
        """Let the string reach to that bit at least."""
        size = last_bit // _BITS + 1
        if size > self._size:
            self._size = size
            self._change((size - 1) // FRAGMENT_BYTES)

    def get(self, offset: int, encoding: Encoding) -> int:
        """The integer at that bit; there are zeros behind the end."""
        window, shift = self._window(offset, encoding)
        return encoding.of_bits(window >> shift & (1 << encoding.bits) - 1)

    def put(self, offset: int, encoding: Encoding, value: int) -> None:
        """Write the integer, which must fit, at that bit, up to which `grow` must have come."""
        window, shift = self._window(offset, encoding)
        mask = (1 << encoding.bits) - 1
        window = window & ~(mask << shift) | (value & mask) << shift
        first, last = offset // _BITS, (offset + encoding.bits - 1) // _BITS
        for at, byte in enumerate(window.to_bytes(last - first + 1), start=first):
            index, within = divmod(at, FRAGMENT_BYTES)
            self._change(index)[within] = byte

    def finish(self) -> None:
        """Write what has changed, the end first: then the string has its length, and its form, at once."""
        for index in sorted(self._changed, reverse=True):
            start = index * FRAGMENT_BYTES
            content = bytes(self._changed[index][: self._size - start])
            strings.write_range(self._tx, self._name, self._tx.find(self._name), start, content)

    def _window(self, offset: int, encoding: Encoding) -> tuple[int, int]:
        """The bytes that the integer touches as one number, and how many bits of it are behind the integer."""
        stop = offset + encoding.bits
        first, last = offset // _BITS, (stop - 1) // _BITS
        index, within = divmod(first, FRAGMENT_BYTES)
        content = self._part(index)[within : within + last - first + 1]
        if len(content) <= last - first:
            content += self._part(index + 1)[: last - first + 1 - len(content)]
        return int.from_bytes(content), -stop % _BITS

    def _change(self, index: int) -> bytearray:
        """A whole fragment, to be changed."""
        part = self._changed[index] = self._part(index)
        return part

    def _part(self, index: int) -> bytearray:
        """A whole fragment as it is now, to be read."""
        part = self._changed.get(index)
        if part is not None:
            return part
        if self._read[0] != index:
            start, stop = index * FRAGMENT_BYTES, (index + 1) * FRAGMENT_BYTES
            stored = b"" if self._key is None else strings.read_range(self._tx, self._key, start, stop)
            self._read = index, bytearray(stored.ljust(FRAGMENT_BYTES, b"\0"))
        return self._read[1]

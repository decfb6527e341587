"""Reads an RDB file block by block, and its checksum on the way."""

from __future__ import annotations

from typing import BinaryIO, Final

from engine.values.rdb.crc64 import crc64
from engine.values.rdb.errors import FormatError
from engine.values.rdb.reader import Reader

_BLOCK_BYTES: Final = 256 * 1024
_SHORT_BYTES: Final = 64  # a string of fewer has its length in the byte before it


class CutError(FormatError):
    """The file ends before what it promises."""


class FileReader(Reader):
    """A position in `file`, which has `size` bytes. One string at a time is in memory.

    Args:
        file: a regular file.
        size: of it.
        position: where to begin.
        summed: whether to compute the checksum, which only one that begins at 0 can.
    """

    __slots__ = ("_at", "_block", "_crc", "_file", "_size", "_start")

    def __init__(self, file: BinaryIO, size: int, position: int = 0, *, summed: bool = False) -> None:
        file.seek(position)
        self._file = file
        self._size = size
        self._start = position  # of the block
        self._block = b""
        self._at = 0
        self._crc = 0 if summed else None

    @property
    def position(self) -> int:
        """How many bytes of the file lie before it."""
        return self._start + self._at

    @property
    def checksum(self) -> int | None:
        """The CRC-64 of everything before its position; None of a reader that does not compute it."""
        return None if self._crc is None else crc64(self._block[: self._at], self._crc)

    def left(self) -> int:
        """The number of bytes that are there."""
        return self._size - self.position

    def take(self, count: int) -> bytes:
        """As `Reader.take`.

        Raises:
            CutError: the file ends before.
        """
        start = self._at
        if count > len(self._block) - start:
            self._fill(count)
            start = 0
        self._at = start + count
        return self._block[start : self._at]

    def byte(self) -> int:
        """As `Reader.byte`. Hot path: most of what is read one by one is a length."""
        at = self._at
        if at == len(self._block):
            self._fill(1)
            at = 0
        self._at = at + 1
        return self._block[at]

    def string(self) -> bytes:
        """As `Reader.string`. Hot path: a short one that is whole in the block."""
        start, block = self._at + 1, self._block
        if start < len(block):
            end = start + block[start - 1]
            if end - start < _SHORT_BYTES and end <= len(block):
                self._at = end
                return block[start:end]
        return super().string()

    def _fill(self, count: int) -> None:
        """Let the block begin at the position, and have `count` bytes or more."""
        if count > self.left():
            raise CutError("the file ends")
        self._crc = self.checksum
        rest = self._block[self._at :]
        self._start, self._at = self.position, 0
        self._block = rest + self._file.read(max(count - len(rest), _BLOCK_BYTES))
        if len(self._block) < count:
            raise CutError("the file has become shorter")

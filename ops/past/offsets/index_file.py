"""The file of an index from footprints to offsets: blocks, each with a checksum, appended as the log grows.

    file    = magic of 8 bytes, the last of them `<` or `>`: the order of bytes in all that follows
              {block}
    block   = [crc:4] [begin:8] [end:8] [clock_ms:8] [tokens:4] [everywhere:4] [flags:4] [last_time_ms:8] [last_crc:4]
              {token:4}       ascending
              {place:2}       of the event with that token: its offset less `begin`
              {place:2}       of the events that reach everywhere
    flags   = 1: an event is opaque; 2: the time of a record goes back

`crc` is over the rest of the block. `last_…` are time and checksum of the last record before `end`, by which the log is
known again. A block that is cut short, or damaged, ends the file: what follows is made anew.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

BLOCK_OFFSETS: Final = 16_384
"""A block ends at a multiple of it."""

_ORDER: Final = "<" if sys.byteorder == "little" else ">"
_MAGIC: Final = f"slotoff{_ORDER}".encode()
_CRC: Final = struct.Struct(f"{_ORDER}I")
_HEADER: Final = struct.Struct(f"{_ORDER}QQqIIIqI")
_TOKEN_BYTES: Final = 4
_PLACE_BYTES: Final = 2
_OPAQUE: Final = 1
_WENT_BACK: Final = 2


class Block(NamedTuple):
    """The offsets from `begin` to before `end`.

    Attributes:
        clock_ms: the latest time of a record before `end`.
        tokens: ascending.
        places: by token: offset less `begin`.
        everywhere: offsets less `begin`.
        opaque: it has an event of which nobody knows what it reads.
        went_back: the time of a record is before that of an earlier one.
        last_time_ms, last_crc: of the last record.
    """

    begin: int
    end: int
    clock_ms: int
    tokens: memoryview
    places: memoryview
    everywhere: memoryview
    opaque: bool
    went_back: bool
    last_time_ms: int
    last_crc: int

    def offsets(self, tokens: Iterable[int]) -> Iterator[int]:
        """Of the events that have any of these tokens."""
        for token in tokens:
            at = bisect_left(self.tokens, token)
            while at < len(self.tokens) and self.tokens[at] == token:
                yield self.begin + self.places[at]
                at += 1

    def offsets_everywhere(self) -> Iterator[int]:
        """Of the events that reach everywhere."""
        return (self.begin + place for place in self.everywhere)


def packed(block: Block) -> bytes:
    """A block as the file has it."""
    flags = _OPAQUE * block.opaque | _WENT_BACK * block.went_back
    head = _HEADER.pack(
        *(block.begin, block.end, block.clock_ms, len(block.tokens), len(block.everywhere), flags),
        *(block.last_time_ms, block.last_crc),
    )
    rest = head + block.tokens.tobytes() + block.places.tobytes() + block.everywhere.tobytes()
    return _CRC.pack(crc32(rest)) + rest


class IndexFile:
    """The blocks of one partition that are on the disk, without a gap. One process at a time has it.

    Args:
        path: of the file; made where it is not there.

    Raises:
        OSError: it cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self.blocks: list[Block] = []
        data = memoryview(os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0))
        at = len(_MAGIC) if data[: len(_MAGIC)] == _MAGIC else 0
        if at:
            while (found := _block_at(data, at)) is not None:
                block, after = found
                if self.blocks and block.begin != self.blocks[-1].end:
                    break
                self.blocks.append(block)
                at = after
        self._size = at

    def clear(self) -> None:
        """Forget all blocks: they are of another log, or of records that are not there any more."""
        self.blocks.clear()
        self._size = 0

    def append(self, block: Block) -> None:
        """Add a block."""
        data = packed(block)
        if not self._size:
            data, begin = _MAGIC + data, len(_MAGIC)
        else:
            begin = 0
        os.ftruncate(self._descriptor, self._size)
        os.pwrite(self._descriptor, data, self._size)
        self._size += len(data)
        found = _block_at(memoryview(data), begin)
        assert found is not None
        self.blocks.append(found[0])

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._descriptor)


def _block_at(data: memoryview, at: int) -> tuple[Block, int] | None:
    """The block that begins there, and where it ends; None: there is no whole one."""
    start = at + _CRC.size
    if len(data) < start + _HEADER.size:
        return None
    begin, end, clock_ms, tokens, everywhere, flags, time_ms, last_crc = _HEADER.unpack_from(data, start)
    first = start + _HEADER.size
    second = first + _TOKEN_BYTES * tokens
    third = second + _PLACE_BYTES * tokens
    after = third + _PLACE_BYTES * everywhere
    if after > len(data) or crc32(data[start:after]) != _CRC.unpack_from(data, at)[0]:
        return None
    block = Block(
        begin,
        end,
        clock_ms,
        data[first:second].cast("I"),
        data[second:third].cast("H"),
        data[third:after].cast("H"),
        bool(flags & _OPAQUE),
        bool(flags & _WENT_BACK),
        time_ms,
        last_crc,
    )
    return block, after

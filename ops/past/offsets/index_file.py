"""The file of an index from footprints to offsets: blocks, each with a checksum, appended as the log grows.

    file    = magic of 8 bytes, the last of them `<` or `>`: the order of bytes in all that follows
              {block}
    block   = [crc:4] [begin:8] [end:8] [clock_ms:8] [tokens:4] [everywhere:4] [flags:4] [last_time_ms:8] [last_crc:4]
              {place:2}       of the events that reach everywhere
              {token:4}       the first of each page
              {crc:4}         of each page
              {page}
    page    = {token:4}       up to 1,024, ascending, also from page to page
              {place:2}       of the event with that token: its offset less `begin`
    flags   = 1: an event is opaque; 2: the time of a record goes back

The block's `crc` is over what follows it up to the first page. So a look for a token reads a page of each block, and
the heads. `last_…` are time and checksum of the last record before `end`, by which the log is known again. A block that
is cut short, or damaged, ends the file: what follows is made anew.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

BLOCK_OFFSETS: Final = 32_768
"""A block begins at a multiple of it, and has as many; the last one may have fewer."""

_ORDER: Final = "<" if sys.byteorder == "little" else ">"
_MAGIC: Final = f"slotof2{_ORDER}".encode()
_CRC: Final = struct.Struct(f"{_ORDER}I")
_HEADER: Final = struct.Struct(f"{_ORDER}QQqIIIqI")
_TOKEN_BYTES: Final = 4
_PLACE_BYTES: Final = 2
_PAGE_TOKENS: Final = 1024
_HEAD_BYTES_USUAL: Final = 512
"""Of a block in which events name one key each."""

_OPAQUE: Final = 1
_WENT_BACK: Final = 2

Give = Callable[[int, int], bytes]
"""Gives bytes of the file: from where on, how many. Fewer at its end."""


class DamagedPageError(Exception):
    """A page is not what was written.

    Attributes:
        begin: of its block.
    """

    def __init__(self, begin: int) -> None:
        super().__init__(begin)
        self.begin = begin


class Content(NamedTuple):
    """The parts of a block.

    Attributes:
        begin, end: its offsets are those from `begin` to before `end`.
        clock_ms: the latest time of a record before `end`.
        tokens: ascending.
        places: by token: offset less `begin`.
        everywhere: offsets less `begin`, of the events that reach everywhere.
        opaque: it has an event of which nobody knows what it reads.
        went_back: the time of a record is before that of an earlier one.
        last_time_ms, last_crc: of the last record.
    """

    begin: int
    end: int
    clock_ms: int
    tokens: array[int]
    places: array[int]
    everywhere: array[int]
    opaque: bool
    went_back: bool
    last_time_ms: int
    last_crc: int


def packed(content: Content) -> bytes:
    """A block as the file has it."""
    tokens, places, everywhere = content.tokens, content.places, content.everywhere
    starts = range(0, len(tokens), _PAGE_TOKENS)
    pages = [b"".join(column[at : at + _PAGE_TOKENS].tobytes() for column in (tokens, places)) for at in starts]
    flags = _OPAQUE * content.opaque | _WENT_BACK * content.went_back
    head = _HEADER.pack(
        *(content.begin, content.end, content.clock_ms, len(tokens), len(everywhere), flags),
        *(content.last_time_ms, content.last_crc),
    )
    head += everywhere.tobytes() + tokens[::_PAGE_TOKENS].tobytes() + array("I", map(crc32, pages)).tobytes()
    return b"".join([_CRC.pack(crc32(head)), head, *pages])


class Block:
    """The offsets from `begin` to before `end`. Its pages stay where they are until they are looked at.

    Attributes:
        begin, end, clock_ms, opaque, went_back, last_time_ms, last_crc: as `Content` has them.
        size: its bytes.
    """

    def __init__(self, give: Give, at: int, head: bytes) -> None:
        self._give = give
        self.begin, self.end, self.clock_ms, self._tokens, count, flags, self.last_time_ms, self.last_crc = (
            _HEADER.unpack_from(head)
        )
        self.opaque, self.went_back = bool(flags & _OPAQUE), bool(flags & _WENT_BACK)
        rest = memoryview(head)[_HEADER.size :]
        firsts = _PLACE_BYTES * count
        crcs = firsts + _TOKEN_BYTES * pages_of(self._tokens)
        self._everywhere = rest[:firsts].cast("H")
        self._firsts = rest[firsts:crcs].cast("I")
        self._crcs = rest[crcs:].cast("I")
        self._pages_at = at + _CRC.size + len(head)
        self.size = _CRC.size + len(head) + (_TOKEN_BYTES + _PLACE_BYTES) * self._tokens

    def offsets(self, tokens: Iterable[int]) -> Iterator[int]:
        """Of the events that have any of these tokens.

        Raises:
            DamagedPageError: nobody knows.
        """
        for token in tokens:
            # It may begin in the page before the first one that begins with it, or behind it.
            page = max(0, bisect_left(self._firsts, token) - 1)
            while page < len(self._firsts) and self._firsts[page] <= token:
                found, places = self._page(page)
                at = bisect_left(found, token)
                while at < len(found) and found[at] == token:
                    yield self.begin + places[at]
                    at += 1
                if at < len(found):
                    break
                page += 1

    def offsets_everywhere(self) -> Iterator[int]:
        """Of the events that reach everywhere."""
        return (self.begin + place for place in self._everywhere)

    def content(self) -> Content:
        """All of it.

        Raises:
            DamagedPageError: a part of it is not what was written.
        """
        tokens, places = array("I"), array("H")
        for number in range(len(self._firsts)):
            found, at = self._page(number)
            tokens.frombytes(found.cast("B"))
            places.frombytes(at.cast("B"))
        return Content(
            *(self.begin, self.end, self.clock_ms, tokens, places, array("H", self._everywhere)),
            *(self.opaque, self.went_back, self.last_time_ms, self.last_crc),
        )

    def _page(self, number: int) -> tuple[memoryview, memoryview]:
        """Tokens and places of a page."""
        first = number * _PAGE_TOKENS
        count = min(_PAGE_TOKENS, self._tokens - first)
        size = (_TOKEN_BYTES + _PLACE_BYTES) * count
        page = self._give(self._pages_at + (_TOKEN_BYTES + _PLACE_BYTES) * first, size)
        if len(page) < size or crc32(page) != self._crcs[number]:
            raise DamagedPageError(self.begin)
        whole, cut = memoryview(page), _TOKEN_BYTES * count
        return whole[:cut].cast("I"), whole[cut:].cast("H")


def pages_of(tokens: int) -> int:
    """How many pages so many tokens have."""
    return -(-tokens // _PAGE_TOKENS)


def block_at(give: Give, at: int, end: int) -> Block | None:
    """The block that begins there, in a file that ends at `end`; None: there is no whole one."""
    start = give(at, _HEAD_BYTES_USUAL)
    if len(start) < _CRC.size + _HEADER.size:
        return None
    _, _, _, tokens, everywhere, *_ = _HEADER.unpack_from(start, _CRC.size)
    size = _HEADER.size + _PLACE_BYTES * everywhere + 2 * _TOKEN_BYTES * pages_of(tokens)
    if at + _CRC.size + size + (_TOKEN_BYTES + _PLACE_BYTES) * tokens > end:
        return None
    read = len(start) - _CRC.size
    head = start[_CRC.size : _CRC.size + size] if size <= read else give(at + _CRC.size, size)
    return Block(give, at, head) if crc32(head) == _CRC.unpack_from(start)[0] else None


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
        end = os.fstat(self._descriptor).st_size
        self._size = len(_MAGIC) if self._give(0, len(_MAGIC)) == _MAGIC else 0
        while self._size and (block := block_at(self._give, self._size, end)) is not None:
            if self.blocks and block.begin != self.blocks[-1].end:
                break
            self.blocks.append(block)
            self._size += block.size

    def clear(self, begin: int = 0) -> None:
        """Forget all blocks from `begin` on: they are damaged, or of another log."""
        while self.blocks and self.blocks[-1].end > begin:
            self._size -= self.blocks.pop().size
        if not self.blocks:
            self._size = 0
        os.ftruncate(self._descriptor, self._size)

    def append(self, content: Content) -> None:
        """Add a block."""
        data = packed(content)
        if not self._size:
            os.pwrite(self._descriptor, _MAGIC, 0)
            self._size = len(_MAGIC)
        os.ftruncate(self._descriptor, self._size)  # a block that was cut short, and what follows it
        os.pwrite(self._descriptor, data, self._size)
        block = block_at(self._give, self._size, self._size + len(data))
        assert block is not None
        self.blocks.append(block)
        self._size += len(data)

    def close(self) -> None:
        """Let another process have it. Nothing more can be looked at."""
        os.close(self._descriptor)

    def _give(self, at: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, at)

"""The heads of the hash chain that a data directory keeps: a file for each partition, DATA/chain/PARTITION.

    file   = magic `slotchn1`
             {entry}
    entry  = [offset:8][head:32][crc:4]     ascending; big-endian

There is one at each 1,024th offset that the chain was computed for, and at each at which somebody wanted it.

`crc` is over the rest of the entry. One that is cut short, or damaged, ends the file: what follows is made anew. Who
reads the file says so: damage may also be what somebody did who has changed the log.
"""

from __future__ import annotations

import fcntl
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from errno import ENOSPC
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, Self
from zlib import crc32

from slotlog.log.hash_chain import HEAD_BYTES

HEAD_OFFSETS: Final = 1024
"""From one head that is kept to the next."""

_DIRECTORY: Final = "chain"
_MAGIC: Final = b"slotchn1"
_ENTRY: Final = Struct(f">Q{HEAD_BYTES}s")
_CRC: Final = Struct(">I")
_ENTRY_BYTES: Final = _ENTRY.size + _CRC.size


class Head(NamedTuple):
    """The head of the chain at an offset: behind all records before it."""

    offset: int
    head: bytes


class KeptHeads:
    """The heads of one partition that are on the disk. One process at a time has them.

    Args:
        data: the data directory.
        partition: the number.
        keep: more of them may come, so the file is made where it is not there.

    Attributes:
        heads: ascending.
        trouble: what is wrong with the file, and which heads are lost; empty: nothing.

    Raises:
        OSError: they cannot be read or written.
    """

    def __init__(self, data: Path, partition: int, *, keep: bool) -> None:
        self._path = path = data / _DIRECTORY / str(partition)
        self._file = ExitStack()
        self.heads: list[Head] = []
        self.trouble = ""
        if keep:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        if keep or path.exists():
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT if keep else os.O_RDONLY, 0o600)
            self._file.callback(os.close, self._descriptor)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX if keep else fcntl.LOCK_SH)
            stored = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
            self.heads = _parsed(stored)
            if stored != _MAGIC and len(stored) != _size(self.heads):
                after = f"of offsets after {self.heads[-1].offset}" if self.heads else "in it"
                self.trouble = f"{path} is damaged: the heads {after} are lost, and are made anew from the log as it is"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def until(self, offset: int) -> Sequence[Head]:
        """Those at `offset` and before."""
        return self.heads[: bisect_right(self.heads, offset, key=lambda each: each.offset)]

    def add(self, heads: Iterable[Head]) -> None:
        """Keep more of them. Those that lie before the last one are left out.

        Raises:
            OSError: they cannot be written, as the disk of the file that is named is full, say.
        """
        last = self.heads[-1].offset if self.heads else 0
        heads = [each for each in heads if each.offset > last]
        size = _size(self.heads)
        os.ftruncate(self._descriptor, size)
        data = b"".join(entry + _CRC.pack(crc32(entry)) for entry in (_ENTRY.pack(*each) for each in heads))
        try:
            os.pwrite(self._descriptor, data if self.heads else _MAGIC + data, size)
        except OSError as error:  # of a descriptor: the system does not say which file it is
            full = ", as its disk is full: make room" if error.errno == ENOSPC else f": {error.strerror}"
            raise type(error)(f"{self._path} cannot be written{full}") from error
        self.heads += heads


def _size(heads: Sequence[Head]) -> int:
    """The bytes of a file with these heads; of none, it is empty."""
    return len(_MAGIC) + len(heads) * _ENTRY_BYTES if heads else 0


def _parsed(data: bytes) -> list[Head]:
    heads: list[Head] = []
    if not data.startswith(_MAGIC):
        return heads
    for at in range(len(_MAGIC), len(data) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
        entry = data[at : at + _ENTRY.size]
        if crc32(entry) != _CRC.unpack_from(data, at + _ENTRY.size)[0]:
            break
        heads.append(Head(*_ENTRY.unpack(entry)))
    return heads

"""Refuses a database whose list of tables is damaged in such a way that RocksDB would not say so.

RocksDB ends its MANIFEST at a record that is longer than what is left of the file, as a power loss leaves one, and
skips the rest of a block behind zeros. A flipped bit in a record's length looks the same. The tables that later records
name are gone then, the write-ahead log goes on behind them, and the state lacks what its position says it has. At a
type of record that a MANIFEST has not the RocksDB of rocksdict 0.3.29 reads on for ever.
The format: https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format, which a MANIFEST shares.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from engine.errors import CorruptionError
from engine.store.failures import MEND

_BLOCK_BYTES: Final = 32 * 1024
_HEADER: Final = struct.Struct("<IHB")  # masked CRC-32C, bytes of the payload, type
_CRC_BYTES: Final = 4
_TYPE_AT: Final = 6  # the CRC is of the type and the payload
_ZERO: Final = 0  # the type where nothing is written
_TYPES: Final = range(1, 5)  # a whole record, the first, a middle and the last piece of one
_MASK: Final = 0xA282EAD8


def refuse_cut_manifest(path: Path, mend: str = MEND) -> None:
    """Do nothing when RocksDB will read all of the MANIFEST in `path`, or find its damage by itself.

    Args:
        path: the database's directory.
        mend: what to do about damage, for the message.

    Raises:
        CorruptionError: it would not read it to the end, and what it leaves out is no torn last record.
    """
    content = _manifest(path)
    for begin in range(0, len(content), _BLOCK_BYTES):
        block = content[begin : begin + _BLOCK_BYTES]
        end = _end_of_records(block)
        if len(block) - end < _HEADER.size:
            continue
        if begin + len(block) < len(content) or _is_damaged(block, end):
            raise CorruptionError(
                f"{path} is damaged (its list of tables can be read to byte {begin + end} of {len(content)}); {mend}"
            )


def _manifest(path: Path) -> bytes:
    """The content of the MANIFEST that counts; empty where the opening will say what is wrong."""
    try:
        return (path / (path / "CURRENT").read_text().rstrip("\n")).read_bytes()
    except (OSError, ValueError):  # gone, or CURRENT is damaged
        return b""


def _end_of_records(block: bytes) -> int:
    """Where the first record begins that is no whole one by its header; its CRC is not looked at."""
    at = 0
    while len(block) - at >= _HEADER.size:
        _, size, kind = _HEADER.unpack_from(block, at)
        if kind not in _TYPES or at + _HEADER.size + size > len(block):
            break
        at += _HEADER.size + size
    return at


def _is_damaged(block: bytes, end: int) -> bool:
    """Whether what is left from `end` on was written to its end once: nothing whole follows what a power loss tore."""
    _, _, first = _HEADER.unpack_from(block, end)
    return (
        (first != _ZERO and first not in _TYPES)
        or _is_record(block, end, len(block))
        or any(
            _is_record(block, at, at + _HEADER.size + size)
            for at in range(end, len(block) - _HEADER.size)
            for _, size, kind in (_HEADER.unpack_from(block, at),)
            if kind in _TYPES and at + _HEADER.size + size <= len(block)
        )
    )


def _is_record(block: bytes, at: int, end: int) -> bool:
    """Whether the CRC at `at` is that of the bytes up to `end`."""
    # 5 MB, which a service on the embedded log does without where nothing is torn or damaged.
    from aiokafka.record.util import calc_crc32c  # noqa: PLC0415

    found: int = calc_crc32c(block[at + _TYPE_AT : end])
    masked = ((found >> 15 | found << 17) + _MASK) & 0xFFFFFFFF
    return masked == int.from_bytes(block[at : at + _CRC_BYTES], "little")

"""Checksums of the embedded log's records: SQLite itself has none.

    body  msgpack's array [offset, time_ms, key, value], each in its shortest form; no key is nil
    link  CRC-32 over the body, begun with the link of the record before: 4 bytes, big-endian
    seal  [link of the record before:4][own link:4], stored with the record

The link before offset 0 is `root`, made of the log's id and the partition. So a record proves by its seal alone that it
is what was written, at this offset, and by the seal before it that nothing was taken out, put in or exchanged. A record
behind a damaged one can still be read: it does not need its neighbour's bytes, only (to prove its place) its link.

A link is the CRC-32 of all bodies since the root, one behind the other. So a page of records is held against the link
before it and that of its last record by a single CRC-32 over all of it (`link_behind`); only where these differ is each
record looked at by itself (`checked`).

Why CRC-32: the seals are against disks, cables and memory, as the checksums of Kafka's batches and RocksDB's blocks,
which have 32 bits as well. It misses no flipped bit, no two of them in a page, and no burst of 32; of any other damage
one in four billion. No checksum without a secret key holds up who can write the file: he makes the seals anew. Offsets
are held against their places besides, so a lost record shows for certain.

Measured in instructions a record of 70 bytes, beside the 25,000 of an append in groups of 800 and the 7,700 of a read
in pages of 1,000 when there were no seals: those of format 2 (SHA-256) took 14,000 and 11,000, these 6,000 and 2,200.

Example: offset 0, time 1,000 ms, no key, value `ab`, behind the link 00000000: body 9400cd03e8c0c4026162, and the link
is cd728e07.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from hashlib import sha256
from struct import Struct, pack
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from msgpack import Packer, packb

from slotlog.log.log import LogRecord

LINK_BYTES: Final = 4
_SUM_BYTES: Final = 16

OFFSET_BITS: Final = 48
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

_PARTITION: Final = Struct(">Q")
_BUFFER_BYTES: Final = 4096  # to begin with; the 256 KiB of the default would be got from the system each time

Row: TypeAlias = tuple[int, int, bytes | None, bytes, bytes]
"""(partition << 48 | offset, time_ms, key, value, seal), as the table `records` has it."""

DAMAGED: Final = "it is not what was written"
MOVED: Final = "it does not follow the record before it: one was taken out, put in or exchanged"
LOST: Final = "it is missing, though the file says that it was written"


def root(log_id: bytes, partition: int) -> bytes:
    """The link before offset 0 of a partition."""
    return sha256(b"slotlog" + log_id + _PARTITION.pack(partition)).digest()[:LINK_BYTES]


def link_behind(before: bytes, records: Iterable[LogRecord]) -> bytes:
    """The link of the last of `records`, which stand behind one with the link `before`.

    Raises:
        TypeError: `before` is no link.
    """
    return crc32(b"".join(map(_packing(), records)), int.from_bytes(before, "big")).to_bytes(LINK_BYTES, "big")


def seals_of(before: bytes, records: Iterable[LogRecord]) -> list[bytearray]:
    """The seals of `records`, which are to stand behind one with the link `before`."""
    link = int.from_bytes(before, "big")
    links = [link]
    for body in map(_packing(), records):
        link = crc32(body, link)
        links.append(link)
    packed = bytearray(pack(f">{len(links)}I", *links))  # a seal and the next one share a link
    return [packed[at : at + 2 * LINK_BYTES] for at in range(0, len(packed) - LINK_BYTES, LINK_BYTES)]


def _packing() -> Callable[[LogRecord], bytes]:
    """Makes bodies, also of the rows of a damaged file; for one thread, and not for long: it keeps its buffer."""
    packing: Callable[[LogRecord], bytes] = Packer(buf_size=_BUFFER_BYTES, unicode_errors="surrogateescape").pack
    return packing


def is_sealed(row: Row) -> bool:
    """Whether a row is what was written, as far as it can say so itself. Takes whatever a damaged file gives."""
    position, time_ms, key, value, seal = row
    try:
        own = link_behind(seal[:LINK_BYTES], [(position & OFFSET_MASK, time_ms, key, value)])
    except TypeError:
        return False
    return own == seal[LINK_BYTES:]


def sum_of(*fields: Any) -> bytes:
    """The checksum of a row of another table than `records`; any types, as a damaged file may give them."""
    return sha256(packb(fields, unicode_errors="surrogateescape")).digest()[:_SUM_BYTES]


class CheckedRecords(NamedTuple):
    """The checked part of a page: its intact records.

    Attributes:
        records: without a gap.
        link: of the last of them; without one, what was given.
        size: bytes of their values.
        fault: why the record behind them cannot be read; empty if nothing is wrong.
    """

    records: list[LogRecord]
    link: bytes | None
    size: int = 0
    fault: str = ""


def checked(rows: Iterable[Row], partition: int, offset: int, link: bytes | None, bytes_max: int) -> CheckedRecords:
    """Take rows as long as each one's seal proves it, up to `bytes_max` of values.

    Args:
        rows: by position; the first one is to be at `offset`.
        partition: whose.
        offset: where they begin.
        link: of the record before, None where nobody knows it.
        bytes_max: at least one record is taken.

    Raises:
        sqlite3.Error: the first row cannot be read.
    """
    records: list[LogRecord] = []
    expected = partition << OFFSET_BITS | offset
    size = 0
    try:
        for row in rows:
            position, time_ms, key, value, seal = row
            if position != expected:
                return CheckedRecords(records, link, size, LOST)
            record = (position & OFFSET_MASK, time_ms, key, value)
            before = seal[:LINK_BYTES]
            own = link_behind(before, [record])
            if own != seal[LINK_BYTES:]:
                return CheckedRecords(records, link, size, DAMAGED)
            if before != link and link is not None:
                return CheckedRecords(records, link, size, MOVED)
            records.append(record)
            link = own
            expected += 1
            size += len(value)
            if size > bytes_max:
                break
    except TypeError:  # NULL, a text, a number: a damaged page gives rows of any kind
        return CheckedRecords(records, link, size, DAMAGED)
    except sqlite3.Error:  # a page that cannot be read: whoever asks for what stands there hears so
        if not records:
            raise
    return CheckedRecords(records, link, size)

"""The hash chain over the records of a partition: its head at an offset says which records stand before it.

    head of offset 0    SHA-256 of `slotlog chain 1` and [partition:8]
    head behind a record
                        SHA-256 of the head before it and
                        [offset:8][time_ms:8 signed][key length:4 signed, -1 for none][key]
                        [value length:4 signed, -1 for none][value]

Integers are big-endian. Offsets without a record, as Kafka has them, change nothing. Headers of Kafka are not covered:
no event depends on them. Whoever keeps an offset and the head there can find out at any time whether a record before it
was changed, taken out, put in or exchanged: nobody can make another log with the same head.

It is computed from the log when somebody wants it, and not while events are applied: docs/performance-notes.md has the
price.

Example: partition 0, from the head f1d24abf… of offset 0, with the record at offset 0, time 1,000 ms, no key, value
`ab`, to the head b9269b3f….
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from struct import Struct
from typing import Final

from slotlog.log.log import LogRecord

HEAD_BYTES: Final = 32
_PARTITION: Final = Struct(">Q")
_BEGIN: Final = Struct(">Qqi")
_LENGTH: Final = Struct(">i")


def first_head(partition: int) -> bytes:
    """The head of offset 0 of a partition."""
    return sha256(b"slotlog chain 1" + _PARTITION.pack(partition)).digest()


def head_behind(head: bytes, records: Iterable[LogRecord]) -> bytes:
    """The head behind the last of `records`, which follow one behind which it is `head`."""
    for offset, time_ms, key, value in records:
        begin = _BEGIN.pack(offset, time_ms, -1 if key is None else len(key))
        length = _LENGTH.pack(-1 if value is None else len(value))
        head = sha256(head + begin + (key or b"") + length + (value or b"")).digest()
    return head

"""The log's identity as the state stores it, to notice when the log was replaced.

    mark         = [offset:8][time_ms:8 signed][crc:4], big-endian, of the last data record applied
    fingerprint  = mark                  Kafka; crc = CRC-32C. Its topic ids do not reach the client, so this is all
                 | [log id:16] mark      embedded; crc = CRC-32. The id tells another file, even an empty one

The checksum covers [key length:4 signed, -1 for none][key][value length:4 signed, -1 for none][value].

Example: offset 7, time 1,000 ms, CRC ABCD0123: 0000000000000007 00000000000003e8 abcd0123.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from slotlog.errors import LogMismatchError, Mismatch
from slotlog.log.log import LogRecord

_MARK: Final = Struct(">QqI")
_LENGTH: Final = Struct(">i")
MARK_BYTES: Final = _MARK.size


class RecordMark(NamedTuple):
    """Offset, time and checksum of one record."""

    offset: int
    time_ms: int
    crc: int

    def pack(self) -> bytes:
        """20 bytes, as the module's docstring draws them."""
        return _MARK.pack(*self)

    @classmethod
    def parse(cls, data: bytes) -> RecordMark:
        """The reverse of `pack`.

        Raises:
            LogMismatchError: not 20 bytes, so another kind of log wrote it.
        """
        if len(data) != MARK_BYTES:
            raise LogMismatchError(
                Mismatch.TOPIC,
                "the state was built from another kind of log (embedded or Kafka) than the one it is opened with. "
                "Open it with its own log, or replay this log into a fresh directory.",
            )
        return cls(*_MARK.unpack(data))


def mark_of(record: LogRecord, crc: Callable[[bytes], int]) -> RecordMark:
    """The mark of `record`, with `crc` over its key and value."""
    offset, time_ms, key, value = record
    return RecordMark(offset, time_ms, crc(_with_length(key) + _with_length(value)))


def _with_length(field: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if field is None else _LENGTH.pack(len(field)) + field


def check_range(log: str, next_offset: int, begin: int, end: int) -> None:
    """The state's position must lie within what the log holds.

    Args:
        log: how to name the partition in a message.
        next_offset: the state's position.
        begin: the log's first offset that can be read.
        end: the offset after its last.

    Raises:
        LogMismatchError: `TRUNCATED` or `EVENTS_LOST`.
    """
    if end < next_offset:
        raise LogMismatchError(
            Mismatch.TRUNCATED,
            f"{log} ends at offset {end}, but the state has applied everything before {next_offset}: it was recreated, "
            "truncated or restored from an older copy. Bring the log back, or replay this one into a fresh directory.",
        )
    if begin > next_offset:
        rest = "is trimmed to nothing" if begin == end else f"begins at offset {begin}"
        raise LogMismatchError(
            Mismatch.EVENTS_LOST,
            f"{log} {rest}, and the state has only applied everything before {next_offset}: {begin - next_offset} "
            "offsets are lost to it. Start from a snapshot that reaches the log's begin.",
        )


def check_record(log: str, mark: RecordMark, found: RecordMark | None) -> None:
    """The record at the state's mark must be the one that the state applied.

    Args:
        log: how to name the partition in a message.
        mark: what the state keeps.
        found: what the log holds at that offset, None if it holds nothing there.

    Raises:
        LogMismatchError: `RECREATED`.
    """
    if found != mark:
        held = "nothing" if found is None else "another record"
        raise LogMismatchError(
            Mismatch.RECREATED,
            f"{log} holds {held} at offset {mark.offset}, where the state applied a record: it was recreated, or "
            "truncated and written again. Bring the log back, or replay this one into a fresh directory.",
        )

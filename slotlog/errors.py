"""Errors between a service and the log.

LogUnavailableError       the log cannot be reached now; nothing was appended; try again
├─ AppendUncertainError   an append whose outcome cannot be learnt: it is in the log, or it is not
├─ WallClockMovedError    the machine's clock was set: nothing is appended until it is right, or an operator agrees
├─ LogDamagedError        the log cannot be read where it says what it holds: it is damaged, or its disk fails
└─ LogRecordError         the log gives a record that cannot be read: the partition cannot go on, others can
RecordHeldError           a record from the future: its partition waits for the wall clock, or for an operator
LogMismatchError          the log is not the one that the state was built from, or its settings lose events: stop
RecordTooLargeError       an entry that no log takes; nothing was appended
TimeAheadError            an entry with a time in the future; nothing was appended
CrossSlotError            keys of one event in several slots, in cluster mode; nothing was appended
ProducerClosedError       a producer was used after its close
ErasedError               a sealed value whose key was destroyed
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from slotlog.shared.errors import CROSS_SLOT, PicklableError


class LogUnavailableError(PicklableError):
    """The log cannot be reached now. Nothing was appended, nothing was skipped: the same call may be tried again."""


class AppendUncertainError(LogUnavailableError):
    """The append failed with an open outcome: its events are in the log, in part, whole or not at all.

    Sending them again may apply them twice, unless they carry an `id`.
    """


class WallClockMovedError(LogUnavailableError):
    """The machine's wall clock has moved against the clock since its boot, so it stamps no records."""

    def __init__(self, moved_ms: int, move_max_ms: int) -> None:
        super().__init__(
            f"the wall clock was moved by {moved_ms / 1000:+.0f} s, more than the {move_max_ms / 1000:g} s that it may"
            " within an hour: set it right, or say that it is right with `slotlog clock agree`"
        )


class LogDamagedError(LogUnavailableError):
    """The log cannot be read: it is damaged, or its disk fails. Nothing was appended.

    Attributes:
        reason: what is wrong, without what to do about it.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class RecordHeldError(PicklableError):
    """A record whose time lies so far in the future that its partition does not apply it. It waits.

    Attributes:
        offset, time_ms: the record's.
    """

    def __init__(self, partition: int, offset: int, time_ms: int) -> None:
        super().__init__(
            f"the record at offset {offset} has a time in the future, {time_ms} ms ({_moment(time_ms)}): it waits until"
            f" the wall clock is there. If it is wrong, `slotlog clock set {partition}` gives it, and all up to the"
            f" log's end, the time of now; if it is right, `slotlog clock accept {partition}`"
        )
        self.offset = offset
        self.time_ms = time_ms


class LogRecordError(LogUnavailableError):
    """The bytes of a record cannot be decoded: damaged in the log or on the way, or unknown to us.

    The partition's position stands before it; the reader stays usable, and gives the other partitions' records.

    Attributes:
        partition, offset: where; the offset is the first that cannot be read.
        reason: what is wrong.
    """

    def __init__(self, partition: int, offset: int, reason: str) -> None:
        super().__init__(f"partition {partition}: the record at offset {offset} cannot be read: {reason}")
        self.partition = partition
        self.offset = offset
        self.reason = reason


class Mismatch(StrEnum):
    """The reason why a log is refused. The values are stable: metrics and `/readyz` show them."""

    RECREATED = "recreated"
    TRUNCATED = "truncated"
    EVENTS_LOST = "events_lost"
    PARTITIONS_CHANGED = "partitions_changed"
    COMPACTED = "compacted"
    RETENTION = "retention"
    SETTINGS = "settings"
    MISSING = "missing"
    TOPIC = "topic"


class LogMismatchError(PicklableError):
    """The log is not the one of the state, or its settings lose events.

    Attributes:
        kind: which of the causes it is; the message says what was found and what to do.
    """

    def __init__(self, kind: Mismatch, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RecordTooLargeError(ValueError):
    """An entry larger than any log takes (`slotlog.log.log.ENTRY_BYTES_MAX`)."""


class TimeAheadError(PicklableError, ValueError):
    """The time of an entry is too far in the future: keys would expire by mistake."""

    def __init__(self, time_ms: int, ahead_ms: int, ahead_max_ms: int) -> None:
        super().__init__(
            f"time {time_ms} is {ahead_ms / 1000:.0f} s ahead of the wall clock, more than {ahead_max_ms / 1000:g} s:"
            " it would let every key die that lives until then"
        )


class CrossSlotError(PicklableError, ValueError):
    """In cluster mode, the keys of one event lie in several slots. The text is the one that Redis replies."""

    def __init__(self) -> None:
        super().__init__(CROSS_SLOT)


class ProducerClosedError(RuntimeError):
    """The producer is closed, or was closed while the event waited."""


class ErasedError(LookupError):
    """A sealed value cannot be opened any more: its key was destroyed, or is in another key store."""


def _moment(time_ms: int) -> str:
    """A time as people write it; that of a record may lie beyond the calendar."""
    try:
        return (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return "beyond the year 9999"


def appended_nothing(error: Exception) -> bool:
    """Whether an append that failed with `error` has certainly appended nothing. Of a bug of ours nobody can say so."""
    refusals = LogUnavailableError, LogMismatchError, ValueError  # RecordTooLargeError is one of the last
    return isinstance(error, refusals) and not isinstance(error, AppendUncertainError)

"""The log's protocol, implemented by `embedded/` (SQLite) and `kafka/`.

A log has a fixed number of partitions. A partition is a sequence of records at growing offsets from 0; an offset may
hold no record (Kafka keeps transaction markers there), so a gap inside a fetch is legal. Times of the embedded log do
not go back; those of Kafka may, by the difference of two brokers' clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple, Protocol, TypeAlias

from slotlog.errors import RecordTooLargeError
from slotlog.log.appends import Appends
from slotlog.wording import sized

LogRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None]
"""(offset, time_ms, key, value). A plain tuple: a named one costs 0.2 µs more, on every record."""

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Kafka's record headers, in their order."""

HeadersOf: TypeAlias = Callable[[int], Headers]
"""Gives the headers of a record by offset."""

# Topics are created with max.message.bytes of 9 MiB; framing and a producer's headers take less than 64 KiB of it.
ENTRY_BYTES_MAX: Final = 9 * 1024 * 1024 - 64 * 1024

_PARTITION: Final = itemgetter(0)  # of an entry
_KEY: Final = itemgetter(1)
_VALUE: Final = itemgetter(2)


class Entry(NamedTuple):
    """One record to append.

    Attributes:
        partition: where to.
        key: the slot, 2 bytes big-endian; None for a keyless event (see `slotlog.events`).
        value: the event.
        time_ms: the record's time, for the embedded log alone, which never goes back; Kafka's broker sets its own.
        headers: for Kafka alone: the embedded log has no place for them.
    """

    partition: int
    key: bytes | None
    value: bytes
    time_ms: int | None = None
    headers: Headers = ()


class RecordPosition(NamedTuple):
    """The position of a record, and the time that the log gave it."""

    partition: int
    offset: int
    time_ms: int


@dataclass(slots=True)
class Scrubbed:
    """The counts of a scrub, since the start.

    Attributes:
        bytes: read, of records.
        damages: found in the last whole round, or more by now.
        ended_ms: wall time at the end of that round; 0 before the first.
    """

    bytes: int = 0
    damages: int = 0
    ended_ms: int = 0


class Reader(Protocol):
    """Reads several partitions, each from a position of its own. For one task at a time.

    Not a member of any group: what it reads is what it was told to read.
    """

    async def fetch(self, wait_ms: int, records_max: int) -> dict[int, list[LogRecord]]:
        """The next records of any partition that is not paused, by partition; empty after `wait_ms` without one.

        Only durable and, in Kafka, committed records are given. At most `records_max` in all. The lists are
        the caller's.

        Raises:
            LogUnavailableError: the log cannot be reached, or may be another one than before; the positions stand.
                Hold the state against the log again (`Log.check`), seek, and call again.
            LogRecordError: a record of one partition cannot be decoded; pause that partition, and call again.
            LogMismatchError: a position lies outside the log (truncated, or its begin moved on).
        """
        ...

    def position(self, partition: int) -> int:
        """The offset after everything that `fetch` has given or passed by.

        It moves without records over markers and aborted transactions. The partition is read to its end once this
        equals the log's `end_offset`.
        """
        ...

    def headers(self, partition: int, offset: int) -> Headers:
        """The headers of a record that one of the last two fetches gave; empty if it had none."""
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read `partition` from `offset` on."""
        ...

    def pass_by(self, partition: int, offset: int) -> None:
        """What stands before `offset` is known from elsewhere, and need not be given. It may be all the same."""
        ...

    def pause(self, partition: int) -> None:
        """Give nothing of `partition` until `resume`. Its position stands."""
        ...

    def resume(self, partition: int) -> None:
        """Give records of `partition` again."""
        ...

    async def close(self) -> None:
        """Let go of connections. Can be called twice."""
        ...


class Log(Protocol):
    """A log that is open after `start` and until `close`."""

    @property
    def url(self) -> str:
        """Where it is, as it was opened; no secrets in it."""
        ...

    @property
    def topic(self) -> str:
        """Its name."""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions it has, from its start to its end."""
        ...

    @property
    def append_counts(self) -> Appends:
        """What was appended through this object, counted."""
        ...

    @property
    def concerns(self) -> Sequence[str]:
        """What the last `check` found wrong that would refuse a start and has harmed nothing yet, and what to do."""
        ...

    @property
    def scrubbed(self) -> Scrubbed | None:
        """What has been scrubbed of it; None where nobody here has to, as Kafka's brokers do it."""
        ...

    async def start(self) -> None:
        """Open it; create it if it is not there (unless told not to); check its settings.

        Raises:
            LogUnavailableError: it cannot be reached.
            LogMismatchError: another number of partitions, or settings that lose events.
        """
        ...

    async def close(self) -> None:
        """Finish running appends, then let go of everything. Can be called twice."""
        ...

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        """Append `entries` in their order (per partition); returns their positions once all are durable.

        Raises:
            RecordTooLargeError, ValueError: an entry that cannot be taken; nothing was appended.
            AppendUncertainError: some, all or none of them were appended.
            LogUnavailableError: nothing was appended.
        """
        ...

    def append_at_once(self, entries: Sequence[Entry]) -> list[RecordPosition] | None:
        """`append` without waiting for anybody, where the log can do that; None, and nothing done, where it cannot.

        Blocks the event loop for one write to disk.

        Raises:
            As `append`.
        """
        ...

    def reader(self, positions: Mapping[int, int]) -> Reader:
        """A reader of the partitions named in `positions`, from the offsets there."""
        ...

    async def begin_offset(self, partition: int) -> int:
        """The offset before which nothing can be read any more."""
        ...

    async def end_offset(self, partition: int) -> int:
        """The offset after the last one that can be read now (Kafka: the last stable offset)."""
        ...

    async def ends(self, partitions: Sequence[int], *, written: bool = False) -> dict[int, int]:
        """`end_offset` of each partition, also of a log that was not started; nothing of it is changed.

        Args:
            partitions: which.
            written: `high_watermark` instead, so that nothing is missing that a producer was told is in the log.
        """
        ...

    async def high_watermark(self, partition: int) -> int:
        """The offset after the last one that is written.

        Kafka: beyond `end_offset` as long as a transaction is open, whose records, and all behind, wait for it.
        """
        ...

    async def offset_at(self, partition: int, time_ms: int) -> int | None:
        """The first offset whose record's time is at `time_ms` or later; None if there is none."""
        ...

    async def set_time_back(self, partition: int, to_ms: int, entries: Sequence[Entry]) -> list[RecordPosition]:
        """Append `entries` of one partition as if no record before them were later than `to_ms`.

        Where the log gives the times itself, as Kafka's brokers do, they are those of the brokers.

        Raises:
            As `append`.
        """
        ...

    def fingerprint(self, partition: int, last: LogRecord) -> bytes:
        """What a state keeps beside its position so that `check` knows the log again.

        `last` is the last record that the state has applied; see `slotlog.log.identity`.
        """
        ...

    async def check(self, partition: int, next_offset: int, fingerprint: bytes | None) -> None:
        """Hold this log against a state that has applied everything before `next_offset`.

        `fingerprint` is the one of the last record applied, None if there was no record yet.

        Raises:
            LogMismatchError: not the same log, or events of it are lost. `kind` and message say which and what to do.
            LogUnavailableError: it cannot be told now.
        """
        ...

    @property
    def stored_bytes(self) -> int | None:
        """Bytes of all partitions, one copy of each, as `measure` found them last; None where that is not known."""
        ...

    async def measure(self) -> None:
        """Find out `stored_bytes`.

        Raises:
            LogUnavailableError: it cannot be told now.
        """
        ...

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Tell lag tools how far the partitions are applied: {partition: next offset}. Never read back.

        A failure is logged, not raised: nothing depends on it.
        """
        ...

    async def claims(self, owner: str, partitions: Sequence[int]) -> Mapping[int, Sequence[str]] | None:
        """Let others know from now on that `owner` applies `partitions`, and tell who says so of which partition.

        Returns:
            Owners by partition that have been heard of since the last call, which may be this one as well; None when it
            cannot be told now. A failure is logged, not raised.
        """
        ...


def check_entries(entries: Sequence[Entry], partitions: int) -> int:
    """Refuse what no log takes, before anything is sent.

    The hot path: with no loop in Python where nothing is wrong, it takes a third of the instructions.

    Returns:
        How many bytes their values have together.

    Raises:
        RecordTooLargeError: key and value exceed `ENTRY_BYTES_MAX`.
        ValueError: a partition that is not there.
    """
    named, value_bytes = {*map(_PARTITION, entries)}, list(map(len, map(_VALUE, entries)))
    key_bytes_max = max(map(len, filter(None, map(_KEY, entries))), default=0)
    are_there = min(named, default=0) >= 0 and max(named, default=0) < partitions
    if not are_there or key_bytes_max + max(value_bytes, default=0) > ENTRY_BYTES_MAX:
        for entry in entries:
            _check_entry(entry, partitions)
    return sum(value_bytes)


def _check_entry(entry: Entry, partitions: int) -> None:
    if not 0 <= entry.partition < partitions:
        raise ValueError(f"partition {entry.partition} is not one of 0 … {partitions - 1}")
    size = len(entry.key or b"") + len(entry.value)
    if size > ENTRY_BYTES_MAX:
        raise RecordTooLargeError(f"a record of {sized(size)}; a log takes at most {sized(ENTRY_BYTES_MAX)}")

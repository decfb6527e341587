"""Tells how far a state is behind its log, and whether a service applies it.

A directory that no service applies any more, as its partition has another owner or its service is down, looks as sound
as any other. The log tells the difference, where it can be reached.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from sqlite3 import Error as SqliteError
from typing import Any, Final, NamedTuple

from ops.config import ConfigError, Settings
from ops.state.opening.directories import partition_path
from slotlog.errors import LogMismatchError, LogUnavailableError, Mismatch
from slotlog.log import Log, open_log

_ANSWER_SECONDS: Final = 5.0
_TOPIC_SECONDS: Final = 2.0
_LOCK: Final = "hhqqi4x"  # struct flock of Linux: type, whence, start, length, process


class Ends(NamedTuple):
    """The ends of the log by partition, or why they are not known.

    Attributes:
        elsewhere: nobody has said where the log is, and it is not in the data directory: a service may know better.
    """

    offsets: dict[int, int]
    unknown: str
    elsewhere: bool = False


class Standing(NamedTuple):
    """The distance of one partition's state from the end of its log.

    Attributes:
        next_offset: the first record that is not applied.
        end_offset: where the log ended before the state was read; None: not known.
        owned: whether a service applies this very directory.
    """

    partition: int
    next_offset: int
    end_offset: int | None
    owned: bool

    @property
    def behind(self) -> int | None:
        """Offsets that are not applied; None: not known."""
        return None if self.end_offset is None else max(0, self.end_offset - self.next_offset)

    @property
    def is_stale(self) -> bool:
        """Whether the log has gone on, or is another one, and nobody applies that here."""
        return not self.owned and self.end_offset is not None and self.end_offset != self.next_offset

    @property
    def is_cut(self) -> bool:
        """Whether the log ends before what is applied. A service may have gone on since its log was asked."""
        return not self.owned and self.end_offset is not None and self.end_offset < self.next_offset

    def text(self) -> str:
        """What to say of it; empty where the state has all that is in the log."""
        if not self.behind and not self.is_cut:
            return ""
        if self.is_cut:
            where = f"stands at offset {self.next_offset}, and the log ends at {self.end_offset}"
            return f"{where}: it is another one, or was cut"
        by = "a service is applying it" if self.owned else "and no service applies it here"
        return f"{self.behind} of {self.end_offset} offsets behind the log, {by}"

    def facts(self) -> dict[str, Any]:
        """The same for JSON."""
        return {"log_end_offset": self.end_offset, "behind": self.behind, "owned": self.owned}


def log_ends(settings: Settings, partitions: Sequence[int], *, written: bool = False) -> Ends:
    """Ask the log, before the state is read: what comes later is no lag. Kafka has five seconds to answer.

    Args:
        settings: the log.
        partitions: which.
        written: with what an open transaction of a producer keeps from being read.
    """
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    try:
        return Ends(asyncio.run(_ask(log, partitions, written=written)), "")
    except TimeoutError:
        return Ends({}, f"{settings.log_url} has not answered within {_ANSWER_SECONDS:.0f} s")
    except LogMismatchError as error:
        return Ends({}, str(error), elsewhere=error.kind is Mismatch.MISSING and not settings.log)
    except (LogUnavailableError, OSError, SqliteError) as error:
        return Ends({}, str(error))


def standing_of(settings: Settings, ends: Ends, partition: int, next_offset: int) -> Standing:
    """How a partition stands that was read at `next_offset`."""
    owned = is_applied(partition_path(settings.data, partition))
    return Standing(partition, next_offset, ends.offsets.get(partition), owned)


def refuse_stale(standing: Standing) -> None:
    """Refuse to answer from a state that is not what holds now.

    Raises:
        ConfigError: it is behind its log, and nobody applies it here.
    """
    if standing.is_stale:
        raise ConfigError(
            f"partition {standing.partition}: {standing.text()}. Ask the service that applies it, or start one"
            " with this --data; --stale reads what is there"
        )


def refuse_beyond(settings: Settings, partition: int, end: int) -> None:
    """Refuse a decision about records before `end` that the log does not have yet: nobody knows what they will be.

    Raises:
        ConfigError: it does not have them, or does not answer.
    """
    ends = log_ends(settings, [partition])
    if ends.unknown:
        raise ConfigError(f"how far the log goes is not known: {ends.unknown}")
    if end > ends.offsets[partition]:
        raise ConfigError(f"partition {partition} of the log ends at offset {ends.offsets[partition]}, before {end}")


def is_applied(path: Path) -> bool:
    """Whether another process has the database of a partition open, as a service does that applies it.

    Never from within a service: to close a file that it has locked itself would let go of the lock.
    """
    question = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        with (path / "LOCK").open("rb") as lock:
            answer = fcntl.fcntl(lock, fcntl.F_GETLK, question)
    except OSError:  # not there: nobody has it open
        return False
    kind: int = struct.unpack(_LOCK, answer)[0]
    return kind != fcntl.F_UNLCK


async def _ask(log: Log, partitions: Sequence[int], *, written: bool) -> dict[int, int]:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await log.ends(partitions, written=written)
    except TimeoutError:
        await _refuse_missing(log)
        raise
    finally:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await log.close()


async def _refuse_missing(log: Log) -> None:
    """Ask whether there is a log at all: aiokafka waits in silence for a topic that was deleted.

    Raises:
        LogMismatchError: there is none.
    """
    try:
        async with asyncio.timeout(_TOPIC_SECONDS):
            await log.start()
    except LogMismatchError as error:
        if error.kind is Mismatch.MISSING:
            raise
    except (LogUnavailableError, TimeoutError):
        pass  # it was asked for its ends, and what is known of these is said

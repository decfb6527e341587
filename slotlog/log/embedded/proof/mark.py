"""Keeps how far the embedded log was durable in a small file beside it: LOG-head.

    {"log": ID, "heads": [[NEXT OFFSET, LINK OF THE LAST RECORD], ...], "works": WORKS, "sum": CHECKSUM}, hexadecimal

WORKS is the number of transactions that changed anything but records, dead letters above all; the file counts them in
SQLite's `user_version`, and begins anew when that is full. A mark of an older release has none.

SQLite takes a `-wal` as far as it is sound, and a log file of any age: an earlier prefix of the log is whole, and no
checksum inside shows that it is not all. So once a second whoever has the log open notes here what is committed, which
is durable before anybody can see it, and a log that ends before the mark, or holds something else at it, is refused.
The mark never says more than is durable; what was appended in the last second before a crash may be beyond it. Who has
a state holds the log against that as well (`Log.check`), to the last record.

Two processes may write it in turn, and the older of two marks may stay: it is true all the same. It is written into
another file, which takes its name when it is on disk. Without it, or when it is damaged, nothing is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from slotlog.disk import make_file, sync
from slotlog.errors import LogDamagedError, LogMismatchError, LogRecordError, Mismatch
from slotlog.log.embedded.file.chain import sum_of
from slotlog.log.embedded.file.file import (
    WORKS_MAX,
    Identity,
    code_of,
    read_identity,
    steadily_here,
    translated,
    works_of,
)
from slotlog.log.embedded.file.heads import Head, head_of, link_at
from slotlog.log_lines import LineLogger

logger = LineLogger(__name__)


class Marked(NamedTuple):
    """The content of a mark: (next offset, link) of each partition, and the count of other changes."""

    log_id: bytes
    heads: tuple[tuple[int, bytes], ...]
    works: int


class HeadMark:
    """The mark beside one log.

    Args:
        path: the log.
    """

    def __init__(self, path: Path) -> None:
        self._log = path
        self._path = path.with_name(f"{path.name}-head")
        self._written: Marked | None = None

    def refuse_missing(self) -> None:
        """Refuse to make a new log where the mark says that there was one.

        Raises:
            LogMismatchError: `MISSING`.
        """
        if self._path.exists() and not (self._log.exists() and self._log.stat().st_size):
            raise LogMismatchError(
                Mismatch.MISSING,
                f"there is no log at {self._log}, but {self._path} says that there was one: bring it back. To begin a "
                f"new one, delete {self._path}.",
            )

    def refuse_behind(self) -> None:
        """Hold the log at the path against the mark, before anything is written to it or to its `-wal`.

        A read that fails is tried again for 0.6 s.

        Raises:
            LogMismatchError: it ends before the mark, or is another one.
            LogUnavailableError: it cannot be held against it, as its disk does not read it.
            LogDamagedError: it does not say which log it is.
        """
        marked = self._read()
        if marked is None or not self._log.exists():
            return
        self._written = marked
        try:
            steadily_here(lambda: self._hold(marked), self._log)
        except sqlite3.Error as error:
            if code_of(error) in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY}:
                raise translated(error, self._log) from error
            # What else is wrong with it is named by whoever opens it, or reads that partition.

    def _hold(self, marked: Marked) -> None:
        # A connection that may write would copy the sound part of a damaged `-wal` into the log, and delete the rest.
        connection = sqlite3.connect(f"{self._log.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        with contextlib.closing(connection):
            identity = read_identity(connection, self._log)
            self._refuse_other(connection, identity, marked)

    def _refuse_other(self, connection: sqlite3.Connection, identity: Identity, marked: Marked) -> None:
        way_on = f"Bring the right one back. To go on with what is there, delete {self._path}."
        if marked.log_id != identity.id or len(marked.heads) != identity.partitions:
            raise LogMismatchError(
                Mismatch.RECREATED,
                f"{self._log} is another log than the one that {self._path} was written of. {way_on}",
            )
        failure: sqlite3.Error | None = None
        for partition, (next_offset, link) in enumerate(marked.heads):
            try:
                head = head_of(connection, partition)
                found = _link(connection, partition, next_offset, head)
            except LogDamagedError:  # that partition stops; the others go on
                continue
            except sqlite3.Error as error:  # the others first: one that is behind is refused
                failure = error
                continue
            name = f"partition {partition} of the log {self._log}"
            if head.next_offset < next_offset:
                raise LogMismatchError(
                    Mismatch.TRUNCATED,
                    f"{name} ends at offset {head.next_offset}, but {next_offset - head.next_offset} records after it "
                    f"were durable, as {self._path} says: the file or its -wal is damaged, truncated or an older copy. "
                    + way_on,
                )
            if found is not None and len(found) == len(link) and found != link:  # those of format 2 have another length
                raise LogMismatchError(
                    Mismatch.RECREATED,
                    f"{name} holds another record at offset {next_offset - 1} than {self._path} says: an older copy of "
                    f"it was brought back and written to. {way_on}",
                )
        if failure is not None:
            raise failure
        lost = (marked.works - works_of(connection)) % WORKS_MAX if marked.works else 0
        if 0 < lost <= WORKS_MAX // 2:  # else it is ahead of the mark, and may have been counted from 1 again
            raise LogMismatchError(
                Mismatch.TRUNCATED,
                f"{self._log} lacks the last {lost} of its changes to dead letters, begins and times, "
                f"which were durable, as {self._path} says: the file or its -wal is damaged, truncated or an older "
                f"copy. {way_on}",
            )

    def _read(self) -> Marked | None:
        try:
            said = json.loads(self._path.read_bytes())
            marked = Marked(
                bytes.fromhex(said["log"]),
                tuple((offset, bytes.fromhex(link)) for offset, link in said["heads"]),
                int(said.get("works", 0)),
            )
            if said["sum"] == _sum(marked):
                return marked
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError) as error:
            logger.warning("head_mark_unreadable", file=str(self._path), error=str(error))
            return None
        logger.warning("head_mark_unreadable", file=str(self._path), error="it is not what was written")
        return None

    def is_written(self, log_id: bytes, heads: Sequence[Head], works: int) -> bool:
        """Whether the mark says this already."""
        return self._written == _marked(log_id, heads, works)

    def write(self, log_id: bytes, heads: Sequence[Head], works: int) -> None:
        """Say that what stands before these heads, which were read from the file, is durable. Blocks for the disk."""
        marked = _marked(log_id, heads, works)
        said = {"log": log_id.hex(), "heads": [[offset, link.hex()] for offset, link in marked.heads], "works": works}
        # Two logs that are open in one process are written by two threads.
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}-{threading.get_ident()}.new")
        try:
            make_file(new)
            with new.open("w") as file:
                os.fchmod(file.fileno(), self._log.stat().st_mode & 0o777)  # as SQLite does with the -wal
                json.dump({**said, "sum": _sum(marked)}, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
            sync(self._path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            logger.warning("head_mark_not_written", file=str(self._path), error=str(error))
            return
        self._written = marked


def _marked(log_id: bytes, heads: Sequence[Head], works: int) -> Marked:
    return Marked(log_id, tuple((head.next_offset, head.link) for head in heads), works)


def _sum(marked: Marked) -> str:
    return sum_of(marked.log_id, marked.heads, *([marked.works] if marked.works else [])).hex()


def _link(connection: sqlite3.Connection, partition: int, next_offset: int, head: Head) -> bytes | None:
    """The link of the record before an offset; None where nothing says it."""
    if next_offset < head.begin_offset:
        return None
    if next_offset == head.begin_offset:
        return head.begin_link
    if next_offset == head.next_offset:
        return head.link
    try:
        return link_at(connection, partition, next_offset - 1)
    except LogRecordError:  # it is named when it is read
        return None

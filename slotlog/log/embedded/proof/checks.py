"""Checks of an embedded log's file against its settings, and against a state that has applied some of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from zlib import crc32

from slotlog.errors import LogMismatchError, LogRecordError, Mismatch
from slotlog.log.embedded.file.file import IN_LOOP_SECONDS_MAX, Identity, another_log, patiently
from slotlog.log.embedded.file.heads import head_of, record_at
from slotlog.log.identity import MARK_BYTES, RecordMark, check_range, check_record, mark_of
from slotlog.log.log import LogRecord
from slotlog.log_lines import LineLogger
from slotlog.wording import counted

_ID_BYTES: Final = 16

logger = LineLogger(__name__)


def check_settings(identity: Identity, path: Path, topic: str, partitions: int) -> None:
    """Refuse a file that holds another topic, or another number of partitions.

    Raises:
        LogMismatchError: it does.
    """
    if identity.topic != topic:
        raise LogMismatchError(
            Mismatch.TOPIC, f"{path} holds the topic {identity.topic!r}, but was opened as {topic!r}"
        )
    if identity.partitions != partitions:
        raise LogMismatchError(
            Mismatch.PARTITIONS_CHANGED,
            f"{path} has {counted(identity.partitions, 'partition')}, but was opened with {partitions}."
            " Another number needs a new log, filled by an export.",
        )


def fingerprint_of(identity: Identity, last: LogRecord) -> bytes:
    """The log's id and the mark of the last record that was applied: what `check_state` compares."""
    return identity.id + mark_of(last, crc32).pack()


def check_state(
    connection: sqlite3.Connection, path: Path, identity: Identity, partition: int, state: tuple[int, bytes | None]
) -> None:
    """Refuse a file that is not the log of which a state has applied a part.

    Args:
        connection: to the file, which was opened for this.
        path: of the file.
        identity: read by that connection.
        partition: of the state.
        state: its next offset, and the fingerprint of the last record applied; None when there is none.

    Raises:
        LogMismatchError: it is another log, or ends before the state, or holds another record there.
        LogDamagedError: it does not say where the partition ends. sqlite3.Error: it cannot be read.
    """
    next_offset, fingerprint = state
    head = patiently(lambda: head_of(connection, partition), IN_LOOP_SECONDS_MAX)
    name = f"partition {partition} of the log {path}"
    if fingerprint is None:
        check_range(name, next_offset, head.begin_offset, head.next_offset)
        return
    mark = RecordMark.parse(fingerprint[_ID_BYTES:] if len(fingerprint) == _ID_BYTES + MARK_BYTES else fingerprint[:0])
    if fingerprint[:_ID_BYTES] != identity.id:
        raise another_log(path)
    check_range(name, next_offset, head.begin_offset, head.next_offset)
    if mark.offset < head.begin_offset:
        return
    try:
        record = patiently(lambda: record_at(connection, partition, mark.offset), IN_LOOP_SECONDS_MAX)
    except LogRecordError as error:  # it was applied when it was whole: the state is right, and can go on
        logger.warning("log_damaged", partition=partition, offset=error.offset, error=str(error))
        return
    check_record(name, mark, None if record is None else mark_of(record, crc32))

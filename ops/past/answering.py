"""Answers questions about the past, one after the other, in a process of its own."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

import structlog

from engine.errors import CommandError, PartitionStoppedError
from engine.values.replies import Reply, pack
from ops.config import ConfigError, Settings
from ops.logging import configure_logging
from ops.past.history import History
from ops.past.kept import KeptStates
from ops.past.narrow import walked_for
from ops.past.offsets.offset_index import extend
from ops.past.rows import Rows
from ops.progress import show_nothing
from ops.snapshots.child import give_way
from ops.snapshots.errors import SnapshotStoreError
from ops.state.rebuilding.replay_plan import opened, parse_until
from slotlog.errors import LogMismatchError, LogRecordError, LogUnavailableError
from slotlog.shared.errors import EventError
from slotlog.shared.shown_errors import shown_error

_EXPECTED: Final = (
    ConfigError,
    EventError,
    LogMismatchError,
    LogRecordError,
    LogUnavailableError,
    OSError,
    PartitionStoppedError,
    SnapshotStoreError,
)
"""What may go wrong without a bug of ours."""

logger = structlog.get_logger(__name__)


class Read(NamedTuple):
    """A reading command as of a moment.

    Attributes:
        partition: of its keys.
        moment: an offset or a time, as `parse_until` takes it.
        name, args, db: the command, and its database.
    """

    partition: int
    moment: str
    name: bytes
    args: list[bytes]
    db: int


class HistoryOf(NamedTuple):
    """The last events that named or changed a key.

    Attributes:
        partition: of the key.
        key, db: it, and its database.
        rows: how many events, at most.
        from_offset: earlier ones are left out.
        until: a moment to end before; None: the log's end.
        values: with the key before and after each.
    """

    partition: int
    key: bytes
    db: int
    rows: int
    from_offset: int
    until: str | None
    values: bool


class IndexMore(NamedTuple):
    """A request to add to the index of a partition; the answer is how many offsets are still missing."""

    partition: int


Question = Read | HistoryOf | IndexMore

INDEXED_AT_ONCE: Final = 131_072
"""Offsets: others who ask wait meanwhile, for a second or two."""


def answer_all(connection: Connection, settings: Settings) -> None:
    """Answer each question that comes with the bytes of a reply (`pack`), until the other end is closed."""
    give_way()
    configure_logging(settings.log_level)
    show_nothing()
    asyncio.run(_answer_all(connection, settings))


async def _answer_all(connection: Connection, settings: Settings) -> None:
    states = KeptStates(settings)
    try:
        while True:
            try:
                question = await asyncio.to_thread(connection.recv)
            except EOFError:
                return
            reply = await answer(settings, states, question)
            await asyncio.to_thread(connection.send_bytes, pack(reply))
    finally:
        await states.close()


async def answer(settings: Settings, states: KeptStates, question: Question) -> Reply:
    """The reply to a question; an error is one, too."""
    try:
        if isinstance(question, HistoryOf):
            return await _history(settings, question)
        if isinstance(question, IndexMore):
            return await _index_more(settings, question.partition)
        until = parse_until(question.moment, "the moment")
        return await states.read(question.partition, until, question.name, question.args, question.db)
    except CommandError as error:
        return error
    except _EXPECTED as error:
        return CommandError(f"ERR {error}")
    except Exception as error:
        logger.exception("past_not_read")
        return CommandError(f"ERR the past cannot be read: {shown_error(error)}")


async def _history(settings: Settings, question: HistoryOf) -> Reply:
    partition, key, db, count, from_offset, until, values = question
    rows = Rows(count)
    watching = History(db, key, rows.add, from_offset=from_offset, values=values)
    end = parse_until(until, "UNTIL")
    async with walked_for(settings, partition, end, watching.step, [key], from_snapshot=False):
        return rows.reply


async def _index_more(settings: Settings, partition: int) -> Reply:
    log = opened(settings)
    await log.start()
    try:
        return await extend(settings, log, partition, INDEXED_AT_ONCE)
    finally:
        await log.close()

"""The head of the hash chain where a state stands, for who writes it down."""

from __future__ import annotations

import asyncio
from sqlite3 import Error as SqliteError
from typing import NamedTuple

from ops.config import ConfigError, Settings
from ops.state.chain.walking import HeadsElsewhere, head_at
from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.log import open_log


class Noted(NamedTuple):
    """A head as 64 hexadecimal digits; or None, and why it is not known."""

    text: str | None
    unknown: str = ""


def noted_head(settings: Settings, partition: int, offset: int, others: HeadsElsewhere, *, keep: bool) -> Noted:
    """The head of a partition's chain at an offset, for who does without it where it cannot be known.

    It takes as long as to read the log from the last head that the data directory keeps. Call it where no event loop
    runs.

    Args:
        settings: the log, and the data directory.
        partition: one of the topic's.
        offset: where the state stands.
        others: as for `head_at`.
        keep: keep this head, and those on the way, in the data directory.
    """
    try:
        return Noted(asyncio.run(_head(settings, partition, offset, others, keep=keep)).hex())
    except (ConfigError, LogMismatchError, LogUnavailableError, OSError, SqliteError) as error:
        return Noted(None, str(error))


async def _head(settings: Settings, partition: int, offset: int, others: HeadsElsewhere, *, keep: bool) -> bytes:
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    await log.start()
    try:
        return await head_at(settings, log, partition, offset, others, keep=keep)
    finally:
        await log.close()

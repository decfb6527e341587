"""An open log for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slotlog.log import Log, open_log


@asynccontextmanager
async def opened_log(url: str, topic: str, partitions: int = 1) -> AsyncIterator[Log]:
    """The log at `url`, started, and closed whatever happens."""
    log = open_log(url, topic=topic, partitions=partitions)
    await log.start()
    try:
        yield log
    finally:
        await log.close()

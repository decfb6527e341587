"""Opens the log of the settings for appending, with spans of what goes into it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from ops.config import Settings
from ops.state.clocks.guard import bound_clock
from ops.state.opening.directories import prepare_data, state_directories
from ops.tracing import Spans
from slotlog.log import Entry, Log, RecordPosition, open_log

if TYPE_CHECKING:
    from slotlog.log.tracing import Tracing

# What the embedded log writes as one transaction: such an append is there whole, or not at all.
APPEND_ENTRIES_MAX: Final = 1000
APPEND_BYTES_MAX: Final = 4 * 1024 * 1024


class Target(NamedTuple):
    """The log that events go to, and the maker of their spans, if there is one."""

    log: Log
    tracing: Tracing | None

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        """As `Log.append`; one span for all of them."""
        if self.tracing is None:
            return await self.log.append(entries)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        carrying = self.tracing.send(entries, done)
        try:
            positions = await self.log.append(carrying)
        except BaseException as error:
            done.set_exception(error)
            raise
        done.set_result(None)
        return positions


def _target_log(settings: Settings) -> Log:
    """The log of the settings, not started yet; what it lies in is made."""
    bound_clock(settings)
    if not settings.log:
        prepare_data(settings)  # the embedded log lies in it
    return open_log(
        settings.log_url,
        topic=settings.topic,
        partitions=settings.partitions,
        kafka=settings.kafka,
        # A state whose log is elsewhere, such as in Kafka: nobody would read one that is made beside it.
        create=bool(settings.log) or not state_directories(settings.data),
    )


@asynccontextmanager
async def opened_target(settings: Settings) -> AsyncIterator[Target]:
    """The log of the settings, started, and closed at the end of the block.

    Raises:
        ConfigError, LogMismatchError, LogUnavailableError, ValueError: it cannot be opened; nothing was sent.
    """
    log = _target_log(settings)
    spans = Spans(settings) if settings.tracing else None
    await log.start()
    try:
        yield Target(log, None if spans is None else spans.tracing)
    finally:
        await log.close()
        if spans is not None:
            await spans.close()

"""Runs an import: reads from the source in a thread, and appends to the log meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ops.config import Settings
from ops.importing.batches import Batch, batches
from ops.importing.progress_file import ProgressFile
from ops.importing.report import Imported
from ops.importing.source import Source
from ops.progress import Advance
from ops.sending.target import Target, opened_target
from slotlog.errors import LogMismatchError, LogUnavailableError

_LOOK_SECONDS: Final = 0.5


async def dry_run(settings: Settings, source: Source, advance: Advance, imported: Imported) -> None:
    """Read the whole source and make its events, and append none. The log is not opened.

    Args:
        settings: the number of partitions.
        source: closed by the caller.
        advance: told how much of the source is dealt with.
        imported: kept up to date.
    """
    with ThreadPoolExecutor(1) as thread:
        steps = _Steps(batches(source.keys(None), settings.partitions), source, thread, advance)
        while (batch := await steps.next()) is not None:
            imported.note(batch.types, 0)
            imported.note_left_out(batch.left_out)
            steps.appended = len(batch.types)
        imported.notes += source.notes()


async def run(settings: Settings, source: Source, progress: ProgressFile, advance: Advance, imported: Imported) -> None:
    """Append every key of the source as events, from where an earlier run ended.

    Args:
        settings: the log.
        source: closed by the caller.
        progress: where an earlier run ended.
        advance: told how much of the source is dealt with.
        imported: kept up to date, so that it is right even after an interruption.

    Raises:
        ConfigError, LogMismatchError, LogUnavailableError, ValueError: the log cannot be opened; nothing was appended.
    """
    imported.earlier_keys = progress.keys
    for each in progress.left_out():
        imported.note_left_out([each])
    async with opened_target(settings) as target:
        await progress.check(target.log)
        with ThreadPoolExecutor(1) as thread:
            made = batches(source.keys(progress.mark), settings.partitions)
            steps = _Steps(made, source, thread, advance)
            try:
                await _append_all(steps, target, progress, imported)
            except (LogMismatchError, LogUnavailableError) as error:
                imported.failure = f"the log takes no more: {error}"
            finally:
                await steps.close()
            if not imported.failure:
                imported.notes += source.notes()


async def _append_all(steps: _Steps, target: Target, progress: ProgressFile, imported: Imported) -> None:
    batch = await steps.next()
    while batch is not None:
        steps.begin()  # the next one is read while this one is written
        if batch.entries:
            progress.note(await target.append(batch.entries), len(batch.types))
        progress.note_left_out(batch.left_out, batch.mark, batch.left_out_before_mark)
        steps.appended += len(batch.types)
        imported.note(batch.types, len(batch.entries))
        imported.note_left_out(batch.left_out)
        batch = await steps.next()


class _Steps:
    """The batches, each made in the thread of the source.

    Attributes:
        appended: keys that are in the log and of which the source was not told yet.
    """

    def __init__(self, made: Iterator[Batch], source: Source, thread: ThreadPoolExecutor, advance: Advance) -> None:
        self._made = made
        self._source = source
        self._thread = thread
        self._advance = advance
        self._running: asyncio.Future[Batch | None] | None = None
        self.appended = 0

    def begin(self) -> None:
        """Have the next batch made."""
        appended, self.appended = self.appended, 0
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, self._step, appended)

    async def next(self) -> Batch | None:
        """The next batch, None behind the last; what the source raises."""
        if self._running is None:
            self.begin()
        assert self._running is not None, "just begun"
        while not (await asyncio.wait([self._running], timeout=_LOOK_SECONDS))[0]:
            self._advance(self._source.done)
        running, self._running = self._running, None
        self._advance(self._source.done)
        return running.result()

    async def close(self) -> None:
        """Wait for what is being made, and tell the source what is in the log."""
        if self._running is not None:
            await asyncio.wait([self._running])
            self._running.exception()  # what ends the run already is told, and not this
        self._source.appended(self.appended)

    def _step(self, appended: int) -> Batch | None:
        if appended:
            self._source.appended(appended)
        batch = next(self._made, None)
        self._source.appending()
        return batch

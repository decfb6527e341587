"""Starts the jobs beside the consumer: the cleaner, the retention of dead letters, the scrub of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ingest.applying.consumer import Consumer
from ingest.applying.partitions.owned_partition import HasRoom
from ingest.cleaning.cleaner import Cleaner, CleaningSettings
from ingest.cleaning.retention import Retention, RetentionSettings
from ingest.cleaning.scrubber import Scrubber
from ingest.reporting.observer import Observer
from ops.config import Settings
from resp.server import Server
from slotlog.log import Log
from slotlog.log.embedded.embedded_log import EmbeddedLog


@asynccontextmanager
async def cleaning(
    settings: Settings, log: Log, consumer: Consumer, observer: Observer, resp: Server | None, has_room: HasRoom
) -> AsyncIterator[None]:
    """Clean what `consumer`, which is open, applies, and scrub its log, while the block runs."""
    cleaner = Cleaner(
        log, consumer.partitions, observer, consumer.conditions.stop_outside, cleaning_settings(settings), has_room
    )
    if resp is not None:
        cleaner.serve(resp.observer.swept, lambda: resp.observer.may_expire)
        for owned in consumer.every.values():
            owned.worker.tell_swept = resp.observer.swept
    tasks = [asyncio.create_task(cleaner.run())]
    if isinstance(log, EmbeddedLog) and (settings.dead_letters_max or settings.dead_letters_days):
        kept = RetentionSettings(settings.dead_letters_max, settings.dead_letters_days)
        tasks.append(asyncio.create_task(Retention(log, settings.owned, kept).run()))
    if isinstance(log, EmbeddedLog) and settings.log_scrub_bytes_per_s:
        tasks.append(asyncio.create_task(Scrubber(log, settings.owned, settings.log_scrub_bytes_per_s).run()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def cleaning_settings(settings: Settings) -> CleaningSettings:
    """How much is cleaned, and how often."""
    return CleaningSettings(
        interval_s=settings.ttl_cleanup_interval_s,
        keys_max=settings.ttl_cleanup_keys_max,
        loop_share=settings.cleanup_loop_share,
        elements_per_s=settings.reclaim_elements_per_s,
        compaction_bytes_per_s=settings.compaction_bytes_per_s,
    )

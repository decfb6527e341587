"""Finds out whether a log that has refused an append takes one again, before a client loses a write.

A worker that is not ready gets no requests, so no append of a client could show that the log works again. A TICK may be
appended at any time: it moves the partition's clock to now, and does nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Final

from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.applying.ticker import TICK
from ingest.reporting.observer import Condition
from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.log import Entry, Log

_PROBE_SECONDS: Final = 5.0


class AppendProbe:
    """Appends a TICK now and then to each running partition whose last append failed.

    Args:
        log: started.
        partitions: the owned partitions.
    """

    def __init__(self, log: Log, partitions: Mapping[int, OwnedPartition]) -> None:
        self._log = log
        self._partitions = partitions
        self._next_at = 0.0
        self._probing: dict[int, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Append a TICK to each partition whose next try is due. The log counts the outcome."""
        if monotonic() < self._next_at:
            return
        self._next_at = monotonic() + _PROBE_SECONDS
        for partition, owned in self._partitions.items():
            if owned.condition is not Condition.RUNNING or not owned.speaks:
                continue
            if not self._log.append_counts.failure_of(partition):
                continue
            if owned.tick is not None:
                owned.tick()
            elif partition not in self._probing:
                self._probing[partition] = asyncio.create_task(self._append(partition))

    def close(self) -> None:
        """Cancel appends that are under way."""
        for task in self._probing.values():
            task.cancel()

    async def _append(self, partition: int) -> None:
        try:
            with suppress(LogUnavailableError, LogMismatchError):  # as before: it is counted
                await self._log.append([Entry(partition, None, TICK)])
        finally:
            del self._probing[partition]

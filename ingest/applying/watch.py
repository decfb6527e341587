"""Watches the log beside the consumer's loop: lag, offsets for lag tools, the log's identity."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

import structlog

from ingest.applying.append_probe import AppendProbe
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.reporting.observer import Condition, Observer
from slotlog.clock import now_ms
from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.log import Log

_LAG_SECONDS: Final = 2.0
COMMIT_SECONDS: Final = 5.0
_MEASURE_SECONDS: Final = 60.0

logger = structlog.get_logger(__name__)


class Watch:
    """Looks at the log every 2 s; the consumer's loop acts on what it finds.

    Args:
        log: started.
        partitions: those that are applied.
        owned: those of them that are owned: for them alone appends are tried and offsets committed.
        observer: told of the lag.
        identity_seconds: how often the log is held against the state, to notice another one in its place.
        commit_seconds: how often lag tools are told how far the owned partitions are.

    Attributes:
        mismatches: partition -> why the log is another one, for the loop to take away.
        heard_at: when the log last answered, on the monotonic clock; 0 before it did.
        trouble: why it did not answer when it was asked last; empty where it did.
    """

    def __init__(
        self,
        log: Log,
        partitions: Mapping[int, OwnedPartition],
        owned: Mapping[int, OwnedPartition],
        observer: Observer,
        identity_seconds: float,
        commit_seconds: float,
    ) -> None:
        self.mismatches: dict[int, str] = {}
        self.heard_at = 0.0
        self.trouble = ""
        self._ends: dict[int, int] = {}
        self._log = log
        self._partitions = partitions
        self._owned = owned
        self._observer = observer
        self._identity_seconds = identity_seconds
        self._probe = AppendProbe(log, owned)
        self._identity_at = monotonic() + identity_seconds
        self._commit_seconds = commit_seconds
        self._commit_at = monotonic() + commit_seconds
        self._begin_at = 0.0
        self._measure_at = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                self._probe.look()
                try:
                    await self._look()
                    self.trouble = ""
                except LogUnavailableError as error:
                    self.trouble = str(error)  # the loop finds out as well, and logs it
                except Exception:
                    logger.exception("watch_failed")
                await asyncio.sleep(min(_LAG_SECONDS, self._identity_seconds))
        finally:
            self._probe.close()

    async def _look(self) -> None:
        if monotonic() >= self._identity_at:  # first: asking a deleted topic for its end takes a whole time-out
            self._identity_at = monotonic() + self._identity_seconds
            await self._check_identity()
        if monotonic() >= self._begin_at:
            await self._report_begins()
            self._begin_at = monotonic() + self._identity_seconds
        await self._report_lag()
        if monotonic() >= self._measure_at:
            self._measure_at = monotonic() + _MEASURE_SECONDS
            await self._log.measure()
        if monotonic() >= self._commit_at:
            self._commit_at = monotonic() + self._commit_seconds
            await self.commit()

    async def commit(self) -> None:
        """Tell lag tools how far the partitions are."""
        speaking = {partition: owned for partition, owned in self._owned.items() if owned.speaks}
        offsets = {partition: owned.said_to for partition, owned in speaking.items() if owned.worker.is_open}
        await self._log.commit({partition: offset for partition, offset in offsets.items() if offset is not None})

    async def _report_lag(self) -> None:
        for partition, owned in self._partitions.items():
            end = await self._log.end_offset(partition)
            self.heard_at = monotonic()
            if end != self._ends.get(partition):  # what was seen behind it then has come since: nothing holds it up
                self._ends[partition] = end
                owned.held_up_since = 0.0
            position = owned.committed
            if position is None:
                continue
            events = max(0, end - position.next_offset)
            if not events:
                owned.caught_up_ms = now_ms()
                await self._look_beyond(partition, owned, end)
            since_ms = max(position.clock_ms, owned.caught_up_ms)
            self._observer.lag(partition, events, max(0.0, (now_ms() - since_ms) / 1000) if events else 0.0)

    async def _look_beyond(self, partition: int, owned: OwnedPartition, end: int) -> None:
        """Note since when records stand behind the end: somebody's transaction is open, and the log stands still."""
        if await self._log.high_watermark(partition) <= end:
            owned.held_up_since = 0.0
        elif not owned.held_up_since:
            owned.held_up_since = monotonic()

    async def _report_begins(self) -> None:
        """Note where the log begins: a state does not miss what was cut off before it, but a replay does."""
        for partition, owned in self._partitions.items():
            begin = await self._log.begin_offset(partition)
            before, owned.begin_offset = owned.begin_offset or 0, begin
            if begin <= before:
                continue
            if owned.is_cut_off:
                hint = "the state cannot be built again from this log, nor from a snapshot: keep copies of it"
                logger.warning("log_cut", partition=partition, begin_offset=begin, hint=hint)
            else:
                logger.info("log_cut", partition=partition, begin_offset=begin, snapshot_offset=owned.snapshot_offset)

    async def _check_identity(self) -> None:
        for partition, owned in self._partitions.items():
            if owned.condition is not Condition.RUNNING:
                continue
            try:
                await owned.worker.check()
            except LogUnavailableError:
                return
            except LogMismatchError as error:
                self.mismatches[partition] = str(error)

"""Runs the process that feeds the topic of changes, for the partitions that a service owns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final

import structlog

from ingest.applying.partitions.owned_partition import OwnedPartition
from ops.changes.feeding import Fed, feed
from ops.config import ConfigError, Settings
from ops.snapshots.child import in_child
from ops.snapshots.scratch import remove_abandoned
from slotlog.shared.shown_errors import shown_error

_LOOK_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 0.5
_RETRY_SECONDS_MAX: Final = 60.0

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class ChangeReport:
    """The known progress of a partition's feed.

    Attributes:
        next_offset: changes of everything before it are in the topic; 0: it is not known yet.
        told: records that were added since the start.
    """

    next_offset: int = 0
    told: int = 0


class ChangeFeed:
    """Keeps the process running, as long as the settings name a topic.

    Args:
        settings: of the service.
        partitions: the owned ones; they may change.

    Attributes:
        reports: by partition, of those that are fed.
        error: why the process has ended by itself; empty while it runs.

    Raises:
        ConfigError: there can be no such topic.
    """

    def __init__(self, settings: Settings, partitions: Mapping[int, OwnedPartition]) -> None:
        _refuse_topic(settings)
        self._settings = settings
        self._partitions = partitions
        self.reports: dict[int, ChangeReport] = {}
        self.error = ""

    async def run(self) -> None:
        """Feed until cancelled; what failed is tried again after a second, later after a minute."""
        if not self._settings.changes.topic:
            return
        wait = 1.0
        while True:
            told = self._told()
            try:
                await self._feed(sorted(self._partitions))
            except Exception as error:  # noqa: BLE001 - the service goes on without, and it is tried again
                wait = 1.0 if self._told() > told else min(2 * wait, _RETRY_SECONDS_MAX)
                if (text := _text_of(error)) != self.error:
                    logger.warning("changes_not_told", error=text, hint="it is tried again")
                self.error = text
                await asyncio.sleep(wait)

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return bool(self.error)

    def told_of(self, partition: int) -> int:
        """Changes that were told since the start."""
        report = self.reports.get(partition)
        return 0 if report is None else report.told

    def lag_of(self, partition: int) -> int:
        """Offsets that are applied and not told; all of them, as long as the feed has not said where it is."""
        report, owned = self.reports.get(partition), self._partitions.get(partition)
        position = None if owned is None else owned.committed
        if report is None or position is None:
            return 0
        return max(0, position.next_offset - report.next_offset)

    def _told(self) -> int:
        return sum(report.told for report in self.reports.values())

    async def _feed(self, partitions: list[int]) -> None:
        """Until other partitions are owned."""
        self.reports = {partition: self.reports.get(partition, ChangeReport()) for partition in partitions}
        if not partitions:
            await asyncio.sleep(_IDLE_SECONDS)
            return
        applied: Any = get_context("spawn").RawArray("q", self._settings.partitions)
        feeding = asyncio.create_task(in_child(feed, self._settings, partitions, applied, heard=self._heard))
        try:
            while sorted(self._partitions) == partitions and not feeding.done():
                for partition, owned in self._partitions.items():
                    if (position := owned.committed) is not None:
                        applied[partition] = position.next_offset
                await asyncio.wait((feeding,), timeout=_LOOK_SECONDS)
        finally:
            feeding.cancel()
            await asyncio.wait((feeding,))
            await asyncio.to_thread(remove_abandoned, self._settings.data)
        if not feeding.cancelled():
            feeding.result()

    def _heard(self, fed: Fed) -> None:
        report = self.reports[fed.partition]
        report.next_offset = fed.next_offset
        report.told += fed.told
        self.error = ""


def _refuse_topic(settings: Settings) -> None:
    topic = settings.changes.topic
    if topic and not settings.log_url.startswith("kafka://"):
        raise ConfigError(
            "SLOTLOG_CHANGES__TOPIC needs a log in Kafka (--log kafka://…); with another log `slotlog changes` prints"
            " the changes"
        )
    if topic and topic == settings.topic:
        raise ConfigError(f"SLOTLOG_CHANGES__TOPIC={topic} is the log: name another topic for the changes")


def _text_of(error: Exception) -> str:
    """The first of the errors of a group, in which those of several partitions come."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return shown_error(error)

"""Cuts the log of a service's partitions behind their snapshots, by schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

from ingest.applying.partitions.owned_partition import OwnedPartition
from ops.config import Settings
from ops.serving.keeping.snapshots import collect_in_child
from ops.snapshots.child import in_child
from ops.snapshots.objects import open_objects
from ops.snapshots.report import SnapshotReport
from ops.snapshots.store import SnapshotStore
from ops.snapshots.trimming import give_back, trim
from slotlog.shared.shown_errors import shown_error

if TYPE_CHECKING:
    from slotlog.log.embedded.embedded_log import EmbeddedLog
    from slotlog.log.kafka.kafka_log import KafkaLog

_RETRY_SECONDS: Final = 60.0

logger = structlog.get_logger(__name__)


class LogTrimmer:
    """Cuts the log, as long as the settings say how often.

    Args:
        settings: of the service.
        partitions: the owned ones: no other is cut.
        log: started, when `run` is called.
        reports: of each partition, to be kept up to date.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[int, OwnedPartition],
        log: EmbeddedLog | KafkaLog,
        reports: Mapping[int, SnapshotReport],
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._log = log
        self._reports = reports

    async def run(self) -> None:
        """Cut every `trim_seconds`, until cancelled; what failed is tried again after a minute."""
        seconds = self._settings.snapshots.trim_seconds
        while seconds:
            try:
                await self._trim_all()
            except Exception:
                logger.exception("log_trim_failed")
            is_failing = any(report.trim_error for report in self._reports.values())
            await asyncio.sleep(min(seconds, _RETRY_SECONDS) if is_failing else seconds)

    async def _trim_all(self) -> None:
        """Delete the snapshots that are not to be kept, which may be the oldest, and then what is before the oldest."""
        await in_child(collect_in_child, self._settings)
        for partition, report in self._reports.items():
            if partition not in self._partitions:  # its log is cut by another worker of the group
                report.trim_error = ""
        for partition, owned in self._partitions.items():
            if owned.worker.is_open and owned.speaks:  # else it is not known what it has applied, or not its business
                await self._trim(partition, owned.worker.machine.position.next_offset)
        if given := await give_back(self._log):
            logger.info("log_gave_back", bytes=given)

    async def _trim(self, partition: int, applied_to: int) -> None:
        report = self._reports[partition]
        try:
            store = await asyncio.to_thread(_opened, self._settings.snapshots.url)
            trimmed = await trim(self._log, store, partition, lambda _: applied_to)
        except Exception as error:  # noqa: BLE001 - the log goes on as it is, and it is tried again
            trouble = shown_error(error)
        else:
            report.trimmed += trimmed.records
            if trimmed.records:
                logger.info(
                    "log_trimmed",
                    partition=partition,
                    records=trimmed.records,
                    begin_offset=trimmed.trimmed_to,
                    snapshot=trimmed.snapshot,
                )
            trouble = trimmed.trouble if trimmed.snapshot else ""  # before the first snapshot there is nothing to do
        if trouble and trouble != report.trim_error:
            logger.warning("log_not_trimmed", partition=partition, error=trouble)
        report.trim_error = trouble


def _opened(url: str) -> SnapshotStore:
    return SnapshotStore(open_objects(url))

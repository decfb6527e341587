"""Holds the age at which a topic forgets its records against the snapshots of a service's partitions.

A record may age out of the log once a verified snapshot has its effects. The service takes snapshots at least four
times in that time. What is older than half of the retention and in no snapshot is counted, and has an alert.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

from ingest.applying.partitions.owned_partition import OwnedPartition
from ops.config import ConfigError, Settings
from ops.serving.keeping.snapshots import newest_of
from ops.snapshots.errors import SnapshotStoreError
from ops.snapshots.report import SnapshotReport
from slotlog.clock import now_ms
from slotlog.errors import LogUnavailableError

if TYPE_CHECKING:
    from slotlog.log.embedded.embedded_log import EmbeddedLog
    from slotlog.log.kafka.kafka_log import KafkaLog

_SNAPSHOTS_A_RETENTION: Final = 4

logger = structlog.get_logger(__name__)


class RetentionGuard:
    """Refuses a start, and counts what ages, where a topic has a finite retention.

    Args:
        settings: of the service.
        partitions: the owned ones.
        log: started, when the first method is called.
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

    async def refuse_uncovered(self) -> None:
        """Refuse a topic whose records age out, unless there are snapshots of what went, and will be of the rest.

        Raises:
            ConfigError: snapshots are not taken often enough, or records went that no verified one has.
            LogUnavailableError: the log is away.
        """
        retention_ms = self._log.retention_ms
        if retention_ms is None:
            return
        name = f"the topic {self._log.topic} has retention.ms={retention_ms}"
        most, seconds = retention_ms / 1000 / _SNAPSHOTS_A_RETENTION, self._settings.snapshots.seconds
        if not 0 < seconds <= most:
            raise ConfigError(
                f"{name}, so a snapshot must be taken every {most:g} s at least, a quarter of that: set"
                f" SLOTLOG_SNAPSHOTS__SECONDS, which is {seconds:g}, and SLOTLOG_SNAPSHOTS__URL, or retention.ms to -1"
            )
        try:
            newest = await asyncio.to_thread(newest_of, self._settings)
        except SnapshotStoreError as error:
            logger.warning("retention_not_checked", error=str(error), hint="the store of the snapshots is away")
            return
        for partition in self._settings.owned:  # in a group: those that it may be given
            begin, (covered, _) = await self._log.begin_offset(partition), newest.get(partition, (0, 0))
            if begin > covered:
                raise ConfigError(
                    f"{name}, and partition {partition} begins at offset {begin}, which no verified snapshot reaches:"
                    " take one of the state that you have (`slotlog snapshot`), or set retention.ms to -1"
                )

    async def run(self) -> None:
        """Count what ages, as often as the log's identity is checked, until cancelled."""
        while True:
            try:
                await self._count()
            except LogUnavailableError:
                pass  # others say that it is away
            except Exception:
                logger.exception("retention_not_checked")
            await asyncio.sleep(self._settings.identity_check_seconds)

    async def _count(self) -> None:
        retention_ms = self._log.retention_ms
        for partition, owned in self._partitions.items():
            aging = 0 if retention_ms is None else await self._aging(partition, owned, retention_ms)
            self._reports[partition].aging = aging

    async def _aging(self, partition: int, owned: OwnedPartition, retention_ms: int) -> int:
        """How many offsets are past half of the retention, and in no verified snapshot that is known."""
        young = await self._log.offset_at(partition, now_ms() - retention_ms // 2)
        if young is None:
            young = await self._log.end_offset(partition)
        covered = max(owned.snapshot_offset or 0, await self._log.begin_offset(partition))
        return max(0, young - covered)

"""Deletes records of the log below the oldest verified snapshot that is kept.

The snapshot is held against the log first: it must be one of this log. The record that it applied last stays, because
by it a restored state knows the log again. Right before each deletion the store is asked whether the snapshot is still
offered. A state that is here and has not applied as much is not cut off from its records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ops.snapshots.errors import SnapshotRefusedError
from ops.snapshots.manifest import Manifest
from ops.snapshots.steps import Step, reached
from ops.snapshots.store import SnapshotStore
from slotlog.errors import LogMismatchError
from slotlog.log.identity import MARK_BYTES, RecordMark

if TYPE_CHECKING:
    from slotlog.log.embedded.embedded_log import EmbeddedLog
    from slotlog.log.kafka.kafka_log import KafkaLog

_RECORDS_MAX: Final = 1_000_000
"""So many are deleted at most until the store is asked again."""
_GIVE_BACK_PAUSE_SECONDS: Final = 0.005  # appends are many, and each of these steps takes as long

AppliedTo = Callable[[int], int | None]
"""The offset before which a state that is here has applied everything of a partition; None: there is none."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The result for one partition.

    Attributes:
        snapshot: the id of the oldest verified one; empty: there is none.
        begin_offset: of the log, before.
        trimmed_to: where it begins now, or would.
        trouble: why nothing may be deleted; else empty.
    """

    partition: int
    snapshot: str
    begin_offset: int
    trimmed_to: int
    trouble: str = ""

    @property
    def records(self) -> int:
        """How many offsets were deleted, or would be."""
        return self.trimmed_to - self.begin_offset


async def trim(
    log: EmbeddedLog | KafkaLog, store: SnapshotStore, partition: int, applied_to: AppliedTo, *, dry_run: bool = False
) -> Trimmed:
    """Delete what one partition of the log has below its oldest verified snapshot.

    Args:
        log: open.
        store: of the snapshots of this topic.
        partition: which.
        applied_to: of the state that is here.
        dry_run: delete nothing.

    Raises:
        SnapshotStoreError, LogUnavailableError: one of them cannot be asked. What was deleted by then is.
    """
    begin = await log.begin_offset(partition)
    snapshot = await asyncio.to_thread(store.oldest_verified, log.topic, partition)
    if snapshot is None:
        return Trimmed(partition, "", begin, begin, f"{store.label} has no verified snapshot of it")
    try:
        to = kept_from(snapshot.usable(), log.partitions)
        await log.check(partition, snapshot.next_offset, snapshot.usable().fingerprint)
    except (SnapshotRefusedError, LogMismatchError) as error:
        return Trimmed(partition, snapshot.id, begin, begin, f"snapshot {snapshot.id} is not of this log: {error}")
    applied = applied_to(partition)
    to = max(begin, to if applied is None else min(to, applied))
    at = begin
    while at < to and not dry_run:
        if not await asyncio.to_thread(store.is_offered, snapshot):
            return Trimmed(partition, snapshot.id, begin, at, f"snapshot {snapshot.id} was withdrawn meanwhile")
        at = await log.trim(partition, min(to, at + _RECORDS_MAX))
        reached(Step.TRIMMED)
    return Trimmed(partition, snapshot.id, begin, to if dry_run else at)


async def give_back(log: EmbeddedLog | KafkaLog) -> int:
    """Make the log's file smaller by the room that was freed in it, a little at a time.

    Returns:
        By how many bytes the file has become smaller; Kafka's brokers do this by themselves.

    Raises:
        LogUnavailableError, LogMismatchError: it cannot be written. What was given back by then is.
    """
    given = 0
    while some := await log.give_back_some():
        given += some
        reached(Step.GAVE_BACK)
        await asyncio.sleep(_GIVE_BACK_PAUSE_SECONDS)
    return given


def kept_from(manifest: Manifest, partitions: int) -> int:
    """The first offset of the log that is kept for a snapshot: that of the record which it applied last.

    Raises:
        SnapshotRefusedError: it is of a topic with another number of partitions.
    """
    if manifest.partitions != partitions:
        raise SnapshotRefusedError(f"it is of a topic with {manifest.partitions} partitions, not {partitions}")
    if manifest.fingerprint is None:  # it has applied no record, so there is none to know the log by
        return 0
    return min(manifest.next_offset, RecordMark.parse(manifest.fingerprint[-MARK_BYTES:]).offset)

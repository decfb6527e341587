"""Deletes the snapshots that are not to be kept, by count and by age, and the files of those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ops.snapshot_settings import SnapshotSettings
from ops.snapshots.store import Listed, SnapshotStore
from slotlog.clock import now_ms

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000


def outlived(snapshots: Sequence[Listed], wall_ms: int, keep: int, keep_days: float) -> list[Listed]:
    """The snapshots of one partition to delete, the oldest first.

    The newest `keep` verified ones stay, and all that are younger than `keep_days`. One that is not verified goes with
    the verified ones of its age: it may be about to be verified. One that cannot be read stays, for an operator.

    Args:
        snapshots: all of one partition.
        wall_ms: wall time.
        keep: at least one.
        keep_days: 0: age keeps none.
    """
    by_position = sorted(snapshots, key=lambda each: each.order)
    verified = [each for each in by_position if each.is_verified]
    if len(verified) <= keep:
        return []
    first_kept = verified[-keep]
    return [
        each
        for each in by_position
        if each.manifest is not None
        and each.order < first_kept.order
        and wall_ms - each.modified_ms > keep_days * _DAY_MS
    ]


class Collected(NamedTuple):
    """The snapshots that were deleted, and how many files, with their bytes."""

    deleted: list[Listed]
    files: int
    size: int


def collect_all(store: SnapshotStore, topic: str, settings: SnapshotSettings) -> Collected:
    """Delete the snapshots of a topic that are not to be kept, and files that nobody has needed for long.

    Raises:
        SnapshotRefusedError: a manifest cannot be read, so that no file can be deleted.
        SnapshotStoreError: the store cannot be used.
    """
    deleted: list[Listed] = []
    for partition in store.partitions(topic):
        there = store.listed(topic, partition)
        for each in outlived(there, now_ms(), settings.keep, settings.keep_days):
            store.delete(each)
            deleted.append(each)
    files, size = store.collect(round(settings.grace_hours * _HOUR_MS))
    return Collected(deleted, files, size)

"""Part of `/status`: the snapshots of one partition, and the log that they let go."""

from __future__ import annotations

from typing import Any

from ingest.applying.partitions.owned_partition import OwnedPartition
from ops.snapshots.report import Restoring, SnapshotReport, Taking


def snapshot_status(report: SnapshotReport, owned: OwnedPartition) -> dict[str, Any]:
    """The newest snapshot, where the log begins, what a trim would delete now, and what is being done.

    Args:
        report: of the partition.
        owned: the partition.
    """
    newest = report.newest
    return {
        "newest_offset": None if newest is None else newest.next_offset,
        "newest_ms": None if newest is None else newest.taken_ms,
        "newest_verified": None if newest is None else newest.is_verified,
        "log_begin_offset": owned.begin_offset,
        "trimmable_offsets": _trimmable(report, owned),
        "failing": bool(report.error or report.trim_error),
        "running": _running(report.restoring, report.taking),
    }


def _trimmable(report: SnapshotReport, owned: OwnedPartition) -> int | None:
    """How many offsets `slotlog trim` would delete; None where it is not known, or there is no verified snapshot."""
    if report.kept_from is None or owned.begin_offset is None or owned.committed is None:
        return None
    return max(0, min(report.kept_from, owned.committed.next_offset) - owned.begin_offset)


def _running(restoring: Restoring | None, taking: Taking | None) -> dict[str, Any] | None:
    if restoring is not None:
        what = "restore" if restoring.id else "wait" if restoring.waits else "look"
        eta = restoring.eta_seconds
        seconds = None if eta is None else round(eta, 1)
        return {"what": what, "done_bytes": restoring.done, "total_bytes": restoring.total, "eta_seconds": seconds}
    if taking is not None:
        return {"what": taking.what, "done_bytes": taking.done, "total_bytes": taking.total, "eta_seconds": None}
    return None

"""The metrics of snapshots: their part of the catalog, and the reading of their values."""

from __future__ import annotations

from typing import Final

from ops.metrics.readings import Readings
from ops.metrics.record import Metric, MetricKind
from ops.snapshots.report import Restoring, SnapshotReport

_TAKING: Final = "once a snapshot"
_TRIMMING: Final = "every `snapshots.trim_seconds`"
_RESTORING: Final = "once a MiB that is fetched"
_MILLISECONDS: Final = 1000


def _metric(name: str, text: str, unit: str, source: str = _TAKING) -> Metric:
    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return Metric(f"slotlog_{name}", kind, text, unit, ("partition",), source)


SNAPSHOTS: Final = (
    _metric("snapshots_taken_total", "Snapshots that were taken and verified.", "snapshots"),
    _metric("snapshots_failed_total", "Attempts to take one that failed.", "attempts"),
    _metric("snapshots_failing", "Whether the last attempt failed: 1 or 0.", "1"),
    _metric("snapshots_uploaded_bytes_total", "Bytes of files that the store did not have before.", "bytes"),
    _metric("snapshot_size_bytes", "Bytes of all files of the last one taken.", "bytes"),
    _metric("snapshot_pause_seconds", "How long the last one held up the event loop.", "seconds"),
    _metric("snapshot_seconds", "How long the last one took, with upload and verification.", "seconds"),
    _metric("snapshot_next_offset", "Position of the newest verified one; 0: none is known.", "offset"),
    _metric("snapshot_timestamp_seconds", "When the newest verified one was taken; 0: none is known.", "seconds"),
    _metric("log_trimmed_total", "Offsets of the log that were deleted before snapshots.", "offsets", _TRIMMING),
    _metric("log_trim_failing", "Whether nothing could be deleted at the last attempt: 1 or 0.", "1", _TRIMMING),
    _metric(
        "log_aging_offsets",
        "Offsets past half of the topic's finite retention that no verified snapshot has.",
        "offsets",
        "every `identity_check_seconds`",
    ),
    _metric("snapshots_restored_total", "Times that the partition was restored from one.", "restores"),
    _metric("restore_done_bytes", "Bytes of the restore under way that are fetched.", "bytes", _RESTORING),
    _metric("restore_total_bytes", "Bytes of the restore under way; 0: there is none.", "bytes", _RESTORING),
    _metric("restore_waiting", "Whether a restore waits for the store of snapshots: 1 or 0.", "1", _RESTORING),
)


def read_snapshots(readings: Readings, partition: int, report: SnapshotReport) -> None:
    """What this process knows of one partition's snapshots."""
    restoring = report.restoring or Restoring()
    readings.add_all(
        {
            "snapshots_taken_total": report.taken,
            "snapshots_failed_total": report.failed,
            "snapshots_failing": bool(report.error),
            "snapshots_uploaded_bytes_total": report.new_bytes,
            "snapshot_size_bytes": report.size,
            "snapshot_pause_seconds": report.pause_seconds,
            "snapshot_seconds": report.seconds,
            "snapshot_next_offset": report.next_offset,
            "snapshot_timestamp_seconds": (report.taken_ms or 0) / _MILLISECONDS,
            "log_trimmed_total": report.trimmed,
            "log_trim_failing": bool(report.trim_error),
            "log_aging_offsets": report.aging,
            "snapshots_restored_total": report.restored,
            "restore_done_bytes": restoring.done,
            "restore_total_bytes": restoring.total,
            "restore_waiting": bool(restoring.waits),
        },
        str(partition),
    )

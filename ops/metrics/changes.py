"""The metrics of the change feed: their part of the catalog, and the reading of their values."""

from __future__ import annotations

from typing import Final, Protocol

from ops.metrics.readings import Readings
from ops.metrics.record import Metric, MetricKind

_SENT: Final = "once a batch of changes"

CHANGES: Final = (
    Metric(
        "slotlog_changes_told_total",
        MetricKind.COUNTER,
        "Changes that were added to the topic of changes.",
        "changes",
        ("partition",),
        _SENT,
    ),
    Metric(
        "slotlog_changes_lag_offsets",
        MetricKind.GAUGE,
        "Offsets that are applied and whose changes are not in the topic yet; 0 also without such a topic.",
        "offsets",
        ("partition",),
        _SENT,
    ),
    Metric(
        "slotlog_changes_failing",
        MetricKind.GAUGE,
        "Whether the last attempt to feed the topic of changes failed: 1 or 0.",
        "1",
        ("partition",),
        _SENT,
    ),
)


class ToldChanges(Protocol):
    """The change feed, as far as a scrape reads it."""

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        ...

    def told_of(self, partition: int) -> int:
        """Changes that were told since the start."""
        ...

    def lag_of(self, partition: int) -> int:
        """Offsets that are applied and not told; 0 where nothing is told."""
        ...


def read_changes(readings: Readings, partition: int, changes: ToldChanges) -> None:
    """What this process has told of one partition."""
    readings.add_all(
        {
            "changes_told_total": changes.told_of(partition),
            "changes_lag_offsets": changes.lag_of(partition),
            "changes_failing": changes.is_failing,
        },
        str(partition),
    )

"""What `/readyz` says of a partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """How one owned partition is; `ready` says whether it is applied and near the log's end."""

    partition: int
    condition: str
    ready: bool
    lag_events: int
    reason: str

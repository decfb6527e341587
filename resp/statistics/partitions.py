"""Figures of a worker's partitions, taken together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resp.writes.write_pipeline import WritePipeline


def applied_offsets(pipelines: Mapping[int, WritePipeline]) -> int:
    """How many offsets of the log are applied, all owned partitions together."""
    committed = [pipeline.owned.committed for pipeline in pipelines.values()]
    return sum(position.next_offset for position in committed if position is not None)


def key_counts(pipelines: Mapping[int, WritePipeline]) -> dict[int, int]:
    """Keys with a metadata record, due ones included, by logical database; of the partitions that are open."""
    counts: dict[int, int] = {}
    for pipeline in pipelines.values():
        if pipeline.owned.worker.is_open:
            for (db, _), count in pipeline.machine.key_counts.items():
                counts[db] = counts.get(db, 0) + count
    return counts

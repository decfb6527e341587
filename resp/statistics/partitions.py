"""Figures of a worker's partitions, taken together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

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


class ScriptFigures(NamedTuple):
    """Counts and sizes of scripts, functions and Lua.

    Attributes:
        scripts, script_bytes: how many scripts there are, and the size of their sources in all partitions.
        evicted: how many scripts that EVAL had brought were pushed out, since the partitions were opened.
        libraries, functions, library_bytes: the same of libraries, which are the same in each partition.
        lua_bytes: what the runtimes of all partitions have allocated.
    """

    scripts: int
    script_bytes: int
    evicted: int
    libraries: int
    functions: int
    library_bytes: int
    lua_bytes: int


def script_figures(pipelines: Mapping[int, WritePipeline]) -> ScriptFigures:
    """Of the partitions that are open."""
    machines = [pipeline.machine for pipeline in pipelines.values() if pipeline.owned.worker.is_open]
    scripts, libraries = [machine.kept[0] for machine in machines], [machine.kept[1] for machine in machines]
    known = scripts[0].by_sha.keys() if len(scripts) == 1 else {sha for one in scripts for sha in one.by_sha}
    return ScriptFigures(
        scripts=len(known),
        script_bytes=sum(one.bytes for one in scripts),
        evicted=sum(one.evicted for one in scripts),
        libraries=max((len(one.by_name) for one in libraries), default=0),
        functions=max((one.function_count for one in libraries), default=0),
        library_bytes=sum(one.bytes for one in libraries),
        lua_bytes=sum(machine.scripts.memory_bytes for machine in machines),
    )

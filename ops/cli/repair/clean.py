"""`slotlog clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StatePartitions,
    StateTopic,
    print_json,
    print_standings,
    reports_errors,
)
from slotlog.wording import counted, sized

if TYPE_CHECKING:
    from ops.state.repair.full_clean import CleanedState

CleanOwn = Annotated[
    str | None,
    typer.Option(
        "--own", help="Partitions to clean, such as 0-3.", metavar="LIST", show_default="those that are there"
    ),
]


@reports_errors
def clean(
    *,
    now: Annotated[bool, typer.Option("--now", help="Required: clean everything at once.")] = False,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: CleanOwn = None,
    json: Json = False,
) -> None:
    """Clean up the state of a stopped service at once, and print what was freed. A running service cleans by itself.

    It removes keys and fields that are expired by log time, and the elements of deleted collections. Then it rewrites
    all files in which something was deleted. No reply and no digest changes. Notes on stderr name partitions that are
    behind their log: more may expire when they have applied the rest.

    Example: slotlog clean --now --data .data
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings, presence
    from ops.state.repair.full_clean import clean_partition
    from ops.state.reports.standing import log_ends, standing_of

    if not now:
        raise typer.BadParameter(
            "a running service cleans by itself; to clean the state of a stopped one at once, give --now"
        )
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    here = presence(settings).here
    ends = log_ends(settings, here)
    results, standings = [], []
    for partition in here:
        result = clean_partition(settings, partition)
        results.append(result)
        standings.append(standing_of(settings, ends, partition, result.position.next_offset))
        if not json:
            print(_line(result))
    if json:
        facts = [{**_facts(result), **at.facts()} for result, at in zip(results, standings, strict=True)]
        print_json({"partitions": facts})
    print_standings(standings, ends)


def _line(result: CleanedState) -> str:
    gone = result.gone
    parts = [
        counted(gone.keys, "key"),
        counted(gone.fields, "field"),
        f"{counted(gone.records, 'element')} of {counted(gone.graves, 'dead collection')}",
    ]
    freed = result.freed_bytes  # RocksDB writes what is deleted before it has room again
    size = f"{sized(freed)} freed" if freed >= 0 else f"the state is {sized(-freed)} larger until it is compacted"
    return f"partition {result.partition}: {', '.join(parts)} removed; {size}"


def _facts(result: CleanedState) -> dict[str, Any]:
    return {
        "partition": result.partition,
        "next_offset": result.position.next_offset,
        "clock_ms": result.position.clock_ms,
        "keys": result.gone.keys,
        "fields": result.gone.fields,
        "collections": result.gone.graves,
        "elements": result.gone.records,
        "dedup_buckets": result.gone.dedup_buckets,
        "sessions": result.gone.sessions,
        "freed_bytes": result.freed_bytes,
    }

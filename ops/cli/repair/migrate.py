"""`slotlog migrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.options import Data, Json, StatePartitions, StateTopic, print_json, reports_errors
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.state.repair.migrate import MigratedState

MigrateOwn = Annotated[
    str | None,
    typer.Option(
        "--own", help="Partitions to migrate, such as 0-3.", metavar="LIST", show_default="those that are there"
    ),
]


@reports_errors
def migrate(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count these strings, also while a service runs.")
    ] = False,
    data: Data = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: MigrateOwn = None,
    json: Json = False,
) -> None:
    """Rewrite the strings that a stopped service's state still has in the form of Phase 1, and print how many.

    A state of `neokv1` becomes one of `neokv`. A service rewrites a string when it changes it. This command rewrites
    the others, and from then on no read looks for the old form. No reply and no digest changes. If it is interrupted,
    run it again: it continues with the strings that are left.

    Example: slotlog migrate --data .data
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings, presence
    from ops.state.repair.migrate import count_partition, migrate_partition

    settings = load_state_settings(data=data, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    results = []
    for partition in presence(settings).here:
        result = (count_partition if dry_run else migrate_partition)(settings, partition)
        results.append(result)
        if not json:
            print(_line(result, dry_run=dry_run))
    if json:
        strings = sum(result.strings for result in results)
        facts = [_facts(result) for result in results]
        print_json({"strings": strings, "dry_run": dry_run, "partitions": facts})


def _line(result: MigratedState, *, dry_run: bool) -> str:
    what = "to be moved to" if dry_run else "moved to"
    return f"partition {result.partition}: {counted(result.strings, 'string')} {what} {result.layout}"


def _facts(result: MigratedState) -> dict[str, Any]:
    return {
        "partition": result.partition,
        "next_offset": result.position.next_offset,
        "layout": result.layout,
        "strings": result.strings,
    }

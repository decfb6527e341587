"""`slotlog skip`."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.cli.options import Data, Json, LogUrl, StatePartitions, StateTopic, print_json, reports_errors


@reports_errors
def skip(
    partition: Annotated[int, typer.Argument(help="The partition that stopped.")],
    offset: Annotated[int, typer.Argument(help="The offset that /readyz and the log name.")],
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    json: Json = False,
) -> None:
    """Decide that a partition goes past the record that stopped it. The decision is kept in the state.

    A running service has let go of a stopped partition and goes on by itself within a minute. The record is neither
    applied nor a dead letter. `slotlog replay` with the same --data takes the decision over; `slotlog digest` lists it.

    Example: slotlog skip 0 4711 --data .data
    """
    from ops.recorded import load_state_settings
    from ops.state import record_skip

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    record_skip(settings, partition, offset)
    if json:
        print_json({"partition": partition, "offset": offset, "skipped": True})
    else:
        print(f"partition {partition} will go past offset {offset}")

"""`slotlog skip`."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.cli.options import Data, Json, LogUrl, StatePartitions, StateTopic, parse_offsets, print_json, reports_errors
from slotlog.wording import counted


@reports_errors
def skip(
    partition: Annotated[int, typer.Argument(help="The partition that stopped.")],
    offset: Annotated[
        str,
        typer.Argument(metavar="OFFSET|FIRST-LAST", help="The offset that /readyz names, or a range from there."),
    ],
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    json: Json = False,
) -> None:
    """Skip the record that stopped a partition, or several records. The state keeps the decision.

    A running service has released a stopped partition, and continues by itself within a minute. The record is neither
    applied nor stored as a dead letter. `slotlog replay` with the same --data skips it too. `slotlog digest` lists it.
    FIRST-LAST is for records that are lost together, as `slotlog check --log` names them. None of them is applied, even
    if one can be read. The log must have all of these offsets.

    Example: slotlog skip 0 4711 --data .data; slotlog skip 0 4711-4750
    """
    from ops.state.opening.directories import record_skip
    from ops.state.opening.recorded import load_state_settings
    from ops.state.reports.standing import refuse_beyond

    parsed = parse_offsets(offset)
    if parsed is None:
        raise typer.BadParameter(f"{offset!r} is neither an offset nor FIRST-LAST")
    begin, end = parsed
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    if end > begin + 1:
        refuse_beyond(settings, partition, end)
    record_skip(settings, partition, begin, end)
    if json:
        print_json({"partition": partition, "offset": begin, "last_offset": end - 1, "skipped": True})
    elif end == begin + 1:
        print(f"partition {partition} will go past offset {begin}")
    else:
        print(f"partition {partition} will go past offsets {begin} to {end - 1}: {counted(end - begin, 'record')}")

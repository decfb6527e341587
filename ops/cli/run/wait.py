"""`slotlog wait`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StatePartitions,
    StateTopic,
    print_json,
    print_note,
    reports_errors,
)
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings


@reports_errors
def wait(
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: Annotated[str | None, typer.Option(help="Partitions to wait for, such as 0-3.", show_default="all")] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Time limit.")] = 60,
    json: Json = False,
) -> None:
    """Wait until the state in a directory has applied all that the log has now.

    It also waits for a log or a state that does not exist yet. It does not wait for events that are appended meanwhile.
    After the timeout it prints what is missing, with exit code 1. It reads files and does not ask the service: /readyz
    says whether that serves Redis clients.

    Example: slotlog wait --data .data --timeout 120
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings
    from ops.state.reports.waiting import wait_until_applied

    def load() -> Settings:
        return load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)

    configure_logging(load().log_level)
    waited = wait_until_applied(load, timeout)
    done = not any(each.missing for each in waited)
    if json:
        facts = [
            {
                "partition": each.partition,
                "next_offset": each.next_offset,
                "log_end_offset": each.end_offset,
                "missing": each.missing,
            }
            for each in waited
        ]
        print_json({"applied": done, "partitions": facts})
    else:
        for each in waited:
            if each.missing:
                print_note(f"partition {each.partition}: {each.missing}")
            else:
                print(
                    f"partition {each.partition}: {each.applied} of {counted(each.end_offset or 0, 'offset')} applied"
                )
    if not done:
        if not json:
            print_note(f"not all is applied after {timeout:g} s")
        raise typer.Exit(1)

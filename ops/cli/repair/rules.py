"""`slotlog rules`: shows by which rules events are applied, and moves a log on to newer ones."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from engine.tables.system import RULES
from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StateOwn,
    StatePartitions,
    StateTopic,
    listed,
    print_json,
    print_note,
    reports_errors,
)

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def rules() -> None:
    """Show by which rules events are applied, and move a log on to newer ones.

    Example: slotlog rules show
    """


@app.command()
@reports_errors
def show(
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    json: Json = False,
) -> None:
    """Print the rules that each partition follows at the position of its state, and those that this slotlog knows.

    Example: slotlog rules show --data .data
    """
    from ops.logging import configure_logging
    from ops.state.recorded import load_state_settings, presence
    from ops.state.rules import rules_of

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    here, missing = presence(settings)
    found = rules_of(settings, here)
    if json:
        print_json({"known": RULES, "partitions": [each._asdict() for each in found], "missing": missing})
        return
    for each in found:
        print(f"partition {each.partition}: rules {each.rules}, before offset {each.next_offset}")
    print(f"this slotlog knows rules 1 to {RULES}")
    if missing:
        print_note(f"{settings.data} has no state of {listed('partition', missing)}")


@app.command(name="set")
@reports_errors
def set_(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The rules.")],
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    json: Json = False,
) -> None:
    """Make all partitions of a log follow newer rules, by an event in each of them.

    Events before it keep the outcome that they had, also at every replay. It cannot be taken back. Upgrade every worker
    first: one that does not know these rules stops at the event.

    Example: slotlog rules set 2
    """
    from ops.logging import configure_logging
    from ops.state.recorded import load_state_settings
    from ops.state.rules import move_on

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    moved = asyncio.run(move_on(settings, number))
    if json:
        print_json({"rules": number, "partitions": [each._asdict() for each in moved]})
        return
    for each in moved:
        print(f"partition {each.partition}: rules {number} from offset {each.offset} on")

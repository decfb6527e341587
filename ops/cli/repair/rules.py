"""`slotlog rules`: shows by which rules events are applied, and moves a log on to newer ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from engine.tables.system import RULES
from ops.cli.options import Json, listed, print_json, print_note, reports_errors, takes_state

if TYPE_CHECKING:
    from ops.config import Settings

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def rules() -> None:
    """Show by which rules events are applied, and move a log on to newer ones.

    Example: slotlog rules show
    """


@app.command()
@reports_errors
@takes_state(own=True)
def show(settings: Settings, *, json: Json = False) -> None:
    """Print the rules that each partition follows at the position of its state, and those that this slotlog knows.

    Example: slotlog rules show --data .data
    """
    from ops.state.clocks.rules import rules_of
    from ops.state.opening.recorded import presence

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
@takes_state()
def set_(
    settings: Settings,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The rules.")],
    *,
    json: Json = False,
) -> None:
    """Make all partitions of a log follow newer rules, by an event in each of them.

    Events before it keep the outcome that they had, also at every replay. It cannot be taken back. Upgrade every worker
    first: one that does not know these rules stops at the event.

    Example: slotlog rules set 2
    """
    from ops.state.clocks.rules import move_on

    moved = asyncio.run(move_on(settings, number))
    if json:
        print_json({"rules": number, "partitions": [each._asdict() for each in moved]})
        return
    for each in moved:
        print(f"partition {each.partition}: rules {number} from offset {each.offset} on")

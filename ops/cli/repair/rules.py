"""`slotlog rules`: shows by which rules events are applied, and moves a log on to newer ones."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from engine.tables.system import RULES
from ops.cli.options import Json, listed, print_json, print_note, reports_errors, takes_state

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.state.clocks.rules import Moved

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
    first: one that does not know these rules stops at the event. A partition that follows these rules already gets no
    event. If one follows newer rules, none gets an event, and the exit code is 1.

    Example: slotlog rules set 2
    """
    from ops.state.clocks.rules import move_on

    moved = asyncio.run(move_on(settings, number))
    if json:
        print_json({"rules": number, "partitions": [asdict(each) for each in moved]})
    else:
        for each in moved:
            print(f"partition {each.partition}: {_said(each, number)}")
    if unknown := [each.partition for each in moved if each.rules is None]:
        print_note(
            f"whether {listed('partition', unknown)} followed these or newer rules before is not known here:"
            " `slotlog rules show` where the state is tells what holds"
        )
    if any(each.rules is not None and each.rules > number for each in moved):
        raise typer.Exit(1)


def _said(one: Moved, number: int) -> str:
    if one.rules is None:
        return f"the event at offset {one.event_offset} asks for rules {number}"
    if one.offset is not None and one.offset == one.event_offset:
        return f"rules {number} from offset {one.offset} on"
    since = "" if one.offset is None else f", from offset {one.offset} on"
    if one.rules > number:
        return f"rules {one.rules}{since}; the event at offset {one.event_offset} is rejected"
    came = "" if one.event_offset is None else f"; the event at offset {one.event_offset} changes nothing"
    return f"rules {number} already{since}{came}"

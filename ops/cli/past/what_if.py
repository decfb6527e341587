"""`slotlog whatif`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.proof.digest import KEY
from ops.cli.options import Json, listed, print_json, print_note, reports_errors, takes_state
from ops.cli.past.items import item_facts, item_text, value_text
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.past.what_if import Otherwise, WhatIf

WITHOUT_HELP = (
    "Leave these events out: 120, 120-129, 1:120 (of partition 1), or all of which every FIELD=VALUE of a list (with"
    " commas) holds: key=PATTERN, command=NAME, id=PATTERN, meta.NAME=PATTERN, time=FROM..TO. May be repeated."
)


@reports_errors
@takes_state(own=True)
def what_if(
    settings: Settings,
    without: Annotated[list[str], typer.Option("--without", metavar="OFFSETS|FILTER", help=WITHOUT_HELP)],
    *,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Print up to N keys of each partition.")] = 100,
    json: Json = False,
) -> None:
    """Print the keys that would be different if some events had never been, with their values with and without them.

    Nothing is changed. Each partition is rebuilt in a scratch directory inside --data, up to the position of its state,
    without these events, and compared with the state. It begins with the newest verified snapshot before the first of
    them, if SLOTLOG_SNAPSHOTS__URL says where. A service may run meanwhile. `slotlog replay --without` builds such a
    state.

    Example: slotlog whatif --without 120-129; slotlog whatif --without 'meta.who=night job,key=user:*'
    """
    from ops.past.left_out import parse_choice
    from ops.past.what_if import what_if as compare
    from ops.state.opening.recorded import presence

    choice = parse_choice(without, settings.partitions)
    here, missing = presence(settings)
    results = [asyncio.run(compare(settings, partition, choice, count)) for partition in here]
    if json:
        print_json({"partitions": [_facts(each) for each in results], "missing": missing})
        return
    for each in results:
        _print(each)
    if missing:
        print_note(f"not looked at: {listed('partition', missing)}, of which {settings.data} has no state")


def _facts(one: WhatIf) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "next_offset": one.next_offset,
        "left_out": one.left_out.texts(),
        "differences": [_difference_facts(each) for each in one.differences],
        "more": not one.is_whole,
    }


def _difference_facts(one: Otherwise) -> dict[str, Any]:
    from ops.past.documents import value_as_json

    facts = item_facts(one.item)
    if one.item[2] == KEY:
        facts |= {"live": value_as_json(one.live), "without": value_as_json(one.without)}
    return facts


def _print(one: WhatIf) -> None:
    events = counted(sum(end - begin for begin, end in one.left_out), "offset")
    more = "" if one.is_whole else " at least"
    keys = counted(len(one.differences), "key")
    print(f"partition {one.partition}: without {events} of {one.next_offset},{more} {keys} would differ")
    for each in one.differences:
        print(f"  {item_text(each.item)}")
        if each.live is not None and each.without is not None:
            print(f"    live      {value_text(each.live)}")
            print(f"    without   {value_text(each.without)}")

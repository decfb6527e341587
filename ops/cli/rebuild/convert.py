"""`slotlog convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.layouts import LAYOUTS
from ops.cli.options import (
    Data,
    Index,
    Json,
    Processes,
    StateOwn,
    listed,
    print_json,
    print_note,
    reports_errors,
)
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.state.rebuilding.convert import Converted


_NewLayout = Annotated[
    str, typer.Option(metavar="NAME", help=f"On-disk encoding of the new state: {', '.join(LAYOUTS)}.")
]


@reports_errors
def convert(
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A new directory for the new state.")],
    layout: _NewLayout,
    data: Data = None,
    own: StateOwn = None,
    index: Index = None,
    processes: Processes = None,
    json: Json = False,
) -> None:
    """Write a state into a new directory in another layout, without the log.

    The new state has the same position and the same digest, and can go on from there. A service may run on the old
    state meanwhile. The two are compared at the end. If the command is killed before that, the new directory holds no
    state, and the same command begins anew. Elements of deleted collections are not copied. The embedded log stays
    where it is.

    Example: slotlog convert --data .data --layout kvrocks --to converted
    """
    from engine.proof.digest import combine
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings, presence
    from ops.state.rebuilding.convert import convert as run

    settings = load_state_settings(data=data, own=own)
    configure_logging(settings.log_level)
    here, missing = presence(settings)
    results = run(settings, here, to, layout, processes, index)
    total = combine(each.digest for each in results)
    if json:
        print_json(
            {
                "digest": str(total),
                "keys": total.keys,
                "layout": layout,
                "source_layout": settings.layout,
                "partitions": [_facts(each) for each in results],
                "missing": missing,
            }
        )
    else:
        for each in results:
            keys = counted(each.digest.keys, "key")
            print(f"partition {each.partition}: next offset {each.position.next_offset}, {keys}")
        print(f"{settings.layout}  {total}")
        print(f"{layout}  {total}  equal")
    if missing:
        print_note(f"{settings.data} has no state of {listed('partition', missing)}")
    _tell_log(settings, to)


def _facts(each: Converted) -> dict[str, Any]:
    return {
        "partition": each.partition,
        "next_offset": each.position.next_offset,
        "clock_ms": each.position.clock_ms,
        "digest": str(each.digest),
        "keys": each.digest.keys,
    }


def _tell_log(settings: Settings, to: Path) -> None:
    """Print where the log is, if it is the embedded one in the old state's directory."""
    file = settings.data / "log.sqlite3"
    if not settings.log and file.exists():
        print_note(f"the log stays in {file}: serve the new state with --data {to} --log sqlite:///{file}")

"""`slotlog clock`: what is wrong with time, and an operator's word on it."""

from __future__ import annotations

import asyncio

import typer

from ops.cli.options import Data, Json, print_json, reports_errors
from ops.config import load_settings

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def clock() -> None:
    """The time of this machine and of the log, and what to do when one of them is wrong.

    Example: slotlog clock agree
    """


@app.command()
@reports_errors
def agree(*, data: Data = None, json: Json = False) -> None:
    """Tell the running service that this machine's wall clock is right, after it was moved.

    Until then it appends nothing. Where the clock is set back to what it was, nobody has to agree.

    Example: slotlog clock agree --data .data
    """
    from ops.clocks import agree

    settings = load_settings(data=data)
    asyncio.run(agree(settings.data))
    if json:
        print_json({"agreed": True})
    else:
        print("the service takes the wall clock as right")

"""`slotlog clock`: shows what is wrong with time and records an operator's decision."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import Data, Json, listed, print_json, print_note, reports_errors, takes_state
from ops.config import ConfigError, Settings, load_settings

if TYPE_CHECKING:
    from ops.state.clocks.log_time import SetBack

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_Partition = Annotated[int, typer.Argument(help="The partition.")]


@app.callback()
def clock() -> None:
    """Show the time of the log and of this machine, and correct it when one of them is wrong.

    Example: slotlog clock show
    """


@app.command()
@reports_errors
def agree(*, data: Data = None, json: Json = False) -> None:
    """Confirm to the running service that this machine's wall clock is right, after it was moved.

    Until then the service appends nothing. If you set the clock back to what it was, you need not confirm it.

    Example: slotlog clock agree --data .data
    """
    from ops.state.clocks.guard import agree

    settings = load_settings(data=data)
    asyncio.run(agree(settings.data))
    if json:
        print_json({"agreed": True})
    else:
        print("the service takes the wall clock as right")


@app.command()
@reports_errors
@takes_state(own=True)
def show(settings: Settings, *, json: Json = False) -> None:
    """Print the log time of each partition, and which record waits because its time is in the future.

    Example: slotlog clock show --data .data
    """
    from ops.state.clocks.log_time import log_times

    seen = asyncio.run(log_times(settings))
    if json:
        print_json({"partitions": [asdict(each) for each in seen]})
        return
    for each in seen:
        ahead = f", {each.ahead_ms / 1000:.0f} s ahead of the wall clock" if each.ahead_ms > 0 else ""
        print(f"partition {each.partition}: clock {each.clock_ms} ms{ahead}")
        if each.held_ms:
            print(f"  offset {each.next_offset} is held: its time is {each.held_ms} ms")


@app.command()
@reports_errors
@takes_state()
def accept(settings: Settings, partition: _Partition, *, json: Json = False) -> None:
    """Accept the record from the future for which a partition waits, and all later records in the log.

    Every key that expires by that time is deleted. A running service continues within seconds. The decision is kept.

    Example: slotlog clock accept 0 --data .data
    """
    from ops.state.clocks.log_time import accept

    first, last = asyncio.run(accept(settings, partition))
    if json:
        print_json({"partition": partition, "first_offset": first, "last_offset": last})
    else:
        print(f"partition {partition} applies {listed('offset', sorted({first, last}))} with the times that they have")


@app.command(name="set")
@reports_errors
@takes_state()
def set_(
    settings: Settings,
    partition: _Partition,
    *,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="In ms since 1970, or as 2026-11-22T16:00:00+00:00.")
    ] = None,
    json: Json = False,
) -> None:
    """Set the clock of a partition and of the embedded log back to now, by an event in the log.

    First, all keys that are due by the old clock are deleted. Records from the future that wait, up to the end of the
    log, count as records of the new time. A running service continues within seconds. The exit code is 1 if the log
    gives even this event a time in the future.

    Example: slotlog clock set 0 --data .data
    """
    from ops.state.clocks.log_time import set_back

    done = asyncio.run(set_back(settings, partition, None if to is None else _moment_ms(to)))
    if json:
        print_json(asdict(done))
    else:
        _print_set_back(done)
    if done.ahead_ms:
        print_note(
            f"the log dates the event at offset {done.offset} {done.ahead_ms / 1000:.0f} s ahead of this machine's wall"
            " clock: what gives records their times, a broker or a producer, is still wrong, and partition"
            f" {partition} holds what comes. Set that clock right, then say `slotlog clock set {partition}` again"
        )
        raise typer.Exit(1)


def _print_set_back(done: SetBack) -> None:
    if done.offset >= 0:
        print(f"partition {done.partition}: the event at offset {done.offset} sets its clock back to {done.to_ms} ms")
    if done.retimed is not None:
        offsets = listed("offset", sorted(set(done.retimed)))
        print(f"partition {done.partition}: no record of {offsets} counts as later than {done.to_ms} ms")


def _moment_ms(text: str) -> int:
    """A time in ms, as `--to` has it."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--to {text!r} is neither milliseconds since 1970 nor a time such as 2026-11-22T16:00Z"
        ) from None
    return int(moment.astimezone().timestamp() * 1000)

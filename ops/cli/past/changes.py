"""`slotlog changes`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import print_json, reports_errors, takes_state
from ops.state.rebuilding.replay_plan import parse_until

if TYPE_CHECKING:
    from ops.changes.change import Change
    from ops.config import Settings
    from ops.state.rebuilding.replay_plan import Until


@reports_errors
@takes_state()
def changes(
    settings: Settings,
    *,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="OFFSET|TIME",
            help="Begin with this offset, or time: ISO 8601, or @ and ms since 1970.",
            show_default="the log's end",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after N changes.", show_default="never")
    ] = None,
) -> None:
    """Print the changes of keys that come, as lines of JSON, until Ctrl-C: what a topic of changes would get.

    A line has the key after the event, which commands changed it, and the event's partition and offset. It works on
    both logs, and as `slotlog tail` it needs no running service and rebuilds each partition first.

    Example: slotlog changes --from 2013-01-08T06:00:00Z --count 10
    """
    asyncio.run(_follow(settings, parse_until(begin, "--from"), count))


async def _follow(settings: Settings, begin: Until, count: int | None) -> None:
    """Until so many are printed."""
    from ops.changes.change import document
    from ops.changes.watching import Watching
    from ops.past.tail import follow

    left = count

    def tell(change: Change) -> None:
        nonlocal left
        if left == 0:
            return
        print_json(document(change, settings.changes.value_bytes_max))
        sys.stdout.flush()
        left = None if left is None else left - 1
        for each in watching:
            each.is_over = left == 0

    every = range(settings.partitions)
    watching = [Watching(partition, settings.changes.value_bytes_max, tell) for partition in every]
    tasks = [asyncio.create_task(follow(settings, partition, begin, watching[partition])) for partition in every]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

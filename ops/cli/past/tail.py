"""`slotlog tail`."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import reports_errors, takes_state
from ops.cli.past.touches import print_touch
from ops.reply_json import bytes_as_json
from ops.state.rebuilding.replay_plan import parse_until

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.past.history import Touch
    from ops.past.tail import Tail
    from ops.state.rebuilding.replay_plan import Until


@reports_errors
@takes_state()
def tail(
    settings: Settings,
    *,
    key: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Events alone that name or change a key like that, as in KEYS."),
    ] = None,
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
        int | None, typer.Option(min=1, metavar="N", help="End after N events.", show_default="never")
    ] = None,
) -> None:
    """Print the events that come, each with what came of it, as lines of JSON, until Ctrl-C.

    Each partition is rebuilt first as it was before the first event, in a scratch directory inside --data, from the
    newest verified snapshot before it, if SLOTLOG_SNAPSHOTS__URL says where, else from the log's first record. Then
    events are applied one by one. No running service is needed, and none is disturbed. Lines of several partitions
    come in the order in which they were applied here.

    Example: slotlog tail --key 'user:*' --from 2013-01-08T06:00:00Z --count 10
    """
    from engine.values.glob import key_matcher
    from ops.past.tail import Tail

    left = count

    def tell(partition: int, touch: Touch, changed: list[tuple[int, bytes]]) -> bool:
        nonlocal left
        if left == 0:
            return False
        keys = [{"db": db, "key": bytes_as_json(name)} for db, name in changed]
        print_touch(touch, keys=keys, partition=partition)
        sys.stdout.flush()
        left = None if left is None else left - 1
        return left != 0

    matches = None if key is None else key_matcher(os.fsencode(key))
    tails = [Tail(matches, partial(tell, each)) for each in range(settings.partitions)]
    asyncio.run(_follow(settings, parse_until(begin, "--from"), tails))


async def _follow(settings: Settings, begin: Until, tails: list[Tail]) -> None:
    """Until any of them is over."""
    from ops.past.tail import follow

    tasks = [asyncio.create_task(follow(settings, each, begin, tail)) for each, tail in enumerate(tails)]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        task.result()

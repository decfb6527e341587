"""`slotlog history`."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ops.cli.events.query import partitions_of
from ops.cli.options import Data, Database, Json, LogUrl, StatePartitions, StateTopic, print_note, reports_errors
from ops.cli.past.items import command_text
from ops.cli.past.touches import print_touch
from ops.cli.reply_text import as_text, moment_text, quoted
from ops.state.rebuilding.replay_plan import parse_until

if TYPE_CHECKING:
    from ops.past.history import Touch, Value

_NOTED_ELEMENTS: Final = 100_000
"""So many are read and printed in half a second. A hash that 20,000 events made field by field has 400 million."""

_ELEMENT_BYTES: Final = 20
"""Of a string, that count as an element."""


@reports_errors
def history(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key.")],
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    db: Database = 0,
    values: Annotated[bool, typer.Option("--values", help="Print the value before and after each event.")] = False,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The last N events.", show_default="all")
    ] = None,
    from_offset: Annotated[int, typer.Option("--from", min=0, metavar="OFFSET", help="No earlier events.")] = 0,
    until: Annotated[
        str | None,
        typer.Option(metavar="OFFSET|TIME", help="Stop before this offset, or time: ISO 8601, or @ and ms since 1970."),
    ] = None,
    json: Json = False,
) -> None:
    """Print each event that named or changed a key: when, what, and what came of it.

    The events that touch the key, and what they depend on, are applied anew, also while a service runs. An index in
    --data knows them, which the first time reads the log once. Where it cannot know, as with scripts, all events of the
    partition are applied, in a scratch directory inside --data. Where a trim has cut the log, the history begins with
    the newest snapshot, and a note on stderr says so. A key that expires does so without an event: the next one finds
    it gone. --values reads all of the key twice for each event, also with --count: of a large key begin --from a late
    offset.

    Example: slotlog history --values user:42
    """
    from ops.logging import configure_logging
    from ops.past.history import History
    from ops.past.narrow import walked_for
    from ops.state.opening.recorded import load_state_settings
    from ops.state.rebuilding.replay_plan import refuse_beyond_end

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    name = os.fsencode(key)
    (partition,) = partitions_of(settings, [name])
    end = parse_until(until)
    show = print_touch if json else _print
    kept: deque[Touch] = deque(maxlen=count)
    tell = _noting_the_cost(show if count is None else kept.append)
    watching = History(db, name, tell, from_offset=from_offset, values=values)

    async def walk() -> None:
        await refuse_beyond_end(settings, partition, from_offset)
        async with walked_for(settings, partition, end, watching.step, [name], from_snapshot=False) as past:
            for touch in kept:
                show(touch)
        if past.begin > from_offset and len(kept) != count:
            print_note(
                f"partition {partition} of the log begins at offset {past.log_begin}, so this history begins with the"
                f" snapshot before offset {past.begin}: earlier events are not in it"
            )

    asyncio.run(walk())


def _noting_the_cost(tell: Callable[[Touch], None]) -> Callable[[Touch], None]:
    """Say once that values take long, as soon as so much was read of them that there may be no end of it."""
    read = 0

    def noting(touch: Touch) -> None:
        nonlocal read
        before, read = read, read + _elements(touch.before) + _elements(touch.after)
        if before < _NOTED_ELEMENTS <= read:
            print_note(
                f"{read:,} elements were read up to offset {touch.offset}: --values reads all of the key before and"
                " after each event. If this takes too long, end it, find a late offset with --count and without"
                " --values, and begin --from there"
            )
        tell(touch)

    return noting


def _elements(value: Value | None) -> int:
    content = None if value is None else value.content
    if isinstance(content, bytes):
        return len(content) // _ELEMENT_BYTES
    return len(content) if isinstance(content, list) else 0


def _print(touch: Touch) -> None:
    named = f"  id {quoted(touch.event_id)}" if touch.event_id is not None else ""
    print(f"offset {touch.offset}  {moment_text(touch.time_ms)}{named}")
    print(f"  {command_text(touch.command)}")
    reply = touch.reply.decode() if touch.outcome == "dead letter" else "; ".join(as_text(touch.reply).split("\n"))
    print(f"  {touch.outcome}: {reply}" + ("" if touch.changed else "  (the key is as it was)"))
    if touch.before is not None and touch.after is not None:
        print(f"  before  {_value_text(touch.before)}")
        print(f"  after   {_value_text(touch.after)}")


def _value_text(value: Value) -> str:
    if value.type == b"none":
        return "(nil)"
    expires = f"  expires at {value.expire_ms} ms" if value.expire_ms >= 0 else ""
    return f"{value.type.decode()}  {'; '.join(as_text(value.content).split(chr(10)))}{expires}"

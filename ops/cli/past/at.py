"""`slotlog at`."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from engine.commands.registry import find_words
from engine.errors import CommandError
from ops.cli.events.query import partitions_of
from ops.cli.options import (
    Data,
    Database,
    Json,
    LogUrl,
    StatePartitions,
    StateTopic,
    print_json,
    print_note,
    reports_errors,
)
from ops.cli.reply_text import as_text, moment_text
from ops.reply_json import as_json
from ops.state.rebuilding.replay_plan import parse_until
from slotlog.shared.errors import EventError

if TYPE_CHECKING:
    from engine.values.replies import Reply
    from ops.config import Settings
    from ops.state.rebuilding.replay_plan import Until


@reports_errors
def at(
    when: Annotated[
        str,
        typer.Argument(
            metavar="OFFSET|TIME",
            help="Before this offset, or before the first record at this time: ISO 8601, or @ and ms since 1970.",
        ),
    ],
    command: Annotated[list[str], typer.Argument(metavar="CMD ARG…", help="A command that reads.")],
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    db: Database = 0,
    json: Json = False,
) -> None:
    """Run one read on the state as it was, also while a service runs.

    The events that touch the command's keys, and what they depend on, are applied in memory, up to that moment. An
    index in --data knows them, which the first time reads the log once. Where it cannot know, as with scripts or
    without keys, the partition is rebuilt in a scratch directory inside --data. It begins with the newest verified
    snapshot before that moment, if SLOTLOG_SNAPSHOTS__URL says where. The reply is that of the log's clock then.

    Example: slotlog at 2013-01-08T06:00:00Z ZRANGE departures:JFK 0 9
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings

    if command[0].startswith("--"):
        raise typer.BadParameter(f"there is no option {command[0]}")
    until = parse_until(when, "the moment")
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    reply = asyncio.run(_read(settings, until, [os.fsencode(word) for word in command], db))
    if json:
        print_json(as_json(reply))
    else:
        print(as_text(reply))


async def _read(settings: Settings, until: Until, words: list[bytes], db: int) -> Reply:
    """The reply of a reading command as of then.

    Raises:
        EventError, CommandError: the command is wrong, or fails. Others: as `walked`.
    """
    from ops.past.kept import keys_asked_for
    from ops.past.narrow import walked_for
    from ops.past.walk import apply_all

    spec, args = find_words(words)
    spec.check_arity(args)
    if spec.write:
        raise EventError(f"{spec.name.decode()} writes: the past cannot be changed")
    if spec.keyless and settings.partitions > 1:
        raise CommandError(f"ERR {spec.name.decode()} over several partitions: name a key")
    (partition,) = partitions_of(settings, spec.keys(args))
    keys = keys_asked_for(spec, args)
    async with walked_for(settings, partition, until, apply_all, keys, from_snapshot=True) as past:
        machine = past.machine
        print_note(
            f"partition {partition} before offset {machine.next_offset}, where the log's clock was"
            f" {moment_text(machine.clock_ms)}"
        )
        return machine.read(spec.name, args, db)

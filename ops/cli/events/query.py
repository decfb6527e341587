"""`slotlog query`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from engine.commands.registry import find_words
from engine.errors import CommandError
from engine.values.replies import Reply
from ops.cli.options import (
    Data,
    Database,
    Json,
    LogUrl,
    StateOwn,
    StatePartitions,
    StateTopic,
    listed,
    print_json,
    print_note,
    print_standings,
    reports_errors,
)
from ops.cli.reply_text import as_text
from ops.config import Settings
from ops.reply_json import as_json
from slotlog.shared.errors import CROSS_SLOT
from slotlog.shared.slots import partition_of, slot


@reports_errors
def query(
    command: Annotated[list[str], typer.Argument(metavar="CMD ARG…", help="A command that reads.")],
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    db: Database = 0,
    stale: Annotated[
        bool, typer.Option("--stale", help="Read also from a state that is behind its log and that nobody applies.")
    ] = False,
    json: Json = False,
) -> None:
    """Run one read on a state directory, by the state's own clock, also while a service runs on it.

    A state that is behind its log, and that no service here applies, may be out of date. Such a read is refused with
    exit code 1. If the log cannot be reached, a note on stderr says so. DBSIZE adds up the partitions in the directory.
    Options may stand anywhere. Words after -- belong to the command, even if they look like options.

    Example: slotlog query --data .data HGETALL user:1
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings

    if command[0].startswith("--"):
        raise typer.BadParameter(f"there is no option {command[0]}")
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    reply = run_query(settings, [os.fsencode(word) for word in command], db, stale=stale)
    if json:
        print_json(as_json(reply))
    else:
        print(as_text(reply))


def run_query(settings: Settings, command: list[bytes], db: int = 0, *, stale: bool = False) -> Reply:
    """The reply of one reading command, from the partition that holds its keys.

    Raises:
        ConfigError: the partition is not there, or behind its log, applied by nobody, and `stale` is not set.
        EventError, CommandError: the command is wrong, or fails.
    """
    from ops.state.opening.directories import reading
    from ops.state.reports.standing import log_ends, refuse_stale, standing_of

    spec, args = find_words(command)
    spec.check_arity(args)
    if spec.keyless and settings.partitions > 1 and spec.name != b"DBSIZE":
        raise CommandError(f"ERR {spec.name.decode()} over several partitions: ask the server with a Redis client")
    replies = []
    partitions = partitions_of(settings, spec.keys(args))
    ends = log_ends(settings, partitions)
    for partition in partitions:
        with reading(settings, partition) as (_, machine):
            standing = standing_of(settings, ends, partition, machine.next_offset)
            if not stale:
                refuse_stale(standing)
            print_standings([standing], ends)
            replies.append(machine.read(spec.name, args, db))
    return replies[0] if len(replies) == 1 else sum(replies)


def partitions_of(settings: Settings, keys: list[bytes]) -> list[int]:
    """The partition of the keys; every partition for a command without any (DBSIZE, which adds up)."""
    from ops.state.opening.recorded import presence

    slots = sorted({slot(key) for key in keys})
    if settings.partitions == 1:
        return [0]
    if len(slots) > 1:
        raise CommandError(CROSS_SLOT)
    if slots:
        return [partition_of(slots[0], settings.partitions)]
    here, missing = presence(settings)
    if missing:
        print_note(f"{settings.data} has no state of {listed('partition', missing)}")
    return here

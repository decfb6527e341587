"""`slotlog restore-key`."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from ops.cli.reply_text import quoted
from ops.reply_json import bytes_as_json
from ops.state.rebuilding.replay_plan import parse_until
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.past.undo import Selection, Undone
    from ops.state.rebuilding.replay_plan import Until


@reports_errors
def restore_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, or with --pattern a pattern such as KEYS takes.")],
    *,
    at: Annotated[
        str,
        typer.Option(
            metavar="OFFSET|TIME",
            help="As before this offset, or before the first record at this time: ISO 8601, or @ and ms since 1970.",
        ),
    ],
    pattern: Annotated[bool, typer.Option("--pattern", help="KEY is a pattern.")] = False,
    persist: Annotated[bool, typer.Option("--persist", help="Put keys back without their times to live.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Append nothing, and say what would be.")] = False,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    db: Database = 0,
    json: Json = False,
) -> None:
    """Put a key, or all that match a pattern, back as they were, by events that are appended.

    A key that was not there then is deleted. One whose time to live has passed since is not there afterwards, unless
    --persist is given. The log is never changed, so an undo can be undone. What others write to these keys meanwhile
    is overwritten. A large key comes in several events, between which readers see a part of it.

    Example: slotlog restore-key user:42 --at 2026-11-22T08:00:00Z --dry-run
    """
    from engine.values.glob import key_matcher
    from ops.logging import configure_logging
    from ops.past.undo import Selection, Undone
    from ops.state.opening.recorded import load_state_settings

    until = parse_until(at, "--at")
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    name = os.fsencode(key)
    selection = Selection(db, key_matcher(name) if pattern else name.__eq__, persist)
    undone = Undone()
    where = list(range(settings.partitions)) if pattern else partitions_of(settings, [name])
    asyncio.run(_undo(settings, where, until, selection, undone, dry_run=dry_run))
    if json:
        print_json(_facts(undone, dry_run=dry_run))
    else:
        _print(undone, dry_run=dry_run)
    if undone.left_out:
        raise typer.Exit(1)


async def _undo(
    settings: Settings, where: list[int], until: Until, selection: Selection, undone: Undone, *, dry_run: bool
) -> None:
    from ops.past.undo import undo

    for partition in where:
        await undo(settings, partition, until, selection, undone, dry_run=dry_run)


def _print(undone: Undone, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for name in undone.restored:
        print(f"{quoted(name)}  {would}put back" + (", and has expired since" if name in undone.expired else ""))
    for name in undone.deleted:
        print(f"{quoted(name)}  {would}deleted: it was not there then")
    for each in undone.left_out:
        print_note(f"{quoted(each.name)} is not put back: {each.reason}")
    print(f"{counted(undone.equal, 'key')} unchanged since, {counted(undone.events, 'event')} appended")


def _facts(undone: Undone, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "restored": [bytes_as_json(name) for name in undone.restored],
        "expired": [bytes_as_json(name) for name in undone.expired],
        "deleted": [bytes_as_json(name) for name in undone.deleted],
        "equal": undone.equal,
        "left_out": [{"key": bytes_as_json(each.name), "error": each.reason} for each in undone.left_out],
        "events": undone.events,
    }

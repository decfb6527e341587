"""`slotlog trim`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.keep.options import From, opened
from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StatePartitions,
    StateTopic,
    print_json,
    print_note,
    reports_errors,
)
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.snapshots.store import SnapshotStore
    from ops.snapshots.trimming import Trimmed


@reports_errors
def trim(
    *,
    url: From = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: Annotated[str | None, typer.Option(help="Partitions to trim, such as 0-3.", show_default="all")] = None,
    json: Json = False,
) -> None:
    """Delete the records of the log below the oldest verified snapshot of each partition, for ever.

    A service may run meanwhile. The record that the snapshot applied last is kept, as it proves that the log is the one
    of the snapshot, and so is what a state in --data has not applied yet. From then on a state can be rebuilt only from
    a snapshot. The exit code is 1 if a partition has no verified snapshot, or one of another log.

    Example: slotlog trim --from /mnt/snapshots --data .data
    """
    from ops.logging import configure_logging
    from ops.state.recorded import load_state_settings

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    results = asyncio.run(_trim(settings, opened(settings, url, "--from"), dry_run=dry_run))
    if json:
        print_json({"dry_run": dry_run, "partitions": [_facts(each) for each in results]})
    else:
        for each in results:
            _print(each, dry_run=dry_run)
    if any(each.trouble for each in results):
        raise typer.Exit(1)


async def _trim(settings: Settings, store: SnapshotStore, *, dry_run: bool) -> list[Trimmed]:
    from ops.snapshots.trimming import trim as run
    from ops.state.directories import applied_to
    from ops.state.replay_plan import opened as opened_log

    log = opened_log(settings)
    await log.start()
    try:
        return [
            await run(log, store, partition, lambda each: applied_to(settings, each), dry_run=dry_run)
            for partition in settings.owned
        ]
    finally:
        await log.close()


def _facts(each: Trimmed) -> dict[str, int | str]:
    return {
        "partition": each.partition,
        "snapshot": each.snapshot,
        "begin_offset": each.begin_offset,
        "trimmed_to": each.trimmed_to,
        "deleted": each.records,
        **({"error": each.trouble} if each.trouble else {}),
    }


def _print(each: Trimmed, *, dry_run: bool) -> None:
    said = f"{counted(each.records, 'record')} {'to be deleted' if dry_run else 'deleted'}"
    print(f"partition {each.partition}: {said}, the log begins at offset {each.trimmed_to}")
    if each.trouble:
        print_note(f"partition {each.partition}: {each.trouble}")

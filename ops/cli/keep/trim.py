"""`slotlog trim`."""

from __future__ import annotations

import asyncio
from pathlib import Path
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
from slotlog.wording import counted, sized

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.snapshots.store import SnapshotStore
    from ops.snapshots.trimming import Trimmed
    from slotlog.log import Log


@reports_errors
def trim(
    *,
    url: From = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Write the embedded log's file anew; no service may run.")
    ] = False,
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

    The file of the embedded log becomes smaller. One that an older slotlog made has to be written anew for that, once.

    Example: slotlog trim --from /mnt/snapshots --data .data
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    file = _rewritten(settings, dry_run=dry_run) if rewrite else None
    store = opened(settings, url, "--from")
    results, given = asyncio.run(_trim(settings, store, dry_run=dry_run, file=file))
    if json:
        print_json({"dry_run": dry_run, "partitions": [_facts(each) for each in results], "file_smaller_bytes": given})
    else:
        for each in results:
            _print(each, dry_run=dry_run)
        if given:
            print(f"the log's file is {sized(given)} smaller")
    if any(each.trouble for each in results):
        raise typer.Exit(1)


def _rewritten(settings: Settings, *, dry_run: bool) -> Path:
    """The file that is to be written anew.

    Raises:
        ConfigError: there is none, or nothing is to be changed.
    """
    from ops.config import ConfigError
    from slotlog.log import embedded_path

    if dry_run:
        raise ConfigError("--rewrite changes the file, --dry-run does not: leave one of them out")
    file = embedded_path(settings.log_url)
    if file is None:
        raise ConfigError(f"--rewrite is of the embedded log, and this one is {settings.log_url}")
    return file


async def _trim(
    settings: Settings, store: SnapshotStore, *, dry_run: bool, file: Path | None
) -> tuple[list[Trimmed], int]:
    """What became of each partition, and by how many bytes the log's file is smaller."""
    from ops.snapshots.trimming import give_back
    from ops.snapshots.trimming import trim as run
    from ops.state.opening.directories import applied_to
    from ops.state.rebuilding.replay_plan import opened as opened_log
    from slotlog.log.embedded.pages.free_pages import rewrite

    log = opened_log(settings)
    await log.start()
    try:
        if file is not None:
            await _refuse_beside_a_service(log)
        results = [
            await run(log, store, partition, lambda each: applied_to(settings, each), dry_run=dry_run)
            for partition in settings.owned
        ]
        if dry_run:
            return results, 0
        return results, await (give_back(log) if file is None else asyncio.to_thread(rewrite, file))
    finally:
        await log.close()


async def _refuse_beside_a_service(log: Log) -> None:
    from ops.config import ConfigError

    owners = await log.claims("slotlog trim --rewrite", ())
    if owners is None or owners:
        raise ConfigError("a service runs on this log, and could not append while its file is written anew: stop it")


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
    if each.records or not each.trouble:
        said = f"{counted(each.records, 'record')} {'to be deleted' if dry_run else 'deleted'}"
        print(f"partition {each.partition}: {said}, the log begins at offset {each.trimmed_to}")
    if each.trouble:
        print_note(f"partition {each.partition}: {each.trouble}")

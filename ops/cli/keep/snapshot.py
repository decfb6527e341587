"""`slotlog snapshot`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.keep.options import opened
from ops.cli.options import Data, Json, StateOwn, listed, print_json, print_note, reports_errors
from slotlog.wording import counted, sized

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.snapshots.store import SnapshotStore


@reports_errors
def snapshot(
    *,
    to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A directory or s3://BUCKET/PREFIX.", show_default="SLOTLOG_SNAPSHOTS__URL"),
    ] = None,
    data: Data = None,
    own: StateOwn = None,
    json: Json = False,
) -> None:
    """Take a snapshot of each partition of a state, also while a service runs on it, and verify it.

    A service that runs is asked to do it: it stands still for some milliseconds, and goes on during the upload.
    Only files that the store does not have are uploaded. Each snapshot is then restored into a scratch directory inside
    --data, and its digest is compared. Only then is it offered. Credentials of an S3 store come from AWS_ACCESS_KEY_ID
    and AWS_SECRET_ACCESS_KEY.

    Example: slotlog snapshot --data .data --to /mnt/snapshots
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings, presence

    settings = load_state_settings(data=data, own=own)
    configure_logging(settings.log_level)
    store = opened(settings, to, "--to", create=True)
    here, missing = presence(settings)
    results = [_take(settings, store, to or settings.snapshots.url, partition) for partition in here]
    if json:
        print_json({"snapshots": results, "missing": missing})
    else:
        for each in results:
            keys, size = counted(each["keys"], "key"), sized(each["bytes"])
            print(f"{each['id']}  {keys}, {size}, of which {sized(each['new_bytes'])} new; verified")
    if missing:
        print_note(f"{settings.data} has no state of {listed('partition', missing)}")


def _take(settings: Settings, store: SnapshotStore, url: str, partition: int) -> dict[str, Any]:
    """The snapshot of one partition: taken by the service that has it open, else by this process."""
    from ops.snapshots.requests import ask, is_in_use
    from ops.snapshots.scratch import Scratch
    from ops.snapshots.taking import facts_of, link_closed, take
    from ops.state.opening.directories import partition_path

    while True:
        # First: to try and open it would put a failure into RocksDB's log, which the service reads.
        if is_in_use(partition_path(settings.data, partition)):
            found = ask(settings.data, partition, url if "://" in url else str(Path(url).absolute()))
            if found is None:  # the service has ended meanwhile
                continue
            return found
        with Scratch(settings.data) as scratch:
            try:
                pause_seconds = link_closed(settings, scratch.directory, partition)
            except BlockingIOError:  # a service has just begun
                continue
            taken = take(store, settings, scratch.directory, partition)
            return {**facts_of(taken), "pause_seconds": round(pause_seconds, 6)}

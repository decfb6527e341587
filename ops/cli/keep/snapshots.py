"""`slotlog snapshots`: list, verify, delete, collect."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.keep.options import From, opened
from ops.cli.options import Data, Json, StateTopic, print_json, print_note, reports_errors
from ops.config import ConfigError, Settings
from slotlog.wording import counted, sized

if TYPE_CHECKING:
    from ops.snapshots.store import Listed, SnapshotStore

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_Partition = Annotated[
    int | None, typer.Option("--partition", min=0, metavar="N", help="Only snapshots of this partition.")
]
_Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="As `slotlog snapshots list` prints them.")]


@app.callback()
def snapshots() -> None:
    """List the snapshots of a topic, verify them, delete some, and free the space of those that are deleted.

    Example: slotlog snapshots list
    """


@app.command("list")
@reports_errors
def list_snapshots(
    *, partition: _Partition = None, url: From = None, data: Data = None, topic: StateTopic = None, json: Json = False
) -> None:
    """Print the snapshots of a topic, one per line, the oldest first, and whether each is verified.

    Example: slotlog snapshots list --from /mnt/snapshots
    """
    settings, store = _opened(url, data, topic)
    found = store.listed(settings.topic, partition)
    if json:
        from ops.snapshots.store import facts

        print_json([facts(each) for each in found])
        return
    if not found:
        print_note(_none_of(store, settings))
    for each in found:
        print(f"{each.id}  {_said(each)}")


@app.command()
@reports_errors
def verify(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID…]", help="Which; else all.")] = None,
    *,
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A directory with room for the largest of them.", show_default="--data"),
    ] = None,
    url: From = None,
    data: Data = None,
    topic: StateTopic = None,
    json: Json = False,
) -> None:
    """Restore snapshots into a scratch directory and compare their digests.

    One that passes is offered from then on. One that does not is offered no more, and the exit code is 1, as where
    there is none.

    Example: slotlog snapshots verify --from s3://backups/slotlog
    """
    from ops.snapshots.errors import SnapshotRefusedError
    from ops.snapshots.scratch import Scratch
    from ops.snapshots.verifying import verify as run

    settings, store = _opened(url, data, topic)
    there = store.listed(settings.topic)
    if not there and not ids:
        raise ConfigError(_none_of(store, settings))
    chosen = there if not ids else _chosen(there, ids)
    refused: dict[str, str] = {}
    for each in chosen:
        with Scratch(scratch or settings.data) as directory:
            try:
                run(store, each, settings, directory.directory)
            except SnapshotRefusedError as error:
                refused[each.id] = str(error)
        if not json:
            print(f"{each.id}  {'refused' if each.id in refused else 'verified'}")
    if json:
        print_json(
            [
                {"id": each.id, "verified": each.id not in refused}
                | ({"error": refused[each.id]} if each.id in refused else {})
                for each in chosen
            ]
        )
    else:
        for reason in refused.values():
            print_note(reason)
    if refused:
        raise typer.Exit(1)


@app.command()
@reports_errors
def delete(ids: _Ids, *, url: From = None, data: Data = None, topic: StateTopic = None, json: Json = False) -> None:
    """Delete snapshots. Their files stay until `slotlog snapshots collect` finds that no other snapshot has them.

    Example: slotlog snapshots delete 0/1200-8f14e45fceea167a --from /mnt/snapshots
    """
    settings, store = _opened(url, data, topic)
    chosen = _chosen(store.listed(settings.topic), ids)
    for each in chosen:
        store.delete(each)
    if json:
        print_json({"deleted": [each.id for each in chosen]})
    else:
        print(f"{counted(len(chosen), 'snapshot')} deleted")


@app.command()
@reports_errors
def collect(*, url: From = None, data: Data = None, topic: StateTopic = None, json: Json = False) -> None:
    """Delete the snapshots beyond those to keep, and the files that no snapshot has had for a grace period.

    SLOTLOG_SNAPSHOTS__KEEP, __KEEP_DAYS and __GRACE_HOURS say which. A service that takes snapshots does the same.

    Example: slotlog snapshots collect --from /mnt/snapshots
    """
    from ops.snapshots.keeping import collect_all

    settings, store = _opened(url, data, topic)
    done = collect_all(store, settings.topic, settings.snapshots)
    if json:
        print_json(
            {
                "deleted": [each.id for each in done.deleted],
                "deleted_files": done.files,
                "deleted_bytes": done.size,
            }
        )
        return
    for each in done.deleted:
        print(f"{each.id}  deleted")
    print(f"{counted(done.files, 'file')} deleted, {sized(done.size)}")


def _opened(url: str | None, data: Path | None, topic: str | None) -> tuple[Settings, SnapshotStore]:
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings

    settings = load_state_settings(data=data, topic=topic)
    configure_logging(settings.log_level)
    return settings, opened(settings, url, "--from")


def _none_of(store: SnapshotStore, settings: Settings) -> str:
    others = ", ".join(store.topics())
    return f"{store.label} has no snapshot of {settings.topic}" + (f", but of {others}" if others else "")


def _chosen(there: list[Listed], ids: list[str]) -> list[Listed]:
    by_id = {each.id: each for each in there}
    if unknown := [each for each in ids if each not in by_id]:
        raise ConfigError(f"there is no snapshot {', '.join(unknown)}; `slotlog snapshots list` prints those that are")
    return [by_id[each] for each in dict.fromkeys(ids)]


def _said(snapshot: Listed) -> str:
    manifest = snapshot.manifest
    if manifest is None:
        return f"cannot be used: {snapshot.trouble}"
    taken = datetime.fromtimestamp(manifest.taken_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    keys = counted(manifest.keys, "key")
    state = "verified" if snapshot.is_verified else "NOT verified"
    return f"{taken}  {manifest.layout}  {keys}, {sized(manifest.size)}  {state}"

"""Options and words that the verbs of snapshots share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ops.config import ConfigError, Settings

if TYPE_CHECKING:
    from ops.snapshots.store import SnapshotStore

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="URL",
        help="Where the snapshots are: a directory or s3://BUCKET/PREFIX.",
        show_default="SLOTLOG_SNAPSHOTS__URL",
    ),
]


def opened(settings: Settings, url: str | None, option: str, *, create: bool = False) -> SnapshotStore:
    """The store of snapshots that an option or the settings name; with `create` its directory is made.

    Raises:
        ConfigError: neither does, or it is no address.
        BadParameter: the option is empty.
        SnapshotStoreError: its directory is not there.
    """
    from ops.snapshots.objects import open_objects
    from ops.snapshots.store import SnapshotStore

    if url == "":
        raise typer.BadParameter(f"{option} has an empty address: name one, or leave the option out")
    address = url or settings.snapshots.url
    if not address:
        raise ConfigError(f"where are the snapshots? Set SLOTLOG_SNAPSHOTS__URL, or {option} URL")
    return SnapshotStore(open_objects(address, create=create))

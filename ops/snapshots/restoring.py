"""Restores a partition's state from a snapshot."""

from __future__ import annotations

from pathlib import Path

from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.snapshots.errors import SnapshotRefusedError
from ops.snapshots.files import Advance, fetch
from ops.snapshots.scratch import Scratch
from ops.snapshots.steps import Step, reached
from ops.snapshots.store import Listed, SnapshotStore
from ops.snapshots.verifying import refuse_full
from ops.state.opening.directories import partition_path
from slotlog.disk import make_directory, sync


def restore_partition(store: SnapshotStore, snapshot: Listed, to: Path, settings: Settings) -> None:
    """Put the state of a snapshot into a data directory, all at once, with progress.

    The checksum of each file is compared: they are those that had the digest when the snapshot was verified.

    Args:
        store: that has it.
        snapshot: verified.
        to: the data directory, which may not be there, and has nothing of this partition.
        settings: of the free space to leave.

    Raises:
        ConfigError: `to` has something of this partition.
        SnapshotRefusedError: the snapshot is not what it was when it was verified.
        SnapshotStoreError: the store cannot be used.
        OSError: it cannot be written.
    """
    target = partition_path(to, snapshot.partition)
    if target.exists():
        raise ConfigError(f"{target} is there already: a snapshot is restored where nothing is")
    make_directory(to)
    size = snapshot.usable().size
    with Scratch(to) as scratch, progress(f"restore partition {snapshot.partition}", size, "bytes") as advance:
        fetched = fetch_partition(store, snapshot, scratch.directory, settings, advance)
        fetched.rename(target)
        sync(to)
    reached(Step.IN_PLACE)


def fetch_partition(
    store: SnapshotStore, snapshot: Listed, directory: Path, settings: Settings, advance: Advance
) -> Path:
    """Fetch the state of a snapshot into a directory beside the place where it is to be, and return it.

    Raises:
        As `restore_partition`.
    """
    manifest = snapshot.usable()
    refuse_full(directory, manifest.size, settings.free_bytes_min)
    path = partition_path(directory, manifest.partition)
    try:
        fetch(store.objects, manifest, path, advance)
    except SnapshotRefusedError as error:
        raise SnapshotRefusedError(f"snapshot {snapshot.id}: {error}") from None
    return path

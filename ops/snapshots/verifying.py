"""Verifies snapshots: restores them beside everything else, and compares what they are with what they say."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from engine.errors import CorruptionError, StateMismatchError
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.snapshots.child import nobody
from ops.snapshots.errors import SnapshotRefusedError
from ops.snapshots.files import Advance, fetch
from ops.snapshots.manifest import Manifest, refusal
from ops.snapshots.steps import Step, reached
from ops.snapshots.store import Listed, SnapshotStore
from ops.state.opening.directories import digest_partition, partition_path
from slotlog.clock import now_ms
from slotlog.wording import sized

_PREFIX: Final = "verifying-"


def verify(
    store: SnapshotStore, snapshot: Listed, settings: Settings, scratch: Path, advance: Advance = nobody
) -> None:
    """Restore a snapshot into a scratch directory with progress, and offer it if it is what its manifest says.

    One that is offered and does not stand the test is offered no more.

    Args:
        store: that has it.
        snapshot: of it.
        settings: of memory, and of the free space to leave.
        scratch: an existing directory with room for it.
        advance: told how many bytes are fetched.

    Raises:
        SnapshotRefusedError: it is not what its manifest says, or cannot be read by this slotlog.
        SnapshotStoreError: the store cannot be used.
        OSError: the scratch directory has no room, or cannot be written.
    """
    manifest = snapshot.usable()
    if text := refusal(manifest, manifest.home):
        raise SnapshotRefusedError(f"snapshot {snapshot.id}: {text}")
    refuse_full(scratch, manifest.size, settings.free_bytes_min)
    try:
        with _directory(scratch) as directory:
            with progress(f"verify partition {manifest.partition}", manifest.size, "bytes") as shown:

                def both(done: int) -> None:
                    shown(done)
                    advance(done)

                fetch(store.objects, manifest, partition_path(directory, manifest.partition), both)
            check(manifest, directory, settings)
    except SnapshotRefusedError as error:
        if snapshot.is_verified:
            store.withdraw(snapshot)
        raise SnapshotRefusedError(f"snapshot {snapshot.id}: {error}") from None
    reached(Step.CHECKED)
    store.mark_verified(snapshot, now_ms())


def check(manifest: Manifest, data: Path, settings: Settings) -> None:
    """Compare a restored state with its manifest.

    Args:
        manifest: of the snapshot.
        data: the directory with the partition's.
        settings: of memory.

    Raises:
        SnapshotRefusedError: it is another state, stands elsewhere, has another digest, or cannot be read.
    """
    try:
        found, position = digest_partition(settings_of(manifest, data, settings), manifest.partition)
    except (CorruptionError, StateMismatchError, ConfigError) as error:
        raise SnapshotRefusedError(f"it cannot be read: {error}") from error
    said = (
        ("position", position.next_offset, manifest.next_offset),
        ("clock", position.clock_ms, manifest.clock_ms),
        ("rules", position.rules, manifest.rules),
        ("mark of the last record", position.fingerprint, manifest.fingerprint),
        ("digest", str(found), manifest.digest),
        ("number of keys", found.keys, manifest.keys),
    )
    for name, is_there, expected in said:
        if is_there != expected:
            raise SnapshotRefusedError(f"its {name} is {_text(is_there)}, its manifest says {_text(expected)}")


def settings_of(manifest: Manifest, data: Path, settings: Settings) -> Settings:
    """The settings with which a restored state is read: its own topic and layout."""
    changed = {
        "data": data,
        "topic": manifest.topic,
        "partitions": manifest.partitions,
        "layout": manifest.layout,
        "own": str(manifest.partition),
        "own_of": "",
    }
    return settings.model_copy(update=changed)


def refuse_full(directory: Path, size: int, free_bytes_min: int) -> None:
    """Refuse what would fill a disk.

    Raises:
        OSError: less than the reserve would be left.
    """
    free = shutil.disk_usage(directory).free
    if free - size < free_bytes_min:
        raise OSError(
            f"the disk of {directory} has {sized(free)} left; the snapshot needs {sized(size)}, and a reserve of"
            f" {sized(free_bytes_min)} stays free: make room"
        )


def _text(value: bytes | int | str | None) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


@contextmanager
def _directory(scratch: Path) -> Iterator[Path]:
    path = Path(mkdtemp(prefix=_PREFIX, dir=scratch))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)

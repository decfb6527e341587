"""The way of a database's files into a store of objects and out of it, each by its checksum."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import file_digest, sha256
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from ops.snapshots.errors import SnapshotRefusedError, SnapshotStoreError
from ops.snapshots.manifest import Manifest, SnapshotFile
from ops.snapshots.objects import Objects
from ops.snapshots.steps import Step, reached
from ops.snapshots.store import SnapshotStore
from slotlog.disk import sync

_NOT_OF_THE_STATE: Final = ("LOCK", "LOG", "IDENTITY", "rocksdict-config.json")
"""Files that whoever opens the database makes anew, or does without; `LOG.old.…` too."""

Advance = Callable[[int], None]
"""Told how many bytes are done in all."""


class Uploaded(NamedTuple):
    """The files of a snapshot, and the bytes of those that the store did not have before."""

    files: tuple[SnapshotFile, ...]
    new_bytes: int


def files_of(path: Path) -> list[Path]:
    """The files of a database that a snapshot of it has, in the order of their names."""
    return sorted(
        file
        for file in path.iterdir()
        if file.is_file() and file.name not in _NOT_OF_THE_STATE and not file.name.startswith("LOG.")
    )


def upload(store: SnapshotStore, path: Path, seconds_max: float, advance: Advance) -> Uploaded:
    """Bring into a store what it does not have of a database that nobody changes.

    Args:
        store: of snapshots.
        path: the directory of the database.
        seconds_max: half of the grace period: the manifest must be published by then.
        advance: told of the bytes.

    Raises:
        SnapshotStoreError: the store cannot be used, or it took too long.
    """
    until = monotonic() + seconds_max
    inventory = store.inventory()
    files: list[SnapshotFile] = []
    done = new_bytes = 0
    for file in files_of(path):
        size, found = _checksum(file)
        key = inventory.find(found)
        if key is None:
            key = inventory.add(found)
            store.objects.put_file(key, file)
            new_bytes += size
            reached(Step.UPLOADED_ONE)
        files.append(SnapshotFile(name=file.name, size=size, sha256=found, object=key))
        done += size
        advance(done)
        if monotonic() > until:
            raise SnapshotStoreError(
                f"{store.label}: the upload takes longer than {seconds_max:.0f} s, half of the grace period after which"
                " files that no snapshot names are deleted; set SLOTLOG_SNAPSHOTS__GRACE_HOURS higher, on every worker"
            )
    reached(Step.UPLOADED)
    return Uploaded(tuple(files), new_bytes)


def fetch(objects: Objects, manifest: Manifest, path: Path, advance: Advance) -> None:
    """Write the files of a snapshot into a new directory, and bring them to disk.

    Raises:
        SnapshotRefusedError: a file is missing, or is not what was uploaded.
        SnapshotStoreError: the store cannot be used.
        OSError: they cannot be written.
    """
    path.mkdir(mode=0o700)
    done = 0
    for file in manifest.files:
        done = _fetch_one(objects, file, path / file.name, done, advance)
    sync(path)
    reached(Step.FETCHED)


def _checksum(file: Path) -> tuple[int, str]:
    with file.open("rb") as opened:
        found = file_digest(opened, "sha256").hexdigest()
        return os.fstat(opened.fileno()).st_size, found


def _fetch_one(objects: Objects, file: SnapshotFile, path: Path, done: int, advance: Advance) -> int:
    chunks = objects.chunks(file.object)
    if chunks is None:
        raise SnapshotRefusedError(f"its file {file.name} is missing ({file.object})")
    found, size = sha256(), 0
    with path.open("xb") as target:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                break
            found.update(chunk)
            target.write(chunk)
            advance(done + size)
        target.flush()
        os.fsync(target.fileno())
    if size != file.size:
        more = "more" if size > file.size else f"{size}"
        raise SnapshotRefusedError(f"its file {file.name} has {more} bytes, not {file.size} ({file.object})")
    if found.hexdigest() != file.sha256:
        raise SnapshotRefusedError(f"its file {file.name} is damaged: it has another checksum ({file.object})")
    return done + size

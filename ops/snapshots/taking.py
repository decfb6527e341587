"""Takes snapshots: of a checkpoint, its digest and manifest, the upload, the verification."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import structlog

from engine.store.store import MaintainedStore
from engine.tables.system import FORMAT
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.snapshots.chain_heads import heads_in
from ops.snapshots.child import nobody
from ops.snapshots.files import files_of, upload
from ops.snapshots.manifest import Manifest
from ops.snapshots.report import Taking
from ops.snapshots.steps import Step, reached
from ops.snapshots.store import Listed, SnapshotStore, facts
from ops.snapshots.verifying import verify
from ops.state.chain.noting import noted_head
from ops.state.opening.directories import digest_partition, home_of, partition_path, store_opener
from ops.version import VERSION
from slotlog.clock import now_ms

logger = structlog.get_logger(__name__)

_HOUR_SECONDS: Final = 3600.0


class Taken(NamedTuple):
    """A snapshot that was taken.

    Attributes:
        snapshot: it is verified.
        manifest: of it.
        new_bytes: of the files that the store did not have before.
    """

    snapshot: Listed
    manifest: Manifest
    new_bytes: int


def facts_of(taken: Taken) -> dict[str, Any]:
    """A snapshot that was taken, for JSON."""
    return {**facts(taken.snapshot), "verified": True, "new_bytes": taken.new_bytes}


def refuse_indexed(settings: Settings) -> None:
    """Refuse a state that has its sorted sets in an index outside of it: a snapshot would not have them.

    Raises:
        ConfigError: it has.
    """
    if settings.index.get_secret_value():
        raise ConfigError(
            "a state whose sorted sets are in an index outside of it has no snapshots: they would lack the sorted sets"
        )


def link(store: MaintainedStore, directory: Path, partition: int) -> float:
    """Link the files of an open store into a directory: in the thread that writes to it, soon after `flush_all`.

    Args:
        store: of the partition.
        directory: gets the database as a data directory has it.
        partition: its number.

    Returns:
        The seconds for which it held up the process.

    Raises:
        OSError: it cannot be made.
    """
    began = perf_counter()
    store.checkpoint(str(partition_path(directory, partition)))
    seconds = perf_counter() - began
    reached(Step.LINKED)
    return seconds


def link_closed(settings: Settings, directory: Path, partition: int) -> float:
    """Likewise, of a state that no service has open.

    Raises:
        BlockingIOError: a service has it open.
        ConfigError, CorruptionError, StateMismatchError, OSError: it cannot be opened, or the links cannot be made.
    """
    refuse_indexed(settings)
    if not partition_path(settings.data, partition).is_dir():
        raise ConfigError(f"{settings.data} has no state of partition {partition}")
    store = store_opener(settings, settings.data)(partition)
    try:
        store.flush_all()
        return link(store, directory, partition)
    finally:
        store.close()


def take(
    store: SnapshotStore,
    settings: Settings,
    directory: Path,
    partition: int,
    tell: Callable[[Taking], None] = nobody,
) -> Taken:
    """Describe a checkpoint, upload and publish it, and verify what was published. The checkpoint stays.

    Args:
        store: where it goes.
        settings: of the state; and how long an upload may take.
        directory: with the checkpoint, and room for another one.
        partition: its number.
        tell: told how far it is.

    Raises:
        SnapshotRefusedError: what was published cannot be restored.
        SnapshotStoreError: the store cannot be used.
        CorruptionError, StateMismatchError, OSError: the checkpoint cannot be read.
    """
    tell(Taking("read"))
    of_checkpoint = settings.model_copy(update={"data": directory})
    digest, position = digest_partition(of_checkpoint, partition)
    reached(Step.DESCRIBED)
    elsewhere = partial(heads_in, store, settings.topic)
    chain = noted_head(settings, partition, position.next_offset, elsewhere, keep=True)
    if chain.unknown:
        logger.warning("chain_unknown", partition=partition, offset=position.next_offset, reason=chain.unknown)
    path = partition_path(directory, partition)
    size = sum(file.stat().st_size for file in files_of(path))
    with progress(f"upload partition {partition}", size, "bytes") as shown:

        def advance(done: int) -> None:
            shown(done)
            tell(Taking("upload", done, size))

        uploaded = upload(store, path, settings.snapshots.grace_hours * _HOUR_SECONDS / 2, advance)
    home = home_of(settings, partition)
    manifest = Manifest(
        slotlog=VERSION,
        topic=home.topic,
        partition=partition,
        partitions=home.partitions,
        layout=home.layout,
        format=FORMAT,
        rules=position.rules,
        next_offset=position.next_offset,
        clock_ms=position.clock_ms,
        fingerprint=position.fingerprint,
        digest=str(digest),
        keys=digest.keys,
        chain=chain.text,
        taken_ms=now_ms(),
        files=uploaded.files,
    )
    snapshot = store.publish(manifest)
    verify(store, snapshot, settings, directory, lambda done: tell(Taking("verify", done, manifest.size)))
    return Taken(snapshot, manifest, uploaded.new_bytes)

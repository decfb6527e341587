"""Heads of the log's hash chain that stand in the manifests of snapshots."""

from __future__ import annotations

from collections.abc import Iterator

from ops.config import Settings
from ops.snapshots.objects import open_objects
from ops.snapshots.store import SnapshotStore
from ops.state.chain.kept_heads import Head
from ops.state.chain.walking import HeadsElsewhere


def heads_in(store: SnapshotStore, topic: str, partition: int) -> Iterator[Head]:
    """The heads in a store, by position. Raises SnapshotStoreError: it cannot be asked."""
    for snapshot in store.listed(topic, partition):
        if snapshot.manifest is not None and snapshot.manifest.chain is not None:
            yield Head(snapshot.manifest.next_offset, bytes.fromhex(snapshot.manifest.chain))


def heads_of(settings: Settings) -> HeadsElsewhere:
    """Gives the heads in the store that the settings name; none, where they name none.

    Who asks them gets a SnapshotStoreError where the store cannot be asked.
    """
    url = settings.snapshots.url
    if not url:
        return lambda _partition: ()
    return lambda partition: heads_in(SnapshotStore(open_objects(url, create=False)), settings.topic, partition)

"""Begins a replay with a snapshot, where the log was cut or an operator wants it."""

from __future__ import annotations

from ops.config import ConfigError, Settings
from ops.snapshots.choosing import Wanted, choose
from ops.snapshots.errors import SnapshotRefusedError
from ops.snapshots.objects import open_objects
from ops.snapshots.restoring import restore_partition
from ops.snapshots.store import SnapshotStore
from ops.state.opening.directories import home_of
from ops.state.rebuilding.replay_plan import Gap


def start_from_snapshot(target: Settings, gap: Gap) -> int:
    """Put the newest snapshot into `target` that the log reaches, and that lies before the end of the replay.

    Returns:
        The offset before which it has applied everything.

    Raises:
        ConfigError: there is none; the message says why each is not taken.
        SnapshotStoreError: the store cannot be asked.
    """
    cut = f"partition {gap.partition} of the log begins at offset {gap.begin}, so a replay has to start from a snapshot"
    if not gap.begin:
        cut = f"the replay of partition {gap.partition} is to start from a snapshot"
    if not target.snapshots.url:
        raise ConfigError(f"{cut}: say where they are, SLOTLOG_SNAPSHOTS__URL=DIR or s3://BUCKET/PREFIX")
    store = SnapshotStore(open_objects(target.snapshots.url, create=False))
    wanted = Wanted(home_of(target, gap.partition), gap.end, gap.time_ms, gap.begin)
    good, others = choose(store.listed(target.topic, gap.partition), wanted)
    reasons = [f"{snapshot.id}: {reason}" for snapshot, reason in others]
    for snapshot in good:
        try:
            restore_partition(store, snapshot, target.data, target)
        except SnapshotRefusedError as error:
            reasons.append(f"{snapshot.id}: {error}")
            continue
        return snapshot.next_offset
    raise ConfigError(f"{cut}, and none in {store.label} will do ({'; '.join(reasons) or 'there is none'})")

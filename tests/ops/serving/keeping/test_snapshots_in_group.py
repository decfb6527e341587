"""Snapshots of partitions that a group gives to a worker and takes from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ingest.applying.partitions.live_partitions import LivePartitions
from ingest.membership.plan import Role
from ops.config import load_settings
from ops.serving.keeping import snapshots as serving
from ops.serving.keeping.snapshots import Snapshots
from ops.snapshots.objects import open_objects
from ops.snapshots.report import SnapshotReport
from ops.snapshots.store import SnapshotStore
from tests.ops.snapshots.test_manifest import manifest

PARTITIONS = 4


class Worker:
    """A worker of a group, without its log: what it applies and owns is set by the test.

    Args:
        directory: of the test.
    """

    def __init__(self, directory: Path, **snapshots: Any) -> None:
        self.store = SnapshotStore(open_objects(str(directory / "store")))
        settings = load_settings(data=directory, topic="orders", partitions=PARTITIONS)
        given = settings.snapshots.model_copy(update={"url": str(directory / "store"), **snapshots})
        self.every: dict[int, Any] = {each: Mock(role=Role.NONE, snapshot_offset=0) for each in range(PARTITIONS)}
        self._applied = LivePartitions(self.every, {Role.OWNER, Role.FOLLOWER})
        self._owned = LivePartitions(self.every, {Role.OWNER})
        self.reports = {each: SnapshotReport() for each in range(PARTITIONS)}
        self.snapshots = Snapshots(
            settings.model_copy(update={"snapshots": given}), self._applied, self._owned, lambda _: 0, self.reports
        )

    def assume(self, **roles: Role) -> None:
        """Take roles, by `pPARTITION`."""
        for name, role in roles.items():
            self.every[int(name[1:])].role = role
        self._applied.refresh()
        self._owned.refresh()

    def publish(self, partition: int, next_offset: int) -> None:
        """What another worker does."""
        made = self.store.publish(manifest(partition=partition, next_offset=next_offset, fingerprint=None))
        self.store.mark_verified(made, 0)

    def known(self) -> list[int | None]:
        """The positions that the partitions' watch and alerts go by."""
        return [each.snapshot_offset for each in self.every.values()]


async def test_what_others_took_is_known_at_once(tmp_path: Path) -> None:
    """Of what it owns and of what it follows, as soon as it does: a log that they cut has lost nothing."""
    worker = Worker(tmp_path)
    worker.publish(1, 100)
    worker.publish(2, 200)
    worker.assume(p1=Role.FOLLOWER)
    await worker.snapshots._look()
    followed = worker.known()
    worker.publish(1, 150)
    worker.assume(p1=Role.OWNER, p2=Role.FOLLOWER, p3=Role.OWNER)
    await worker.snapshots._look()

    assert [None, 100, None, None] == followed
    assert [None, 150, 200, 0] == worker.known()
    assert [0, 150, 200, 0] == [report.next_offset for report in worker.reports.values()]


async def test_the_owner_takes_them_by_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers take none, and a new owner counts from the newest one of its predecessor."""
    taken: list[int] = []

    async def take(_snapshots: Snapshots, partition: int, _url: str) -> None:
        taken.append(partition)

    async def collect(*_: object) -> None:
        """Nothing is to be collected."""

    monkeypatch.setattr(Snapshots, "_try", take)
    monkeypatch.setattr(serving, "in_child", collect)
    worker = Worker(tmp_path, events=50)
    for each in worker.every.values():
        each.worker.is_open, each.worker.machine.position.next_offset = True, 120
    worker.publish(0, 100)
    worker.publish(1, 60)
    worker.assume(p0=Role.OWNER, p1=Role.OWNER, p2=Role.FOLLOWER, p3=Role.OWNER)
    await worker.snapshots._look()
    before = list(taken)
    worker.publish(2, 110)
    worker.assume(p1=Role.NONE, p2=Role.OWNER, p3=Role.FOLLOWER)
    await worker.snapshots._look()

    assert ([1, 3], [1, 3]) == (before, taken)


async def test_what_failed_is_the_next_owners(tmp_path: Path) -> None:
    """A worker that gave a partition up says no more that its last attempt failed; an outage that ended is over."""
    worker = Worker(tmp_path)
    worker.assume(p0=Role.OWNER, p1=Role.OWNER)
    await worker.snapshots._look()
    worker.reports[0].error = worker.reports[1].error = "the disk was full"
    worker.assume(p0=Role.FOLLOWER)
    await worker.snapshots._look()
    given_up = [report.error for report in worker.reports.values()]
    (tmp_path / "store").rename(tmp_path / "away")
    (tmp_path / "store").write_text("no directory")
    worker.snapshots._learn_at = 0.0
    await worker.snapshots._look()
    away = [bool(report.error) for report in worker.reports.values()]
    (tmp_path / "store").unlink()
    worker.snapshots._learn_at = 0.0
    await worker.snapshots._look()

    assert ["", "the disk was full", "", ""] == given_up
    assert [False, True, False, False] == away
    assert [""] * PARTITIONS == [report.error for report in worker.reports.values()]

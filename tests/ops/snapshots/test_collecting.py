"""Files are collected beside uploads: no published snapshot ever lacks one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from greenlet import getcurrent, greenlet

from ops.snapshots import files
from ops.snapshots.errors import SnapshotRefusedError, SnapshotStoreError
from ops.snapshots.files import upload
from ops.snapshots.keeping import outlived
from ops.snapshots.objects import Stored
from ops.snapshots.store import Listed, SnapshotStore
from tests.ops.snapshots.stores import MemoryObjects
from tests.ops.snapshots.test_manifest import manifest

GRACE_MS = 100_000
STEP_MS = 3000
STEPS = 1000
RUNS = 25
CONTENTS = "abcd"


class Interleaved(MemoryObjects):
    """Objects whose every use lets others go on first."""

    def _pause(self) -> None:
        parent = getcurrent().parent
        if parent is not None:
            parent.switch()

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self._pause()
        super().put(key, data)

    def get(self, key: str) -> bytes | None:
        """The bytes of an object."""
        self._pause()
        return super().get(key)

    def listed(self, prefix: str) -> Iterator[Stored]:
        """All objects below `prefix`."""
        self._pause()
        return iter(list(super().listed(prefix)))

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._pause()
        super().delete(key)


class World:
    """Workers that upload, delete and collect in one store, a step of one of them at a time."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.choose = random.Random(seed)
        self.objects = Interleaved()
        self.store = SnapshotStore(self.objects)
        self.directory = directory
        self.position = 0
        self.published: list[Listed] = []
        self.given_up = self.collected = 0

    def upload(self) -> None:
        """Take a snapshot of some contents, unless it takes too long."""
        self.position += 1
        path = self.directory / str(self.position)
        path.mkdir()
        for name in ("CURRENT", "1.sst", "2.sst", "3.sst"):
            (path / name).write_text(self.choose.choice(CONTENTS))
        position = self.position
        try:
            found = upload(self.store, path, GRACE_MS / 2000, lambda done: None)
        except SnapshotStoreError:
            self.given_up += 1
            return
        self.published.append(self.store.publish(manifest(next_offset=position, files=found.files)))

    def delete(self) -> None:
        """Delete a snapshot."""
        if self.published:
            self.store.delete(self.published.pop(self.choose.randrange(len(self.published))))

    def collect(self) -> None:
        """Collect what nobody needs."""
        self.collected += self.store.collect(GRACE_MS)[0]

    def run(self) -> None:
        """Let them go on in any order; after each step every published snapshot has its files."""
        running: list[greenlet] = []
        jobs: tuple[Callable[[], None], ...] = (self.upload, self.upload, self.delete, self.delete, self.collect)
        for _ in range(STEPS):
            if len(running) < 4:
                running.append(greenlet(self.choose.choice(jobs)))
            chosen = self.choose.choice(running)
            chosen.switch()
            running = [each for each in running if not each.dead]
            self.objects.now_ms += self.choose.randrange(STEP_MS)
            missing = [
                (snapshot.id, file.object)
                for snapshot in self.published
                for file in snapshot.usable().files
                if file.object not in self.objects.contents
            ]
            assert [] == missing


@pytest.mark.damaging
def test_no_snapshot_loses_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However uploads, deletions and collections meet, what is published is whole; and files are collected."""
    given_up = collected = published = 0
    for seed in range(RUNS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        world = World(seed, directory)
        monkeypatch.setattr(files, "monotonic", lambda world=world: world.objects.now_ms / 1000)
        world.run()
        given_up, collected = given_up + world.given_up, collected + world.collected
        published += world.position - world.given_up

    assert (True, True, True) == (given_up > 0, collected > RUNS, published > RUNS)


def test_a_manifest_that_cannot_be_read_keeps_all_files() -> None:
    """Nothing is collected then, and the error says which snapshot it is and how to delete it."""
    objects = MemoryObjects()
    store = SnapshotStore(objects)
    snapshot = store.publish(manifest())
    objects.put("files/" + "00" * 32 + ".00000000", b"nobody needs it")
    objects.put(f"{snapshot.key}.json", b"{}")
    objects.now_ms += 2 * GRACE_MS

    with pytest.raises(SnapshotRefusedError, match=f"slotlog snapshots delete {snapshot.id}"):
        store.collect(GRACE_MS)
    assert "condemned/" + "00" * 32 + ".00000000" not in objects.contents


def test_outlived_snapshots() -> None:
    """The newest verified ones stay, and younger ones, and unverified ones that are newer; unreadable ones stay too."""
    day_ms = 86_400_000

    def listed(offset: int, verified: bool = True, readable: bool = True) -> Listed:
        made = manifest(next_offset=offset)
        return Listed(
            "t", 0, offset, str(offset), offset * day_ms, "", made if readable else None, verified and readable, ""
        )

    there = [listed(1), listed(2, verified=False), listed(3), listed(4, readable=False), listed(5), listed(6, False)]

    def gone(keep: int, keep_days: float) -> list[int]:
        return [each.next_offset for each in outlived(there, 10 * day_ms, keep, keep_days)]

    assert [1, 2, 3] == gone(1, 0)
    assert [1, 2] == gone(2, 0)
    assert [] == gone(3, 0) == gone(4, 0)
    assert [1, 2] == gone(1, 7)

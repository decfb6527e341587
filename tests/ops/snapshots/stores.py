"""Objects in memory, with a clock that the test moves; and states to take snapshots of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ops.snapshots.objects import Stored
from ops.snapshots.scratch import Scratch
from ops.snapshots.store import SnapshotStore
from ops.snapshots.taking import Taken, link_closed, take
from ops.state.opening.recorded import load_state_settings
from tests.ops.verbs import succeed, write_lines


class MemoryObjects:
    """Objects in a dict. `now_ms` is the store's clock."""

    label = "memory"

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.contents: dict[str, tuple[bytes, int]] = {}

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self.contents[key] = (data, self.now_ms)

    def put_file(self, key: str, path: Path) -> None:
        """Write an object with the contents of a file."""
        self.put(key, path.read_bytes())

    def get(self, key: str) -> bytes | None:
        """The bytes of an object."""
        return self.contents[key][0] if key in self.contents else None

    def chunks(self, key: str) -> Iterator[bytes] | None:
        """The bytes of an object, in pieces."""
        data = self.get(key)
        return None if data is None else iter([data])

    def listed(self, prefix: str) -> Iterator[Stored]:
        """All objects below `prefix`."""
        there = [(key, *each) for key, each in self.contents.items() if key.startswith(f"{prefix}/")]
        yield from (Stored(key, len(data), modified_ms) for key, data, modified_ms in there)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self.contents.pop(key, None)


def state_of(directory: Path, events: list[dict[str, Any]], partitions: int = 1) -> Path:
    """A state that has applied the events, beside its log."""
    data = directory / "data"
    succeed("produce", write_lines(directory / "events", events), "--data", data, "--partitions", partitions)
    apply(data, directory / "built", partitions)
    return data


def apply(data: Path, built: Path, partitions: int = 1) -> None:
    """Put a state that has applied all of the log in the place of the one that was there."""
    succeed("replay", "--data", data, "--to", built, "--partitions", partitions)
    for partition in range(partitions):
        there = data / str(partition)
        if there.exists():
            there.rename(built / f"old-{partition}")
        (built / str(partition)).rename(there)


def snapshot_of(store: SnapshotStore, data: Path) -> Taken:
    """A snapshot of partition 0 of a state."""
    settings = load_state_settings(data=data)
    with Scratch(data) as scratch:
        link_closed(settings, scratch.directory, 0)
        return take(store, settings, scratch.directory, 0)

"""One partition's disk, and the store that a process opens on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from engine.errors import StoreBusyError, StoreFullError
from engine.store.memory import MemoryStore
from engine.store.store import SHARED_CFS, SYSTEM_CF, Changes, Get
from engine.values.encoding import parse_u64
from tests.layouts import column_families
from tests.simulation.world import INJECTED, InjectedError, World

FAMILIES: Final = column_families()


class Disk:
    """What is kept of one partition.

    Attributes:
        live: what the running process, and the next one after a mere kill, see.
        holder: the process that has it open, 0 for none.
    """

    def __init__(self) -> None:
        self.live = MemoryStore(FAMILIES)
        self.holder = 0
        self._durable = MemoryStore(FAMILIES)
        self._unsynced: list[Changes] = []

    @property
    def next_offset(self) -> int:
        """The position that was written."""
        written = self.live.getter(SYSTEM_CF)(b"next_offset")
        return 0 if written is None else parse_u64(written)

    def write(self, changes: Changes) -> None:
        """One batch, visible at once, durable some time later."""
        self.live.write(changes)
        self._unsynced.append(changes)

    def sync(self) -> None:
        """Everything so far is durable."""
        for changes in self._unsynced:
            self._durable.write(changes)
        self._unsynced = []

    def cut_power(self, kept: Callable[[int], int]) -> None:
        """Lose what is not durable but for the first `kept(n)` of its n batches."""
        self._unsynced = self._unsynced[: kept(len(self._unsynced))]
        self.sync()
        self.live = MemoryStore(FAMILIES)
        self.live.write(everything(self._durable))


def everything(store: MemoryStore) -> Changes:
    """The whole of a store as one batch."""
    changes = Changes()
    for name in (*SHARED_CFS, *FAMILIES):
        changes.of(name).update(store.scan(name, b"", None))
    return changes


class DiskStore(MemoryStore):
    """The store of one process on one disk; it is in memory, but not as long as the process.

    Args:
        written: told of each batch that was written.
        opportunity: called where whoever uses it may be suspended.

    Raises:
        InjectedError: opening failed.
    """

    def __init__(
        self, world: World, disk: Disk, written: Callable[[Changes], None], opportunity: Callable[[], None]
    ) -> None:
        super().__init__(())
        world.alive(world.life)
        if world.roll("open failed", world.rates.store / 5):
            raise InjectedError("the store cannot be opened")
        if disk.holder == world.life:
            world.fail("a process opened a store that it holds already")
        disk.holder = world.life
        self._world = world
        self._life = world.life
        self._disk = disk
        self._written = written
        self._opportunity = opportunity
        self._is_full = False

    def getter(self, column_family: str) -> Get:
        """Reads may fail."""
        get = self._disk.live.getter(column_family)
        world, rate = self._world, self._world.rates.read

        def read(key: bytes) -> bytes | None:
            self._opportunity()
            if rate and world.roll("read failed", rate):
                raise InjectedError("a read failed")
            return get(key)

        return read

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Scans may fail, too."""
        if self._world.roll("scan failed", self._world.rates.read):
            raise InjectedError("a scan failed")
        return self._walk(self._disk.live.scan(column_family, start, end, reverse=reverse))

    def write(self, changes: Changes) -> None:
        """Killed before or after, refused, failed before or after it happened, or done; without room, not once more."""
        self._opportunity()
        world = self._world
        world.alive(self._life)
        if world.roll("write refused", world.rates.store):
            raise StoreBusyError(f"{INJECTED}: the store is behind")
        self._is_full = self._is_full or world.roll("write without room", world.rates.store / 3)
        if self._is_full:
            raise StoreFullError(f"{INJECTED}: no room")
        if world.roll("write failed before", world.rates.store / 3):
            raise InjectedError("a write failed, and may have happened")
        if world.roll("write failed after", world.rates.store / 3):
            self._disk.write(changes)
            self._written(changes)
            raise InjectedError("a write failed, and may have happened")
        self._disk.write(changes)
        self._written(changes)
        if world.random.randrange(5) == 0:
            self._disk.sync()
        world.alive(self._life)

    def _walk(self, records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            self._opportunity()
            yield record

    def close(self) -> None:
        """Let go of the disk."""
        if self._life == self._world.life:
            self._disk.holder = 0

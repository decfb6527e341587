"""A worker by itself: what is left of a batch that could not be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import StoreBusyError
from engine.layouts.neokv import NeoKV
from engine.store.base import Changes
from engine.store.memory import MemoryStore
from engine.system import Home
from ingest.log.local import LocalLog
from ingest.observer import NullObserver
from ingest.worker import Worker


class BusyOnce(MemoryStore):
    """Refuses the first write."""

    refused = False

    def write(self, changes: Changes) -> None:
        """Nothing is written the first time."""
        if not self.refused:
            self.refused = True
            raise StoreBusyError("behind")
        super().write(changes)


async def test_a_gap_that_cannot_be_written_is_not_passed(tmp_path: Path) -> None:
    """Offsets without a record, whose end could not be committed, are still to come: nothing is left uncommitted."""
    store = BusyOnce(NeoKV.column_families)
    log = LocalLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    worker = Worker(Home("t", 0, 1, NeoKV.name), log, lambda _: store, None, NullObserver())
    worker.open()

    with pytest.raises(StoreBusyError):
        await worker.apply([], 0, 3)
    assert (0, True) == (worker.machine.next_offset, worker.machine.is_settled)
    await worker.apply([], 0, 3)
    assert (3, 3) == (worker.machine.next_offset, worker.machine.position.next_offset)

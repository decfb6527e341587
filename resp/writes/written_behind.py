"""Commits the writes of this process in one owned partition, and writes them to RocksDB behind their answers.

A commit of few writes is gathered in memory, where all reads see it, and written to RocksDB in the event loop's next
turn: the clients take their answers meanwhile. The log has the writes by then. Measured, 50 clients, one write at a
time, quiet machine: SET p50 0.98 ms instead of 1.06, ZADD 1.18 instead of 1.26.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ingest.applying.batches.commit_path import CommitPath
from ingest.applying.partitions.owned_partition import OwnedPartition
from slotlog.log import LogRecord

_GATHERED_MAX: Final = 256
"""So many writes are gathered at most. Of more, the copies of their records cost what is gained."""


class WrittenBehind:
    """Commits, and writes what RocksDB lacks.

    Args:
        owned: the partition's worker.
        failed: told of an error of RocksDB. Clients have their answers by then.

    Attributes:
        answered_offset: before it all is answered, though RocksDB may not have it yet.
    """

    def __init__(self, owned: OwnedPartition, failed: Callable[[Exception], None]) -> None:
        self._owned, self._failed = owned, failed
        self._is_due = False
        self.answered_offset = 0

    def commit(self, path: CommitPath, last: LogRecord, written: int) -> None:
        """Commit `written` writes up to the record `last`: a few are written soon, more of them at once.

        Raises:
            Exception: as `Machine.commit`.
        """
        store = self._owned.worker.store
        store.is_gathering = written <= _GATHERED_MAX
        try:
            path.commit(last)
        finally:
            gathered, store.is_gathering = store.is_gathering, False
        self.answered_offset = last[0] + 1
        if gathered:
            self.write_soon()

    def write_soon(self) -> None:
        """Write what is gathered in the event loop's next turn: after a commit, or trouble."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._owned.worker.gate.slices.run, self._write_in_fiber)

    def _write_in_fiber(self) -> None:
        worker = self._owned.worker
        self._is_due = False
        worker.gate.enter()
        try:
            if worker.is_open:
                worker.store.write_gathered()
        except Exception as error:  # noqa: BLE001 - raised again, where the consumer can deal with it
            self._failed(error)

"""A copy of the embedded log is one view of it, however much is appended meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.file import connect
from slotlog.log.embedded.file.heads import head_of
from slotlog.log.embedded.pages.backup import copy_log, open_copy, size_of
from slotlog.log.embedded.proof.scan import PartitionScan
from tests.slotlog.log.reading import append

STEPS_MAX = 100


async def test_appends_do_not_begin_it_anew(local_log: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """Each step finds more in the log; the copy has what was there before, and took a step for each MiB."""
    await append(local_log, *[b"%d" % n * 100_000 for n in range(40)])
    loop, told = asyncio.get_running_loop(), list[int]()

    def advance(done: int) -> None:
        told.append(done)
        assert len(told) < STEPS_MAX, "it begins again and again"
        asyncio.run_coroutine_threadsafe(append(local_log, b"later" * 10_000), loop).result()

    def copy() -> int:
        with closing(connect(local_path)) as connection:
            size = size_of(connection)
            copy_log(connection, tmp_path / "copy", advance)
        assert ["copy"] == [path.name for path in tmp_path.glob("copy*")]
        return size

    size = await asyncio.to_thread(copy)
    with closing(open_copy(tmp_path / "copy")) as connection:
        scan, damages = PartitionScan(0), []
        while not scan.is_done:
            damages += scan.slice(connection, 1000, 1 << 24)[0]
        assert (40, [], 40) == (head_of(connection, 0).next_offset, damages, scan.records)

    steps = -(-size // (256 * 4096))
    assert (steps, size, 40 + steps) == (len(told), told[-1], await local_log.end_offset(0))

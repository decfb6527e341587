"""The embedded log's file becomes smaller after a trim, while others append and read, and whenever it is killed."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.file import can_shrink, connect
from slotlog.log.embedded.pages import free_pages
from slotlog.log.embedded.pages.free_pages import rewrite
from slotlog.log.embedded.proof.scan import scan_file
from tests.slotlog.log.reading import append, read, read_values

VALUES = [b"%d " % number + b"x" * 900 for number in range(2000)]
LONG = [b"%d " % number + b"y" * 50_000 for number in range(20)]
"""Each on a dozen pages of its own."""

KILLED = """
import asyncio, os, signal, sys
from functools import partial
from pathlib import Path
from slotlog.log.embedded import embedded_log

left = int(sys.argv[2])

def dying(work):
    def counted(*arguments):
        global left
        left -= 1
        result = work(*arguments) if left or sys.argv[3] == "after" else None
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return counted

setattr(embedded_log, sys.argv[4], dying(getattr(embedded_log, sys.argv[4])))

async def main(path):
    log = embedded_log.EmbeddedLog(Path(path), topic="t", partitions=2)
    await log.start()
    while await log.give_back_some():
        pass

asyncio.run(main(sys.argv[1]))
"""


def free(path: Path) -> tuple[int, int]:
    """How many pages of the file are free, and how many are not."""
    with contextlib.closing(connect(path)) as connection:
        pages, unused = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
        )
    return unused, pages - unused


def damage(path: Path) -> list[object]:
    """What SQLite finds wrong with the file, its tables of where each page belongs included."""
    with contextlib.closing(connect(path)) as connection:
        return list(scan_file(connection, 2))


async def trimmed(path: Path) -> int:
    """Fill a log, trim all but its last ten records and the long ones; the size of its file."""
    log = EmbeddedLog(path, topic="t", partitions=2)
    await log.start()
    await append(log, *VALUES)
    await append(log, *LONG, partition=1)
    await log.trim(0, len(VALUES) - 10)
    await log.close()
    return path.stat().st_size


async def kept(log: EmbeddedLog) -> list[list[bytes | None]]:
    """What is left, each record held against the chain of checksums."""
    return [
        await read_values(log, 10, offset=len(VALUES) - 10),
        await read_values(log, len(LONG), partition=1),
    ]


async def test_the_file_becomes_smaller_beside_appends(local_path: Path) -> None:
    """It does so in steps, while another log appends to it and a reader follows: none of them meets anything odd."""
    before = await trimmed(local_path)
    log, other = (EmbeddedLog(local_path, topic="t", partitions=2) for _ in range(2))
    await log.start()
    await other.start()
    reader = other.reader({0: len(VALUES) - 10, 1: 0})
    steps, sizes, more = 0, [before], list[bytes]()
    while given := await log.give_back_some():
        steps += 1
        assert 0 < given <= 256 * 4096
        more.append(b"more %d" % steps)
        await append(other, more[-1])
        sizes.append(local_path.stat().st_size)
    seen = await read(reader, 10 + len(LONG) + len(more))
    await reader.close()
    await log.close()
    await other.close()

    assert steps > 1
    assert sizes == sorted(sizes, reverse=True)
    assert local_path.stat().st_size < before / 2.5, sizes
    assert VALUES[-10:] + more == [record[3] for record in seen[0]]
    assert LONG == [record[3] for record in seen[1]]
    assert [] == damage(local_path)


async def test_some_room_is_left(local_path: Path) -> None:
    """An eighth of the pages in use stays free, so that a small trim moves nothing."""
    await trimmed(local_path)
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    while await log.give_back_some():
        pass
    unused, used = free(local_path)
    await append(log, *VALUES[:20])
    await log.trim(0, len(VALUES) + 5)
    again = await log.give_back_some()
    await log.close()

    assert unused == used // 8 > 0
    assert 0 == again


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("work", ["give_back", "copy_wal"])
async def test_killed_in_a_step(local_path: Path, work: str, moment: str) -> None:
    """Killed in the transaction that moves pages, or around the copy of the `-wal`, it goes on where it was."""
    before = await trimmed(local_path)
    command = [sys.executable, "-c", KILLED, str(local_path), "2", moment, work]
    done = await asyncio.to_thread(
        partial(subprocess.run, command, capture_output=True, check=False, cwd=Path(__file__).parents[5])
    )
    assert -signal.SIGKILL == done.returncode, done.stderr
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    left = await kept(log)
    while await log.give_back_some():
        pass
    after = await kept(log)
    positions = await append(log, b"new")
    await log.close()

    assert [VALUES[-10:], LONG] == left == after
    assert [(0, len(VALUES))] == positions
    assert local_path.stat().st_size < before / 2.5
    assert [] == damage(local_path)


async def test_a_file_of_before_is_written_anew_once(local_path: Path) -> None:
    """One that cannot become smaller stays as it is; written anew it has no free page, and can from then on."""
    before = await trimmed(local_path)
    with contextlib.closing(sqlite3.connect(local_path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    await append(log, *VALUES)
    await log.trim(0, 2 * len(VALUES) - 10)
    refused = await log.give_back_some(), local_path.stat().st_size
    await log.close()
    given = await asyncio.to_thread(rewrite, local_path)
    unused, _ = free(local_path)
    with contextlib.closing(connect(local_path)) as connection:
        shrinks = can_shrink(connection)
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    left = await read_values(log, 10, offset=2 * len(VALUES) - 10)
    await log.close()

    assert refused[0] == 0 < refused[1]
    assert (0, True) == (unused, shrinks)
    assert given > before / 2
    assert VALUES[-10:] == left
    assert [] == damage(local_path)


async def test_a_new_log_can_become_smaller(local_path: Path) -> None:
    """Whoever looks at the empty file first: one that only reads makes it no other kind of file."""
    local_path.touch()
    connect(local_path).close()
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    with contextlib.closing(connect(local_path)) as connection:
        assert can_shrink(connection)
    await log.close()


async def test_a_step_is_small(local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction moves more pages than its bound."""
    monkeypatch.setattr(free_pages, "_STEP_PAGES", 7)
    await trimmed(local_path)
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    given = [await log.give_back_some() for _ in range(3)]
    await log.close()

    assert [7 * 4096] * 3 == given

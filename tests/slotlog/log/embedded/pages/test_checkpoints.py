"""The embedded log's `-wal` is copied beside the event loop, and appends go on whatever comes of it."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from slotlog.errors import LogMismatchError
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.file import CHECKPOINT_PAGES, connect
from slotlog.log.embedded.pages import checkpoints
from slotlog.log.embedded.pages.checkpoints import Checkpoints
from tests.slotlog.log.reading import read_values

GROUP = [Entry(0, b"", b"x" * 3900)] * 20


def left_to_copy(path: Path) -> int:
    """How many pages of the `-wal` are not in the file, before this copies them."""
    with contextlib.closing(connect(path)) as connection:
        before = path.stat().st_size
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return (path.stat().st_size - before) // 4096


async def fill(log: EmbeddedLog, groups: int) -> None:
    """Append some 22 pages in each group, as a server does: by the writer's thread where somebody else writes."""
    for _ in range(groups):
        positions = log.append_at_once(GROUP) or await log.append(GROUP)
        assert len(positions) == len(GROUP)


async def idle(log: EmbeddedLog) -> None:
    """Wait until nothing is copied."""
    assert log._checkpoints is not None
    if (running := log._checkpoints._running) is not None:
        await asyncio.wait((running,))


async def test_pages_are_copied_before_a_commit_has_to(local_log: EmbeddedLog, local_path: Path) -> None:
    """When some 1,000 were written, long before SQLite itself begins."""
    await fill(local_log, 60)
    await idle(local_log)
    assert local_path.stat().st_size > 900 * 4096
    assert left_to_copy(local_path) < 400 < CHECKPOINT_PAGES


async def test_few_pages_are_left_alone(local_log: EmbeddedLog, local_path: Path) -> None:
    """A log that takes little is not copied again and again."""
    await fill(local_log, 10)
    assert local_log._checkpoints is not None
    assert local_log._checkpoints._running is None
    assert local_path.stat().st_size < 50 * 4096


async def test_one_copies_at_a_time(local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is appended meanwhile is for the next time."""
    at_once, most, copied = 0, 0, 0

    def copy(self: Checkpoints) -> None:
        nonlocal at_once, most, copied
        at_once += 1
        most, copied = max(most, at_once), copied + 1
        at_once -= 1

    monkeypatch.setattr(Checkpoints, "_copy", copy)
    assert local_log._checkpoints is not None
    local_log._checkpoints.pages_max = 80
    for _ in range(50):
        assert local_log.append_at_once(GROUP) is not None
    await idle(local_log)
    assert (1, 1) == (most, copied)
    await fill(local_log, 1)
    await idle(local_log)
    assert 2 == copied
    assert local_log.append_at_once(GROUP[:1]) is not None  # some pages, and not 20 again
    await idle(local_log)
    assert 2 == copied


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), sqlite3.DatabaseError("malformed")])
async def test_appends_go_on_without_it(
    local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """Where nothing can be copied, the log of slotlog says so once, and appends go on until there is no room."""

    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(checkpoints, "connect", broken)
    for _ in range(250):
        await fill(local_log, 1)
        await asyncio.sleep(0)
    await idle(local_log)
    assert 5000 == await local_log.end_offset(0)
    assert {GROUP[0].value} == set(await read_values(local_log, 5000))
    assert ["log_not_copied"] == [str(record.msg).split()[0] for record in caplog.records]


async def test_nothing_is_copied_from_another_log(local_log: EmbeddedLog, local_path: Path) -> None:
    """A connection that opened the files of another one would make a new `-wal` beside it."""
    await fill(local_log, 10)
    local_path.unlink()
    assert local_log._checkpoints is not None
    with pytest.raises(LogMismatchError):
        local_log._checkpoints._copy()
    assert not local_path.exists()


def test_sqlite_waits_for_more_pages_than_are_copied_at_once(local_path: Path) -> None:
    """Else each commit would copy before a thread could."""
    with contextlib.closing(connect(local_path, create=True)) as connection:
        assert (CHECKPOINT_PAGES,) == connection.execute("PRAGMA wal_autocheckpoint").fetchone()
    assert checkpoints._COPIES > 3


async def test_a_log_is_closed_behind_a_copy(local_path: Path) -> None:
    """SQLite crashes the process when a connection is closed that a thread still uses."""
    log = EmbeddedLog(local_path, topic="t", partitions=1)
    await log.start()
    await fill(log, 60)
    assert log._checkpoints is not None
    running = log._checkpoints._running
    assert running is not None
    await log.close()
    assert running.done()
    assert not local_path.with_name(f"{local_path.name}-wal").exists()  # as the last connection is closed

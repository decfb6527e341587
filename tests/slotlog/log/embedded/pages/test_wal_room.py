"""The embedded log's `-wal` gets its room, and what was acknowledged is in the log whatever stands behind it."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import pytest

from slotlog.errors import LogMismatchError
from slotlog.log import Entry, RecordPosition
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.file import CHECKPOINT_PAGES, connect, works_of
from slotlog.log.embedded.file.open_files import Files
from slotlog.log.embedded.pages import wal_room
from slotlog.log.embedded.pages.wal_room import ROOMY_CHECKPOINT_PAGES, make_room
from tests.slotlog.log.reading import append, read_values

ROOM = 32 + 8200 * (24 + 4096)
INDEX = 96 * 1024


def wal_of(path: Path) -> Path:
    """The file beside the log that holds what is committed and not in the log yet."""
    return path.with_name(f"{path.name}-wal")


def index_of(path: Path) -> Path:
    """SQLite's index of that file."""
    return path.with_name(f"{path.name}-shm")


def has_room(path: Path) -> bool:
    """Whether both are as large as they become."""
    return wal_of(path).stat().st_size >= ROOM and index_of(path).stat().st_size >= INDEX


def pages_max(log: EmbeddedLog) -> int:
    """Of the `-wal`, when SQLite copies them in a commit of the event loop."""
    assert log._connection is not None
    pages: int = log._connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
    return pages


async def crashed(path: Path, to: Path) -> list[bytes | None]:
    """What is in the log after a crash at this moment: read from a copy of its files."""
    copy = to / path.name
    to.mkdir()
    for suffix in ("", "-wal", "-head"):
        if path.with_name(path.name + suffix).exists():
            shutil.copy(path.with_name(path.name + suffix), to)
    log = EmbeddedLog(copy, topic="t", partitions=2)
    await log.start()
    try:
        count = await log.end_offset(0)
        return await read_values(log, count) if count else []
    finally:
        await log.close()


@pytest.fixture(autouse=True)
def busy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may take its time: other tests use it, too."""
    monkeypatch.setattr(wal_room, "_SECONDS_MAX", 60.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log gets its room after two appends, and soon."""
    monkeypatch.setattr(wal_room, "_APPENDS_MIN", 2)
    monkeypatch.setattr(wal_room, "_LOOK_SECONDS", 0.001)


@pytest.mark.usefixtures("impatient")
async def test_a_log_that_takes_appends_gets_room(local_path: Path, tmp_path: Path) -> None:
    """Then both files keep their size, and a crash before, at and after many rounds loses nothing acknowledged."""
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    try:
        await append(log, b"0")
        await asyncio.sleep(0.01)
        assert not has_room(local_path)  # as one append is not enough
        assert CHECKPOINT_PAGES == pages_max(log)
        await append(log, b"1")
        assert log._wal_room is not None
        await asyncio.wait_for(log._wal_room._running, 60)
        assert has_room(local_path)
        assert ROOMY_CHECKPOINT_PAGES == pages_max(log)
        assert [b"0", b"1"] == await crashed(local_path, tmp_path / "first")

        sizes = wal_of(local_path).stat().st_size, index_of(local_path).stat().st_size
        values: list[bytes | None] = [b"0", b"1"]
        for number in range(240):  # some 82 pages each, so that SQLite begins the file anew twice
            group = [b"%d" % number + b"x" * 3900] * 80
            values += group
            if log.append_at_once([Entry(0, b"", value) for value in group]) is None:
                await append(log, *group)
            if number == 0 or 94 <= number <= 100:
                assert values == await crashed(local_path, tmp_path / str(number))
        assert sizes == (wal_of(local_path).stat().st_size, index_of(local_path).stat().st_size)
        assert values == await crashed(local_path, tmp_path / "last")
    finally:
        await log.close()


async def test_room_before_anything_was_written(local_path: Path, tmp_path: Path) -> None:
    """A `-wal` of nothing but what was taken back is an empty one, for who has it open and after a crash."""
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    try:
        assert make_room(Files(local_path))
        assert has_room(local_path)
        assert [] == await crashed(local_path, tmp_path / "empty")
        await append(log, b"a")
        assert [b"a"] == await crashed(local_path, tmp_path / "one")
    finally:
        await log.close()


async def test_what_is_there_stays(local_log: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """Room is made behind what others have written, and not twice."""
    await append(local_log, *[b"x" * 3000] * 100)
    before = wal_of(local_path).read_bytes()
    marks = mark_of(local_path)
    assert make_room(Files(local_path))
    made = wal_of(local_path).read_bytes()
    assert before == made[: len(before)]
    assert marks == mark_of(local_path)
    assert [b"x" * 3000] * 100 == await crashed(local_path, tmp_path / "made")

    assert make_room(Files(local_path))
    assert made == wal_of(local_path).read_bytes()


def mark_of(path: Path) -> tuple[int, int, list[str]]:
    """What a reader sees of the file: its pages, how many works it has had, its tables."""
    with contextlib.closing(connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        return pages, works_of(connection), tables


async def test_nobody_else_writes_meanwhile(
    local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's lock is held, appends go by the thread that waits for it, and none is lost."""
    await append(local_log, b"a")
    appending: list[asyncio.Task[list[RecordPosition]]] = []
    loop = asyncio.get_running_loop()

    def begin() -> None:
        assert local_log.append_at_once([Entry(0, b"", b"b")]) is None
        appending.append(loop.create_task(local_log.append([Entry(0, b"", b"b")])))

    def looking(file: int) -> None:
        monkeypatch.undo()
        loop.call_soon_threadsafe(begin)
        while not appending:
            sleep(0.001)
        os.fdatasync(file)

    monkeypatch.setattr("slotlog.log.embedded.pages.wal_room.os.fdatasync", looking)
    assert await asyncio.to_thread(make_room, Files(local_path))
    (task,) = appending
    await task

    assert [b"a", b"b"] == await read_values(local_log, 2)


async def test_a_disk_that_has_little_room(
    local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of it is left to others: an eighth of what is free is the most that is taken."""
    statvfs = os.statvfs

    def with_free(free_bytes: int) -> None:
        def stat(path: Path) -> SimpleNamespace:
            return SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=statvfs(path).f_frsize)

        monkeypatch.setattr("slotlog.log.embedded.pages.wal_room.os.statvfs", stat)

    await append(local_log, b"a")
    with_free(8 * ROOM - 4096)
    assert not make_room(Files(local_path))
    assert not has_room(local_path)
    with_free(8 * ROOM + 4096)
    assert make_room(Files(local_path))
    assert has_room(local_path)


def full_at(pages: int, path: Path) -> sqlite3.Connection:
    """A connection to a log for which the disk has so many more pages."""
    connection = connect(path)
    (present,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {present + pages}")
    return connection


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("pages", [0, 1000, 8000])
async def test_a_full_disk(pages: int, local_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for the room the log goes on as it was, and SQLite does not wait for more pages."""
    monkeypatch.setattr(wal_room, "connect", partial(full_at, pages))
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    try:
        await append(log, b"a")
        await append(log, b"b")
        assert log._wal_room is not None
        await asyncio.wait_for(log._wal_room._running, 60)
        assert CHECKPOINT_PAGES == pages_max(log)
        with pytest.raises(sqlite3.OperationalError, match="database or disk is full"):
            make_room(Files(local_path))
        await append(log, b"c")
        assert [b"a", b"b", b"c"] == await read_values(log, 3)
        assert [b"a", b"b", b"c"] == await crashed(local_path, tmp_path / "crashed")
    finally:
        await log.close()


async def test_another_process_makes_it_first(
    local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waited for the lock looks again, and does not make it behind what is there."""
    await append(local_log, b"a")

    def after_another(path: Path) -> sqlite3.Connection:
        monkeypatch.setattr(wal_room, "connect", connect)
        assert make_room(Files(path))
        monkeypatch.setattr(wal_room, "_fill", lambda *_: pytest.fail("made twice"))
        return connect(path)

    monkeypatch.setattr(wal_room, "connect", after_another)
    assert make_room(Files(local_path))


async def test_a_disk_that_is_too_slow(
    local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others do not wait for all of it: it ends after the piece that has taken the time, and the log goes on."""
    monkeypatch.setattr(wal_room, "_SECONDS_MAX", 0.0)
    await append(local_log, b"a")
    assert not make_room(Files(local_path))
    assert wal_of(local_path).stat().st_size < 4 * 1024 * 1024
    await append(local_log, b"b")
    assert [b"a", b"b"] == await read_values(local_log, 2)


async def test_no_room_beside_another_log(local_log: EmbeddedLog, local_path: Path) -> None:
    """A log that was exchanged gets none: a connection to it would make a new `-wal`."""
    await append(local_log, b"a")
    files = Files(local_path)
    local_path.rename(local_path.with_name("moved"))
    local_path.write_bytes(b"")
    with pytest.raises(LogMismatchError):
        make_room(files)
    local_path.unlink()
    local_path.with_name("moved").rename(local_path)


async def test_a_process_was_killed(local_log: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """Its `-wal` is as large as it was, and whoever opens it first makes an index for all of it."""
    await append(local_log, b"a")
    assert make_room(Files(local_path))
    copy = tmp_path / "killed" / local_path.name
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{local_path}{suffix}", copy.parent)
    with contextlib.closing(connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)
        assert make_room(Files(copy))
        assert has_room(copy)
        assert wal_of(copy).stat().st_size == wal_of(local_path).stat().st_size


async def test_a_long_wal_whose_index_is_small(local_log: EmbeddedLog, local_path: Path) -> None:
    """Zeros behind its end, as an older slotlog made them, are no room: its index has none."""
    await append(local_log, b"a")
    os.truncate(wal_of(local_path), ROOM)
    assert make_room(Files(local_path))
    assert has_room(local_path)


async def test_it_takes_little_memory(local_log: EmbeddedLog, local_path: Path) -> None:
    """The long values are never in memory as a whole: a service has some 80 MB."""
    await append(local_log, b"a")
    before = peak_memory()
    assert make_room(Files(local_path))
    assert peak_memory() - before < 8 * 1024 * 1024


def peak_memory() -> int:
    """Bytes of this process at most, since the last look."""
    status = Path("/proc/self/status").read_text()
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    Path("/proc/self/clear_refs").write_text("5")
    return int(peak) * 1024

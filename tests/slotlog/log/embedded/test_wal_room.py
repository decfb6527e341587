"""The embedded log's `-wal` gets its room, and what was acknowledged is in the log whatever stands behind it."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from slotlog.log import Entry
from slotlog.log.embedded import wal_room
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file import connect
from slotlog.log.embedded.wal_room import make_room
from tests.slotlog.log.reading import append, read_values

ROOM = 32 + 4000 * (24 + 4096)


def wal_of(path: Path) -> Path:
    """The file beside the log that holds what is committed and not in the log yet."""
    return path.with_name(f"{path.name}-wal")


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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log gets its room after two appends, and soon."""
    monkeypatch.setattr(wal_room, "_APPENDS_MIN", 2)
    monkeypatch.setattr(wal_room, "_LOOK_SECONDS", 0.001)


@pytest.mark.usefixtures("impatient")
async def test_a_log_that_takes_appends_gets_room(local_path: Path, tmp_path: Path) -> None:
    """Then the `-wal` keeps its size, and a crash before, at and after many rounds of it loses nothing acknowledged."""
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    try:
        await append(log, b"0")
        await asyncio.sleep(0.01)
        assert wal_of(local_path).stat().st_size < ROOM  # as one append is not enough
        await append(log, b"1")
        assert log._wal_room is not None
        await asyncio.wait_for(log._wal_room._running, 60)
        assert wal_of(local_path).stat().st_size == ROOM
        assert [b"0", b"1"] == await crashed(local_path, tmp_path / "first")

        values: list[bytes | None] = [b"0", b"1"]
        for number in range(120):  # some 82 pages each, so that SQLite begins the file anew twice
            group = [b"%d" % number + b"x" * 3900] * 80
            values += group
            if log.append_at_once([Entry(0, b"", value) for value in group]) is None:
                await append(log, *group)
            if number == 0 or 44 <= number <= 50:
                assert values == await crashed(local_path, tmp_path / str(number))
        assert wal_of(local_path).stat().st_size == ROOM
        assert values == await crashed(local_path, tmp_path / "last")
    finally:
        await log.close()


async def test_room_before_anything_was_written(local_path: Path, tmp_path: Path) -> None:
    """A `-wal` of nothing but zeros is an empty one, for who has it open and after a crash."""
    log = EmbeddedLog(local_path, topic="t", partitions=2)
    await log.start()
    try:
        await log.write(partial(make_room, path=local_path))
        content = wal_of(local_path).read_bytes()
        assert (ROOM, 0) == (len(content), sum(content))
        assert [] == await crashed(local_path, tmp_path / "empty")
        await append(log, b"a")
        assert [b"a"] == await crashed(local_path, tmp_path / "one")
    finally:
        await log.close()


async def test_what_is_there_stays(local_log: EmbeddedLog, local_path: Path) -> None:
    """Room is added behind what others have written; a file that is longer is left as it is."""
    await append(local_log, *[b"x" * 3000] * 100)
    before = wal_of(local_path).read_bytes()
    await local_log.write(partial(make_room, path=local_path))
    assert wal_of(local_path).read_bytes() == before + bytes(ROOM - len(before))

    os.truncate(wal_of(local_path), ROOM + 5)
    await local_log.write(partial(make_room, path=local_path))
    assert wal_of(local_path).stat().st_size == ROOM + 5


async def test_nobody_else_writes_meanwhile(
    local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's lock is held: what another process wrote behind the end would be overwritten."""
    pwrite, locked = os.pwrite, list[str]()

    def looking(file: int, data: bytes, offset: int) -> int:
        with contextlib.closing(connect(local_path)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                locked.append(str(error))
        return pwrite(file, data, offset)

    monkeypatch.setattr("slotlog.log.embedded.wal_room.os.pwrite", looking)
    await local_log.write(partial(make_room, path=local_path))

    assert {"database is locked"} == set(locked)


async def test_a_disk_that_has_little_room(
    local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of it is left to others: an eighth of what is free is the most that is taken."""
    fstatvfs = os.fstatvfs

    def with_free(free_bytes: int) -> None:
        def stat(file: int) -> SimpleNamespace:
            return SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=fstatvfs(file).f_frsize)

        monkeypatch.setattr("slotlog.log.embedded.wal_room.os.fstatvfs", stat)

    await append(local_log, b"a")
    missing = ROOM - wal_of(local_path).stat().st_size
    with_free(8 * missing - 4096)
    await local_log.write(partial(make_room, path=local_path))
    assert wal_of(local_path).stat().st_size < ROOM
    with_free(8 * missing + 4096)
    await local_log.write(partial(make_room, path=local_path))
    assert wal_of(local_path).stat().st_size == ROOM


async def test_a_full_disk(local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for the room the log goes on as it was."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slotlog.log.embedded.wal_room.os.pwrite", full)
    await append(local_log, b"a")
    await local_log.write(partial(make_room, path=local_path))
    await append(local_log, b"b")

    assert wal_of(local_path).stat().st_size < ROOM
    assert [b"a", b"b"] == await read_values(local_log, 2)

"""The mark beside the embedded log says how far it was: a shorter log, or another one, is refused."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from slotlog.errors import LogMismatchError, LogUnavailableError, Mismatch
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.chain import link_behind
from slotlog.log.embedded.file.file import WORKS_MAX, works_of
from slotlog.log.embedded.file.heads import head_of, set_head
from slotlog.log.embedded.proof import mark_keeper
from tests.slotlog.lines import captured_lines
from tests.slotlog.log.reading import append


def beside(path: Path, suffix: str) -> Path:
    """A file beside the log."""
    return path.with_name(path.name + suffix)


async def opened(path: Path) -> EmbeddedLog:
    """The log, started."""
    log = EmbeddedLog(path, topic="t", partitions=2)
    await log.start()
    return log


async def write_mark(log: EmbeddedLog) -> None:
    """Write the mark of an open log, as its keeper does once a second."""
    assert log._mark_keeper is not None
    await log._mark_keeper.write()


async def end_offset(path: Path) -> int:
    """Where partition 0 ends."""
    log = await opened(path)
    try:
        return await log.end_offset(0)
    finally:
        await log.close()


def heads(path: Path) -> list[int]:
    """The offsets that the mark says."""
    return [offset for offset, _ in json.loads(beside(path, "-head").read_bytes())["heads"]]


async def copied(local_log: EmbeddedLog, path: Path, target: Path) -> Path:
    """A copy of the open log, as a crash leaves it: with its `-wal`, and the mark of a moment before."""
    for suffix in ("", "-wal", "-head"):
        shutil.copy(beside(path, suffix), beside(target, suffix))
    return target


@pytest.fixture
async def marked(local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedLog:
    """A log with ten records and a mark that says so; the next mark comes at its close."""
    await append(local_log, *[b"%d" % n for n in range(10)])
    await write_mark(local_log)
    return local_log


async def _no_wal(path: Path) -> None:
    beside(path, "-wal").unlink()


async def _damaged_wal(path: Path) -> None:
    content = bytearray(beside(path, "-wal").read_bytes())
    content[-2000] ^= 1
    beside(path, "-wal").write_bytes(content)


async def _truncated_wal(path: Path) -> None:
    with beside(path, "-wal").open("r+b") as file:
        file.truncate(beside(path, "-wal").stat().st_size // 2)


@pytest.mark.parametrize("damage", [_no_wal, _damaged_wal, _truncated_wal])
async def test_wal_lost(
    marked: EmbeddedLog, local_path: Path, tmp_path: Path, damage: Callable[[Path], Awaitable[None]]
) -> None:
    """Without all of its `-wal` a log is an earlier one: that is refused, and what is left stays as it is."""
    copy = await copied(marked, local_path, tmp_path / "copy.db")
    assert 10 == await end_offset(await copied(marked, local_path, tmp_path / "sound.db"))
    await damage(copy)
    wal = beside(copy, "-wal")
    before = copy.read_bytes(), wal.read_bytes() if wal.exists() else b""

    with pytest.raises(LogMismatchError, match=r"partition 0 of the log .* ends at offset 0, but 10 records") as raised:
        await opened(copy)

    assert (Mismatch.TRUNCATED, before) == (
        raised.value.kind,
        (copy.read_bytes(), wal.read_bytes() if wal.exists() else b""),
    )
    beside(copy, "-head").unlink()
    assert 0 == await end_offset(copy)


async def test_older_copy(local_log: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """An older copy is refused while it is shorter, and, written to beside another mark, where it differs."""
    await append(local_log, b"a")
    await local_log.close()
    shutil.copy(local_path, tmp_path / "older")
    newer = await opened(local_path)
    await append(newer, b"b")
    await newer.close()
    shutil.copy(beside(local_path, "-head"), tmp_path / "head")
    shutil.copy(tmp_path / "older", local_path)

    with pytest.raises(
        LogMismatchError, match=r"or an older copy\. Bring the right one back\. To go on with what is there"
    ):
        await opened(local_path)
    beside(local_path, "-head").unlink()
    other = await opened(local_path)
    await append(other, b"c", b"d")
    await other.close()
    shutil.copy(tmp_path / "head", beside(local_path, "-head"))
    with pytest.raises(LogMismatchError, match="holds another record at offset 1 than") as raised:
        await opened(local_path)
    assert raised.value.kind is Mismatch.RECREATED


async def test_log_gone(marked: EmbeddedLog, local_path: Path) -> None:
    """A log that is gone, or empty, is not made anew while its mark is there; nor is another one taken for it."""
    await marked.close()
    local_path.rename(beside(local_path, "-away"))
    for _ in range(2):
        with pytest.raises(LogMismatchError, match=r"that there was one: bring it back\. To begin a new one") as raised:
            await opened(local_path)
        assert raised.value.kind is Mismatch.MISSING
        local_path.write_bytes(b"")
    beside(local_path, "-head").rename(beside(local_path, "-kept"))
    await (await opened(local_path)).close()
    beside(local_path, "-kept").rename(beside(local_path, "-head"))
    with pytest.raises(LogMismatchError, match="is another log than the one that") as raised:
        await opened(local_path)
    assert raised.value.kind is Mismatch.RECREATED


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"log": "00", "heads": [], "sum": "00"}', b"\xff"])
async def test_damaged_mark(marked: EmbeddedLog, local_path: Path, content: bytes) -> None:
    """A mark that cannot be read refuses nothing, and is written anew."""
    await marked.close()
    beside(local_path, "-head").write_bytes(content)

    assert 10 == await end_offset(local_path)
    assert [10, 0] == heads(local_path)


async def test_kept_up_to_date(local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark follows what this process and others append, without a close, and never the other way round."""
    await local_log.close()
    monkeypatch.setattr("slotlog.log.embedded.proof.mark_keeper._MARK_SECONDS", 0.01)
    log = await opened(local_path)
    other = await opened(local_path)
    await append(log, b"a")
    await append(other, b"b", partition=1)

    async def marked() -> None:
        while heads(local_path) != [1, 1]:  # noqa: ASYNC110 - a file sends no event
            await asyncio.sleep(0.01)

    await asyncio.wait_for(marked(), 30)
    await other.close()
    await log.close()
    assert [1, 1] == heads(local_path)


async def test_not_written_for_another_file(marked: EmbeddedLog, local_path: Path) -> None:
    """Who still has a log open that was taken away writes no mark for what is there now."""
    local_path.unlink()
    beside(local_path, "-head").unlink()
    await marked.close()

    assert not beside(local_path, "-head").exists()


async def test_disk_full(local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that cannot be written is left as it was; appends go on."""
    await append(local_log, b"a")
    await write_mark(local_log)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("slotlog.log.embedded.proof.mark.os.fsync", full)
        await append(local_log, b"b")
        await write_mark(local_log)
        assert [1, 0] == heads(local_path)
    await write_mark(local_log)

    assert [2, 0] == heads(local_path)
    assert {".db", ".db-head", ".db-wal", ".db-shm"} == {file.suffix for file in local_path.parent.iterdir()}


async def test_two_threads_write_it(local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two logs of one process that write their marks at the same time take no file from each other."""
    await append(local_log, b"a")
    other = await opened(local_path)
    first_waits, first_may_go, real = threading.Event(), threading.Event(), os.fsync

    def fsync(file: int) -> None:
        if not first_waits.is_set():
            first_waits.set()
            assert first_may_go.wait(60)
        real(file)

    with monkeypatch.context() as patched, captured_lines() as lines:
        patched.setattr("slotlog.log.embedded.proof.mark.os.fsync", fsync)
        writing = asyncio.create_task(write_mark(local_log))
        assert await asyncio.to_thread(first_waits.wait, 60)
        await write_mark(other)
        first_may_go.set()
        await writing
    await other.close()

    assert [] == [line["event"] for line in lines if line["event"].startswith("head_mark")]
    assert [1, 0] == heads(local_path)
    assert [] == list(local_path.parent.glob("*.new"))


async def test_closed_while_it_is_written(
    local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close waits for the mark that is being written, and writes the last one then."""
    await append(local_log, b"a")
    keeper, order = local_log._mark_keeper, list[str]()
    assert keeper is not None
    begun, may_end, real = threading.Event(), threading.Event(), keeper._mark.write

    def write(*arguments: Any) -> None:
        order.append("begins")
        begun.set()
        assert may_end.wait(60)
        real(*arguments)
        order.append("ends")

    monkeypatch.setattr(mark_keeper, "_MARK_SECONDS", 0.001)
    monkeypatch.setattr(keeper._mark, "write", write)
    assert await asyncio.to_thread(begun.wait, 60)
    await append(local_log, b"b")
    closing = asyncio.create_task(local_log.close())
    await asyncio.sleep(0.05)  # a close that does not wait has begun another one by now
    may_end.set()
    await closing

    assert ["begins", "ends"] * 2 == order
    assert [2, 0] == heads(local_path)


class FailingReads:
    """Stands for a function that reads the file: its calls fail by the codes of SQLite, one after the other."""

    def __init__(self, function: Callable[..., Any], codes: Sequence[int]) -> None:
        self._function = function
        self.codes = list(codes)

    def __call__(self, *arguments: Any) -> Any:
        """Fail, or do what the function does."""
        if not self.codes:
            return self._function(*arguments)
        error = sqlite3.DatabaseError("disk I/O error")
        error.sqlite_errorcode = self.codes.pop(0)
        raise error


CODES = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_CORRUPT)


@pytest.mark.parametrize("name", ["file.file._identity", "proof.mark.head_of", "proof.mark.link_at"])
async def test_failing_read_beside_the_mark(
    marked: EmbeddedLog, local_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A read that fails while the log is held against the mark is tried again: the log opens, and a shorter one not."""
    monkeypatch.setattr("slotlog.log.embedded.file.file.TRY_AGAIN_SECONDS", (0, 0))
    await append(marked, b"behind the mark")  # so that the mark's link is that of a record
    whole = await copied(marked, local_path, tmp_path / "whole")
    older = await copied(marked, local_path, tmp_path / "older")
    connection = sqlite3.connect(older)
    head = head_of(connection, 0)
    if name == "proof.mark.link_at":  # as long as the mark says, but of other records
        before = bytes(4)
        link = link_behind(before, [(9, 1, None, b"other")])
        connection.execute("REPLACE INTO records VALUES (9, 1, NULL, ?, ?)", (b"other", before + link))
    else:
        set_head(connection, 0, head._replace(next_offset=9))
    connection.commit()
    connection.close()
    module, function = name.rsplit(".", 1)
    failing = FailingReads(getattr(sys.modules[f"slotlog.log.embedded.{module}"], function), CODES)
    monkeypatch.setattr(f"slotlog.log.embedded.{name}", failing)

    assert await end_offset(whole) == 11
    assert [] == failing.codes
    failing.codes += CODES
    with pytest.raises(LogMismatchError):
        await opened(older)
    assert [] == failing.codes


@pytest.mark.parametrize("name", ["file.file._identity", "proof.mark.head_of"])
async def test_mark_that_cannot_be_looked_at(
    marked: EmbeddedLog, local_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A disk that goes on failing ends the start: no log is opened that was not held against its mark."""
    monkeypatch.setattr("slotlog.log.embedded.file.file.TRY_AGAIN_SECONDS", (0, 0))
    whole = await copied(marked, local_path, tmp_path / "whole")
    monkeypatch.setattr(f"slotlog.log.embedded.{name}", FailingReads(head_of, [sqlite3.SQLITE_IOERR_READ] * 99))

    with pytest.raises(LogUnavailableError, match="cannot be used: disk I/O error"):
        await opened(whole)


async def test_dead_letters_lost_with_the_wal(marked: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """A `-wal` that has all records, and lacks the last change of dead letters, is refused; reading counts as none."""
    letters = EmbeddedDeadLetters(marked)
    await letters.store([DeadLetter("t", 0, 3, 1000, "no event", None, b"x", ())])
    await letters.read()
    await write_mark(marked)
    copy = await copied(marked, local_path, tmp_path / "copy.db")
    assert 10 == await end_offset(await copied(marked, local_path, tmp_path / "sound.db"))
    await _damaged_wal(copy)

    with pytest.raises(LogMismatchError, match="lacks the last 1 of its changes to dead letters") as raised:
        await opened(copy)

    assert raised.value.kind is Mismatch.TRUNCATED
    beside(copy, "-head").unlink()
    assert 10 == await end_offset(copy)


async def test_works_that_are_counted_from_one_again(marked: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """When SQLite's field is full, the next change makes it 1: the log opens, and one that lacks it is refused."""
    assert marked._connection is not None
    marked._connection.execute(f"PRAGMA user_version = {WORKS_MAX}")
    await write_mark(marked)
    letters = EmbeddedDeadLetters(marked)
    await letters.store([DeadLetter("t", 0, 3, 1000, "no event", None, b"x", ())])

    assert 1 == works_of(marked._connection)
    assert 10 == await end_offset(await copied(marked, local_path, tmp_path / "ahead.db"))
    await write_mark(marked)
    assert 10 == await end_offset(await copied(marked, local_path, tmp_path / "sound.db"))
    marked._connection.execute(f"PRAGMA user_version = {WORKS_MAX}")
    with pytest.raises(LogMismatchError, match="lacks the last 1 of its changes to dead letters"):
        await opened(await copied(marked, local_path, tmp_path / "behind.db"))


async def test_mark_without_works(marked: EmbeddedLog, local_path: Path) -> None:
    """A mark that an older release wrote is held against the log as well."""
    await marked.close()
    said = json.loads(beside(local_path, "-head").read_bytes())
    assert 0 == said.pop("works")
    beside(local_path, "-head").write_text(json.dumps(said))

    assert 10 == await end_offset(local_path)
    said["heads"][0][0] = 9
    beside(local_path, "-head").write_text(json.dumps(said))
    with captured_lines() as logs:
        assert 10 == await end_offset(local_path)
    assert "head_mark_unreadable" in [line["event"] for line in logs]

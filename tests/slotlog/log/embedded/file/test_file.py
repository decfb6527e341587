"""An embedded log that is another file than the state's, or no log at all, is refused with the reason."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from stat import S_IMODE
from types import SimpleNamespace
from typing import Any

import pytest

from slotlog.errors import LogMismatchError, LogRecordError, LogUnavailableError, Mismatch
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file import file as local_file
from tests.slotlog.log.reading import append, last_record, read


def forget_mark(path: Path) -> None:
    """Take away what says how far the log was: the state is to notice by itself."""
    path.with_name(f"{path.name}-head").unlink()


async def refused(path: Path, *, topic: str = "t", partitions: int = 2, create: bool = True) -> LogMismatchError:
    """What `start` raises."""
    with pytest.raises(LogMismatchError) as raised:
        await EmbeddedLog(path, topic=topic, partitions=partitions, create=create).start()
    return raised.value


async def test_other_topic(local_log: EmbeddedLog, local_path: Path) -> None:
    """A file that holds another topic is refused."""
    error = await refused(local_path, topic="other")

    assert error.kind is Mismatch.TOPIC
    assert "holds the topic 't', but was opened as 'other'" in str(error)


async def test_recreated(local_log: EmbeddedLog, local_path: Path) -> None:
    """A log that was deleted and made again is another log, though it holds the same records at the same times."""
    await local_log.append([Entry(0, b"", b"a", 1)])
    fingerprint = local_log.fingerprint(0, await last_record(local_log))
    await local_log.close()
    local_path.unlink()
    forget_mark(local_path)
    again = EmbeddedLog(local_path, topic="t", partitions=2)
    await again.start()
    await again.append([Entry(0, b"", b"a", 1)])

    with pytest.raises(LogMismatchError, match="is another log than the one that the state was built from") as raised:
        await again.check(0, 1, fingerprint)
    assert raised.value.kind is Mismatch.RECREATED
    await again.close()


async def test_restored_from_a_copy(local_log: EmbeddedLog, local_path: Path, tmp_path: Path) -> None:
    """An older copy of the same log is noticed: at once while it is shorter, and when it has grown past the state."""
    await append(local_log, b"a")
    await local_log.close()
    shutil.copy(local_path, tmp_path / "copy")
    original = EmbeddedLog(local_path, topic="t", partitions=2)
    await original.start()
    await append(original, b"b")
    fingerprint = original.fingerprint(0, await last_record(original))
    await original.close()
    shutil.copy(tmp_path / "copy", local_path)
    forget_mark(local_path)
    restored = EmbeddedLog(local_path, topic="t", partitions=2)
    await restored.start()

    with pytest.raises(LogMismatchError, match="restored from an older copy") as raised:
        await restored.check(0, 2, fingerprint)
    assert raised.value.kind is Mismatch.TRUNCATED
    await append(restored, b"other", b"more")
    with pytest.raises(LogMismatchError, match="another record at offset 1") as raised:
        await restored.check(0, 2, fingerprint)
    assert raised.value.kind is Mismatch.RECREATED
    await restored.close()


async def test_exchanged_while_open(local_log: EmbeddedLog, local_path: Path) -> None:
    """A file that is deleted or replaced while the log is open takes no more appends: they would be lost with it."""
    await append(local_log, b"a")
    local_path.rename(local_path.with_suffix(".away"))
    for exchanged in (False, True):
        if exchanged:
            other = EmbeddedLog(local_path, topic="t", partitions=2)
            await other.start()
            await other.close()
        with pytest.raises(LogMismatchError, match="was deleted or exchanged while it was open"):
            await append(local_log, b"b")

    with pytest.raises(LogMismatchError):
        await local_log.check(0, 1, local_log.fingerprint(0, (0, 1, b"", b"a")))


async def test_an_empty_file(local_path: Path) -> None:
    """A file of no bytes is said to be empty, not to be somebody else's; who only reads leaves it as it is."""
    local_path.touch()
    error = await refused(local_path, create=False)

    said = f"{local_path} is empty: there is no log in it. If there was one, bring it back from a copy"
    assert (Mismatch.TOPIC, said, b"") == (error.kind, str(error), local_path.read_bytes())


@pytest.mark.parametrize("create", [True, False])
async def test_foreign_database(local_path: Path, create: bool) -> None:
    """An SQLite file of somebody else is refused and left as it is."""
    with sqlite3.connect(local_path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()

    error = await refused(local_path, create=create)

    assert error.kind is Mismatch.TOPIC
    assert "is an SQLite file, but not a log of slotlog" in str(error)
    connection = sqlite3.connect(local_path)
    assert [("theirs",)] == connection.execute("SELECT name FROM sqlite_schema").fetchall()
    assert ("delete",) == connection.execute("PRAGMA journal_mode").fetchone()
    connection.close()


async def test_no_database(local_path: Path) -> None:
    """A file that is no SQLite file is refused and left as it is."""
    local_path.write_bytes(b"not a database" * 100)

    error = await refused(local_path)

    assert error.kind is Mismatch.TOPIC
    assert local_path.read_bytes() == b"not a database" * 100


async def test_newer_format(local_log: EmbeddedLog, local_path: Path) -> None:
    """A log of a newer format is refused."""
    await local_log.write(lambda connection: connection.execute("UPDATE log SET format = 4"))

    error = await refused(local_path)

    assert error.kind is Mismatch.SETTINGS
    assert "has format 4, and this version knows 3" in str(error)


async def test_damaged_file(local_log: EmbeddedLog, local_path: Path) -> None:
    """A page that is damaged on disk is named as damage."""
    await append(local_log, *[b"x" * 1000] * 100)
    await local_log.close()
    content = bytearray(local_path.read_bytes())
    content[-60_000:-20_000] = b"\xff" * 40_000
    local_path.write_bytes(content)
    again = EmbeddedLog(local_path, topic="t", partitions=2)
    await again.start()

    with pytest.raises(LogRecordError, match=r"partition 0: the record at offset \d+ cannot be read: .* is damaged"):
        await read(again.reader({0: 0}), 100)
    await again.close()


class Overtaken(sqlite3.Connection):
    """A connection behind whose first statement another process makes the log."""

    made = False

    def execute(self, sql: str, *parameters: Any) -> Any:
        """The statement, with its first row; then the log is made."""
        row = super().execute(sql, *parameters).fetchone()
        if not self.made:
            self.made = True
            path = Path(super().execute("PRAGMA database_list").fetchone()[2])
            other = local_file.connect(path, create=True)
            local_file.create_tables(other, "t", 2)
            other.close()
        return SimpleNamespace(fetchone=lambda: row)


def test_two_that_start_at_once(tmp_path: Path) -> None:
    """A log that another process makes between two looks at the file is a log, and none of somebody else."""
    connection = sqlite3.connect(tmp_path / "log", factory=Overtaken, isolation_level=None)
    try:
        local_file._refuse_foreign(connection, tmp_path / "log")
    finally:
        connection.close()

    assert connection.made


@pytest.mark.parametrize(("free", "said"), [(0, True), (1 << 30, False)])
def test_a_disk_without_any_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, said: bool) -> None:
    """SQLite calls it an I/O error when it cannot make what a reader needs beside the file; we say what to do."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))

    text = str(local_file.translated(error, tmp_path / "log"))

    assert (True, said) == ("cannot be used" in text, "its disk is full: make room" in text)


def modes(log: Path) -> dict[str, int]:
    """The rights of a log's directory and of all that is in it, by what stands behind its name."""
    found = {each.name.removeprefix(log.name): S_IMODE(each.stat().st_mode) for each in log.parent.iterdir()}
    return {"directory": S_IMODE(log.parent.stat().st_mode), **found}


async def test_a_new_log_is_for_its_owner(tmp_path: Path) -> None:
    """The directory of a new log is 700, its file and those beside it 600; what is there keeps its mode."""
    path = tmp_path / "made" / "log.sqlite3"
    for file_mode, directory_mode in ((0o600, 0o700), (0o640, 0o750)):
        log = EmbeddedLog(path, topic="t", partitions=2)
        await log.start()
        await append(log, b"a")
        await log.claims("a worker", [0])
        private = {"directory": directory_mode, "": file_mode, "-wal": file_mode, "-shm": file_mode, "-owners": 0o700}
        assert private == {name: mode for name, mode in modes(path).items() if name != "-head"}
        await log.close()
        assert file_mode == modes(path)["-head"]

        path.chmod(0o640)
        path.parent.chmod(0o750)


async def test_a_directory_where_no_log_can_be_made(tmp_path: Path) -> None:
    """Where the file cannot be made, the error names it and the reason."""
    (tmp_path / "log.sqlite3").symlink_to(tmp_path)
    with pytest.raises(LogUnavailableError, match="unable to open database file"):
        await EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=2).start()
    with pytest.raises(LogUnavailableError, match=r"the log /proc/self/log cannot be made: "):
        await EmbeddedLog(Path("/proc/self/log"), topic="t", partitions=2).start()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY])
def test_a_file_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Where SQLite may not write beside the log, the error says that readers write too, and what to do."""
    failed = sqlite3.OperationalError("unable to open database file")
    failed.sqlite_errorcode = code
    path = tmp_path / "log"
    path.touch()
    otherwise = local_file.translated(failed, path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    denied = local_file.translated(failed, path)

    assert f"the log {path} cannot be used: unable to open database file" == str(otherwise)
    assert str(denied).startswith(f"{otherwise}. Who reads a log writes as well: locks, and SQLite's -wal and -shm")
    assert "copy the file (a backup, or while no service runs) to where you can write" in str(denied)

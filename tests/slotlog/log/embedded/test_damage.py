"""Damaged records of the embedded log are named by their place, and never returned."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from slotlog.errors import LogDamagedError, LogRecordError, LogUnavailableError
from slotlog.log import Entry, LogRecord
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.chain import DAMAGED, LOST, MOVED, link_behind
from slotlog.log.embedded.file.file import steadily, translated
from slotlog.log.embedded.file.heads import head_of, set_head
from slotlog.log.embedded.proof.scan import Damage, PartitionScan
from slotlog.log.embedded.reader import EmbeddedReader
from tests.slotlog.lines import captured_lines
from tests.slotlog.log.reading import append, last_record, read

RECORDS = 10


def change(path: Path, statement: str, *values: Any) -> None:
    """Change the file behind the log's back."""
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


@pytest.fixture
async def filled(local_log: EmbeddedLog) -> EmbeddedLog:
    """A log with records in both of its partitions."""
    for partition in (0, 1):
        await local_log.append(
            [Entry(partition, b"\0\7", b"%d" % (n + 100 * partition), 1000 + n) for n in range(RECORDS)]
        )
    return local_log


async def read_up_to_damage(
    reader: EmbeddedReader, partition: int = 0, *, records_max: int = 1000
) -> tuple[list[LogRecord], LogRecordError]:
    """What a reader gives of a partition, and what it then says."""
    records: list[LogRecord] = []
    while True:
        try:
            records += (await reader.fetch(0, records_max)).get(partition, [])
        except LogRecordError as error:
            return records, error


CHANGES = {
    "a value": ("UPDATE records SET value = x'ff' WHERE position = 4", 4, DAMAGED),
    "a value of no bytes": ("UPDATE records SET value = x'' WHERE position = 4", 4, DAMAGED),
    "a value of another type": ("UPDATE records SET value = '4' WHERE position = 4", 4, DAMAGED),
    "a key": ("UPDATE records SET key = x'0008' WHERE position = 4", 4, DAMAGED),
    "no key": ("UPDATE records SET key = NULL WHERE position = 4", 4, DAMAGED),
    "a time": ("UPDATE records SET time_ms = 1005 WHERE position = 4", 4, DAMAGED),
    "a time of another type": ("UPDATE records SET time_ms = 'soon' WHERE position = 4", 4, DAMAGED),
    "a value and its seal": ("UPDATE records SET value = x'ff', seal = NULL WHERE position = 4", 4, DAMAGED),
    "the last value and its seal": ("UPDATE records SET value = x'ff', seal = x'00' WHERE position = 9", 9, DAMAGED),
    "lost in the middle": ("DELETE FROM records WHERE position IN (4, 5)", 4, LOST),
    "lost at the end": ("DELETE FROM records WHERE position = 9", 9, LOST),
    "lost at the begin": ("DELETE FROM records WHERE position = 0", 0, LOST),
    "all lost": ("DELETE FROM records", 0, LOST),
    "moved along": ("UPDATE records SET position = 10 WHERE position = 9", 9, LOST),
    "moved from elsewhere": (
        "REPLACE INTO records SELECT 4, time_ms, key, value, seal FROM records WHERE position = 5",
        4,
        DAMAGED,
    ),
    "moved from another partition": (
        "REPLACE INTO records SELECT 4, time_ms, key, value, seal FROM records WHERE position = (1 << 48) | 4",
        4,
        MOVED,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_damaged_record(filled: EmbeddedLog, local_path: Path, name: str) -> None:
    """A reader gives what stands before a damaged record, then names it, and stays before it."""
    statement, offset, reason = CHANGES[name]
    change(local_path, statement)
    reader = filled.reader({0: 0})

    records, error = await read_up_to_damage(reader)

    assert [(n, 1000 + n, b"\0\7", b"%d" % n) for n in range(offset)] == records
    assert (0, offset, offset) == (error.partition, error.offset, reader.position(0))
    assert f"partition 0: the record at offset {offset} cannot be read: {reason}. Bring {local_path} back" in str(error)
    assert f"`slotlog skip 0 {offset}`" in str(error)


@pytest.mark.parametrize("seal", ["zeroblob(8)", "zeroblob(32)", "x'00'", "NULL", "7", "'text'"])
@pytest.mark.parametrize("records_max", [1, 3, 1000])
async def test_damaged_seal(filled: EmbeddedLog, local_path: Path, seal: str, records_max: int) -> None:
    """Of a record whose seal alone is damaged those before and behind prove what it is; the scan names it."""
    change(local_path, f"UPDATE records SET seal = {seal} WHERE position = 4")  # noqa: S608
    reader = filled.reader({0: 0})

    if records_max == 1:  # nobody behind it is read
        records, error = await read_up_to_damage(reader, records_max=1)
        assert (4, [0, 1, 2, 3]) == (error.offset, [record[0] for record in records])
    else:
        records = (await read(reader, RECORDS, records_max=records_max))[0]
        assert [(n, 1000 + n, b"\0\7", b"%d" % n) for n in range(RECORDS)] == records
    connection = sqlite3.connect(local_path)
    damages, _ = PartitionScan(0).slice(connection, 1000, 1000)
    connection.close()
    assert [Damage("record", DAMAGED, 0, 4)] == damages


async def test_the_other_partition_goes_on(filled: EmbeddedLog, local_path: Path) -> None:
    """Damage in one partition keeps nobody from the other, once the damaged one is paused."""
    change(local_path, "UPDATE records SET value = x'ff' WHERE position = 0")
    reader = filled.reader({0: 0, 1: 0})
    with pytest.raises(LogRecordError):
        await reader.fetch(0, 1000)
    reader.pause(0)

    assert RECORDS == len((await read(reader, RECORDS))[1])


async def test_on_behind_a_damaged_record(filled: EmbeddedLog, local_path: Path) -> None:
    """Whoever goes past a damaged or lost record reads what stands behind it."""
    change(local_path, "UPDATE records SET value = x'ff', seal = NULL WHERE position = 3")
    change(local_path, "DELETE FROM records WHERE position = 6")
    reader = filled.reader({0: 0})
    await read_up_to_damage(reader)
    reader.seek(0, 4)

    records, error = await read_up_to_damage(reader)

    assert ([4, 5], 6) == ([record[0] for record in records], error.offset)
    reader.seek(0, 7)
    assert [7, 8, 9] == [record[0] for record in (await read(reader, 3))[0]]


async def test_exchanged_with_a_good_seal(filled: EmbeddedLog, local_path: Path) -> None:
    """A record that was put in another's place, with a seal of its own, does not follow the one before it."""
    before = bytes(4)
    seal = before + link_behind(before, [(4, 1004, None, b"forged")])
    change(local_path, "UPDATE records SET key = NULL, value = ?, seal = ? WHERE position = 4", b"forged", seal)

    for begin in (0, 4):
        records, error = await read_up_to_damage(filled.reader({0: begin}))
        assert list(range(begin, 4)) == [record[0] for record in records]
        assert (4, True) == (error.offset, MOVED in str(error))


async def test_exchanged_with_a_good_seal_behind_a_trim(filled: EmbeddedLog, local_path: Path) -> None:
    """The first record that a trim leaves has to follow the last one that it took away."""
    await filled.trim(0, 5)
    before = bytes(4)
    seal = before + link_behind(before, [(5, 1005, None, b"forged")])
    change(local_path, "UPDATE records SET key = NULL, value = ?, seal = ? WHERE position = 5", b"forged", seal)

    records, error = await read_up_to_damage(filled.reader({0: 5}))

    assert ([], 5, True) == (records, error.offset, MOVED in str(error))


async def test_gone_on_from_the_link_that_was_read(filled: EmbeddedLog, local_path: Path) -> None:
    """A reader holds the next page against the last record that it gave, not against what the file now says of it."""
    reader = filled.reader({0: 0})
    await read(reader, RECORDS)
    before = bytes(4)
    for position in (8, 9):  # a history of their own, whole from any place in it
        link = link_behind(before, [(position, 1, None, b"other")])
        change(
            local_path,
            "REPLACE INTO records VALUES (?, 1, NULL, ?, ?)",
            position,
            b"other",
            before + link,
        )
        before = link
    connection = sqlite3.connect(local_path)
    head = head_of(connection, 0)._replace(link=before)
    set_head(connection, 0, head)
    connection.commit()
    connection.close()
    await append(filled, b"next")

    _, error = await read_up_to_damage(reader)

    assert (10, True) == (error.offset, MOVED in str(error))


@pytest.mark.parametrize("column", ["next_offset", "last_time_ms", "begin_offset", "link", "sum"])
async def test_damaged_head(filled: EmbeddedLog, local_path: Path, column: str) -> None:
    """A partition of which the file does not say how far it reaches takes no append and gives no record."""
    change(local_path, f"UPDATE partitions SET {column} = 3 WHERE partition = 0")  # noqa: S608
    said = "partition 0 of the log is damaged where the file says how far it reaches"

    with pytest.raises(LogRecordError, match=said):
        await filled.reader({0: 0}).fetch(0, 10)
    with pytest.raises(LogDamagedError, match=said):
        await append(filled, b"x")
    with pytest.raises(LogDamagedError, match=said):
        filled.append_at_once([Entry(0, b"", b"x")])
    with pytest.raises(LogDamagedError, match=said):
        await filled.end_offset(0)
    with pytest.raises(LogDamagedError, match=said):
        await filled.check(0, 3, None)
    assert [(1, RECORDS)] == await append(filled, b"x", partition=1)


@pytest.mark.parametrize("column", ["id", "topic", "partitions", "sum"])
async def test_damaged_identity(filled: EmbeddedLog, local_path: Path, column: str) -> None:
    """A file whose row of `log` is not what was written is damaged, not another log, to who opens and who reads it."""
    reader = filled.reader({0: 0})
    change(local_path, f"UPDATE log SET {column} = 3")  # noqa: S608

    with pytest.raises(LogDamagedError, match="the table `log` is not as it was written"):
        await EmbeddedLog(local_path, topic="t", partitions=2).start()
    if column == "id":
        with pytest.raises(LogDamagedError, match="the table `log` is not as it was written"):
            await reader.fetch(0, 10)


async def test_damaged_definition(filled: EmbeddedLog, local_path: Path) -> None:
    """A table whose definition is not what slotlog writes would give other rows: the file is damaged."""
    connection = sqlite3.connect(local_path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'time_ms', 'tame_ms') WHERE name = 'records'")
    connection.commit()
    connection.close()

    with pytest.raises(LogDamagedError, match="the definition of the table 'records' is not what slotlog writes"):
        await EmbeddedLog(local_path, topic="t", partitions=2).start()


async def test_missing_table(filled: EmbeddedLog, local_path: Path) -> None:
    """So it is without one of its tables."""
    change(local_path, "DROP TABLE dead_letters")

    with pytest.raises(LogDamagedError, match="the table 'dead_letters' is missing"):
        await EmbeddedLog(local_path, topic="t", partitions=2).start()


async def test_check_at_a_damaged_record(filled: EmbeddedLog, local_path: Path) -> None:
    """A state that has applied a record before it was damaged goes on; one that applied another record does not."""
    fingerprint = filled.fingerprint(0, await last_record(filled))
    change(local_path, "UPDATE records SET value = x'ff' WHERE position = 9")

    await filled.check(0, RECORDS, fingerprint)


async def test_time_of_a_damaged_record(filled: EmbeddedLog, local_path: Path) -> None:
    """A search by time does not go by the time of a damaged record."""
    change(local_path, "UPDATE records SET time_ms = 99999 WHERE position = 5")

    with pytest.raises(LogRecordError, match="the record at offset 5"):
        await filled.offset_at(0, 1004)


async def test_trim_at_a_damaged_record(filled: EmbeddedLog, local_path: Path) -> None:
    """A trim keeps the link of the last record that it takes away; from a damaged one there is none to keep."""
    change(local_path, "UPDATE records SET value = x'ff' WHERE position = 3")
    with pytest.raises(LogRecordError, match="the record at offset 3"):
        await filled.trim(0, 4)
    assert await filled.trim(0, 5) == 5

    assert [5, 6, 7, 8, 9] == [record[0] for record in (await read(filled.reader({0: 5}), 5))[0]]
    change(local_path, "DELETE FROM records WHERE position = 5")
    _, error = await read_up_to_damage(filled.reader({0: 5}))
    assert (error.offset, await filled.begin_offset(0)) == (5, 5)


async def test_one_failing_read(filled: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that cannot read something once is asked again: nothing is damaged."""
    monkeypatch.setattr("slotlog.log.embedded.file.file.TRY_AGAIN_SECONDS", (0, 0, 0))
    failures = iter([sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_CORRUPT])

    def failing(*arguments: Any) -> Any:
        code = next(failures, None)
        if code is None:
            return head_of(*arguments)
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr("slotlog.log.embedded.reader.head_of", failing)

    assert RECORDS == len((await read(filled.reader({0: 0}), RECORDS))[0])
    assert [] == list(failures)


async def test_an_attempt_is_no_verdict(filled: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log line of a failed read says what SQLite said, or that a check failed: damage is what fails each time."""
    monkeypatch.setattr("slotlog.log.embedded.file.file.TRY_AGAIN_SECONDS", (0, 0, 0))
    malformed = sqlite3.DatabaseError("database disk image is malformed")
    malformed.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    errors = [LogDamagedError("is damaged"), translated(malformed, local_path), malformed]
    errors[1].__cause__ = malformed

    async def ask() -> int:
        if errors:
            raise errors.pop()
        return 1

    with captured_lines() as lines:
        assert 1 == await steadily(ask, local_path)

    assert ["SQLite: database disk image is malformed"] * 2 + ["what was read is not what slotlog writes"] == [
        line["error"] for line in lines
    ]
    assert {"log_read_failed"} == {line["event"] for line in lines}
    assert not [line for line in lines if "is damaged" in str(line)]


async def test_one_failing_read_at_the_opening(
    filled: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it when the log is opened; a disk that fails again is named."""
    failures = [sqlite3.SQLITE_IOERR_READ]

    def failing(*arguments: Any) -> None:
        if failures:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = failures.pop()
            raise error

    monkeypatch.setattr("slotlog.log.embedded.file.file._refuse_foreign", failing)
    again = EmbeddedLog(local_path, topic="t", partitions=2)
    await again.start()
    assert RECORDS == await again.end_offset(0)
    await again.close()

    monkeypatch.setattr("slotlog.log.embedded.file.file.TRY_AGAIN_SECONDS", (0, 0))
    failures += [sqlite3.SQLITE_IOERR_READ] * 6
    with pytest.raises(LogUnavailableError, match="cannot be used: disk I/O error"):
        await EmbeddedLog(local_path, topic="t", partitions=2).start()
    assert [] == failures


async def test_concurrent_appends_stay_one_chain(filled: EmbeddedLog, local_path: Path) -> None:
    """Appends in the loop and by the writer's thread, for one partition and several, are one chain each."""
    for n in range(20):
        appending = asyncio.create_task(filled.append([Entry(n % 2, b"", b"a"), Entry(0, None, b"b")]))
        filled.append_at_once([Entry(0, b"", b"c")])
        await appending
    end = await filled.end_offset(0)

    assert end == len((await read(filled.reader({0: 0}), end))[0])


async def test_one_failing_read_of_an_end(filled: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it when the log is asked how far it goes, by whoever has it open and by who only asks that."""
    monkeypatch.setattr("slotlog.log.embedded.file.file.TRY_AGAIN_SECONDS", (0, 0))
    codes: list[int] = []

    def failing(connection: sqlite3.Connection, partition: int) -> Any:
        if not codes:
            return head_of(connection, partition)
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = codes.pop()
        raise error

    monkeypatch.setattr("slotlog.log.embedded.embedded_log.head_of", failing)
    codes += [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR]
    assert RECORDS == await filled.end_offset(0)
    assert [] == codes
    codes += [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR]
    assert {0: RECORDS} == await filled.ends([0])
    assert [] == codes

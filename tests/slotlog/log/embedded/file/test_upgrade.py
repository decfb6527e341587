"""Opening a log of format 1 or 2 upgrades it to format 3."""

# ruff: noqa: ASYNC240 - files of a test are small, and nothing else runs in its loop

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingest.dead_letters.embedded_finding import EmbeddedDeadLetterSearch
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from ingest.dead_letters.found import Wanted
from slotlog.errors import LogDamagedError, LogMismatchError, LogRecordError
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file import upgrade
from slotlog.log.embedded.file.chain import sum_of
from slotlog.log.embedded.file.tables import SET_BACKS
from slotlog.log.embedded.proof.scan import scan_letters
from tests.slotlog.log.reading import append, read

VECTORS = Path(__file__).parents[4] / "vectors"
"""What SQLite's dump says of one log that slotlogs of format 1 and 2 have written, trimmed, with dead letters."""

MARK_OF_2: dict[str, Any] = {
    "log": "0e5ff76b3e6d8c6171c9da4d983cf62a",
    "heads": [
        [4, "d0ca50d19afce5738f63935424d9ea71"],
        [3, "422f96d3dac61a0f67d659be68bef016"],
        [0, "b784300e4bb03c5b3acfacaf989a1bd2"],
    ],
    "sum": "32c2f1f461b8ab2606b34b7eb91abee3",
}
"""What the file LOG-head beside the log of format 2 said."""

TIME_MS = 1_700_000_000_000
EVENT = b"\x83\xa1v\x01\xa3cmd\xa3SET\xa4args\x92\xc4\x02a%d\xc4\x02v%d"


def made(path: Path, log_format: int) -> Path:
    """A log of an older format."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript((VECTORS / f"log-format-{log_format}.sql").read_text())
    return path


@pytest.fixture(params=[1, 2])
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A log of format 1, and one of format 2."""
    return made(tmp_path / "old.sqlite3", request.param)


async def opened(path: Path, *, create: bool = True) -> EmbeddedLog:
    """The log, started."""
    log = EmbeddedLog(path, topic="t", partitions=3, create=create)
    await log.start()
    return log


@pytest.mark.parametrize("create", [True, False])
async def test_upgrade(old: Path, create: bool) -> None:
    """Every record, dead letter and mark is there as it was, and offsets, times and positions go on."""
    log = await opened(old, create=create)

    records = await read(log.reader({0: 2, 1: 0, 2: 0}), 5)
    assert [(n, TIME_MS + n, b"\0\7", EVENT % (n, n)) for n in (2, 3)] == records[0]
    assert [(0, TIME_MS + 9, None), (1, TIME_MS + 10, b""), (2, TIME_MS + 11, b"\0\1")] == [
        record[:3] for record in records[1]
    ]
    assert [(2, 4), (0, 3), (0, 0)] == [(await log.begin_offset(p), await log.end_offset(p)) for p in range(3)]
    letters = EmbeddedDeadLetters(log)
    page = await EmbeddedDeadLetterSearch(log).page(Wanted())
    assert ["not msgpack", "grüße"] == [letter.reason for letter in await letters.read()]
    assert [(1, 2), None] == [found.redriven for found in page]
    assert [(0, 4)] == await append(log, b"new")
    await log.check(0, 4, log.fingerprint(0, records[0][-1]))
    await log.close()


async def test_upgraded_is_like_a_new_one(old: Path, local_log: EmbeddedLog, local_path: Path) -> None:
    """An upgraded file has the tables of a new one, and what is damaged in it from then on shows."""
    log = await opened(old)
    await log.close()
    definitions = (
        "SELECT name, replace(replace(sql, char(10), ''), ' ', '') FROM sqlite_schema WHERE name IN (?, ?, ?, ?, ?)"
    )
    names = ("log", "partitions", "records", "dead_letters", "redriven")
    assert [] == await EmbeddedDeadLetterSearch(local_log).newest(1)
    with closing(sqlite3.connect(old)) as upgraded, closing(sqlite3.connect(local_path)) as new:
        assert set(new.execute(definitions, names)) == set(upgraded.execute(definitions, names))
        upgraded.execute("UPDATE records SET value = x'00' WHERE position = 3")
        upgraded.execute("UPDATE dead_letters SET reason = 'another' WHERE offset = 1")
        upgraded.commit()

    again = await opened(old)
    with pytest.raises(LogRecordError, match="the record at offset 3 "):
        await read(again.reader({0: 2}), 2)
    for reading in (EmbeddedDeadLetters(again).read(), EmbeddedDeadLetterSearch(again).page(Wanted())):
        with pytest.raises(LogDamagedError, match="the dead letter of partition 1, offset 1 is damaged"):
            await reading
    await again.close()


class KilledError(Exception):
    """The process is gone."""


@pytest.fixture
def one_row_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upgrades in the smallest slices."""
    monkeypatch.setattr(upgrade, "_SLICE_ROWS", 1)


@pytest.mark.usefixtures("one_row_a_slice")
@pytest.mark.parametrize("slices", range(9))
async def test_killed_upgrade(old: Path, monkeypatch: pytest.MonkeyPatch, slices: int) -> None:
    """An upgrade that is killed at any place is finished by the next one who opens the log."""
    with monkeypatch.context() as patched:
        seal_some = upgrade._seal_some
        calls: list[int] = []

        def killed(connection: sqlite3.Connection, partition: int) -> bool:
            calls.append(partition)
            if len(calls) > slices:
                raise KilledError
            return seal_some(connection, partition)

        patched.setattr(upgrade, "_seal_some", killed)
        if slices < 8:
            with pytest.raises(KilledError):
                await opened(old)
        else:
            await (await opened(old)).close()

    log = await opened(old)
    records = await read(log.reader({0: 2, 1: 0}), 5)
    assert ([2, 3], [0, 1, 2]) == tuple([record[0] for record in records[p]] for p in (0, 1))
    await log.close()


async def test_wrong_settings_upgrade_nothing(old: Path) -> None:
    """A log that is refused for its topic stays what it was."""
    before = old.read_bytes()
    with pytest.raises(LogMismatchError, match="holds the topic 't'"):
        await EmbeddedLog(old, topic="other", partitions=3).start()

    assert before == old.read_bytes()


async def assert_two_damaged(old: Path) -> None:
    """The upgraded log names records 2 of partition 0 and 1 of partition 1 as damaged, and gives those after them."""
    log = await opened(old)
    for partition, offset, left in ((0, 2, 3), (1, 1, 2)):
        with pytest.raises(LogRecordError, match=f"the record at offset {offset} "):
            await read(log.reader({partition: offset}), 1)
        assert left == (await read(log.reader({partition: left}), 1))[partition][0][0]
    await log.close()


async def test_holes_and_rows_of_no_record(old: Path) -> None:
    """What was missing or no record in the old file is named as damage in the new one; the rest can be read."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("DELETE FROM records WHERE position = ?", ((1 << 48) | 1,))
        connection.execute("UPDATE records SET time_ms = 'soon' WHERE position = 2")
        connection.commit()

    await assert_two_damaged(old)


async def test_damage_of_format_2_stays(tmp_path: Path) -> None:
    """A record that is not what its seal of format 2 says, or has none, is damaged in the new log as well."""
    old = made(tmp_path / "old.sqlite3", 2)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("UPDATE records SET value = x'00' WHERE position = 2")
        connection.execute("UPDATE records SET seal = NULL WHERE position = ?", ((1 << 48) | 1,))
        connection.commit()

    await assert_two_damaged(old)


async def test_damaged_end_of_format_2_stays(tmp_path: Path) -> None:
    """A partition of which a file of format 2 did not say how far it reaches stays so; the others are upgraded."""
    old = made(tmp_path / "old.sqlite3", 2)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("UPDATE partitions SET next_offset = 3 WHERE partition = 0")
        connection.commit()
    log = await opened(old)

    with pytest.raises(LogDamagedError, match="partition 0 of the log is damaged where the file says how far"):
        await log.end_offset(0)
    assert 3 == len((await read(log.reader({1: 0}), 3))[1])
    await log.close()


@pytest.mark.parametrize("behind", [False, True])
async def test_mark_of_format_2(tmp_path: Path, behind: bool) -> None:
    """The mark that was written beside a log of format 2 is held against it before the upgrade, and after one."""
    old = made(tmp_path / "old.sqlite3", 2)
    said = {**MARK_OF_2}
    if behind:
        said["heads"] = [[5, "00" * 16], *said["heads"][1:]]
        links = [(offset, bytes.fromhex(link)) for offset, link in said["heads"]]
        said["sum"] = sum_of(bytes.fromhex(said["log"]), links).hex()
    mark = old.with_name(f"{old.name}-head")
    mark.write_text(json.dumps(said))
    if behind:
        with pytest.raises(LogMismatchError, match="ends at offset 4, but 1 records after it were durable"):
            await opened(old)
        return

    for _ in range(2):
        log = await opened(old)
        await log.close()
        assert [4, 3, 0] == [offset for offset, _ in json.loads(mark.read_text())["heads"]]
        assert [8, 8, 8] == [len(link) for _, link in json.loads(mark.read_text())["heads"]]
        mark.write_text(json.dumps(said))  # as a kill right behind the upgrade leaves it


@pytest.mark.usefixtures("one_row_a_slice")
async def test_upgrade_to_format_2_that_was_not_finished(tmp_path: Path) -> None:
    """What has no seal yet, as a killed upgrade from format 1 to 2 has left it, gets one; what has one keeps to it."""
    old = made(tmp_path / "old.sqlite3", 2)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE upgrade (partition INTEGER PRIMARY KEY, next_offset INTEGER)")
        connection.execute("INSERT INTO upgrade VALUES (0, 3)")
        connection.execute("UPDATE records SET seal = NULL WHERE position = 3")
        connection.execute("UPDATE records SET value = x'00' WHERE position = 2")
        connection.commit()
    log = await opened(old)

    assert 3 == (await read(log.reader({0: 3}), 1))[0][0][0]
    with pytest.raises(LogRecordError, match="the record at offset 2 "):
        await read(log.reader({0: 2}), 1)
    await log.close()


async def test_times_set_back_in_format_2(tmp_path: Path) -> None:
    """Marks that times were set back, which had no checksums in format 2, get them; other definitions are refused."""
    old = made(tmp_path / "old.sqlite3", 2)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(SET_BACKS.replace(", sum BLOB", ""))
        connection.execute("INSERT INTO set_backs VALUES (1, 2)")
        connection.commit()
    log = await opened(old)
    with closing(sqlite3.connect(old)) as connection:
        assert [] == list(scan_letters(connection))
        assert [(1, 2, sum_of(1, 2))] == connection.execute("SELECT partition, offset, sum FROM set_backs").fetchall()
    assert 2 == await log.offset_at(1, TIME_MS + 11)
    await log.close()

    with closing(sqlite3.connect(old)) as connection:
        connection.execute("DROP TABLE set_backs")
        connection.execute(SET_BACKS.replace(", sum BLOB", ""))
    with pytest.raises(LogDamagedError, match="the definition of the table 'set_backs' is not what slotlog writes"):
        await opened(old)

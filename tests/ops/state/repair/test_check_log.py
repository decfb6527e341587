"""`slotlog check --log`: every damage of the embedded log by its place, and the rest counted as good."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ops.state.repair import check_log
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.chain import sum_of
from slotlog.log.embedded.file.heads import head_of, set_head
from slotlog.log.embedded.proof import scan
from tests.ops.verbs import run, succeed

RECORDS = 300
GOLDEN = Path(__file__).parents[3] / "vectors" / "log-format-1.sql"


@pytest.fixture
async def log_file(tmp_path: Path) -> Path:
    """A log of two partitions, the second trimmed; its mark is laid aside."""
    path = tmp_path / "log.sqlite3"
    log = EmbeddedLog(path, topic="slotlog", partitions=2)
    await log.start()
    for partition in (0, 1):
        await log.append([Entry(partition, b"\0\7", b"%d" % n * 50) for n in range(RECORDS)])
    await log.trim(1, 100)
    await log.close()
    path.with_name("log.sqlite3-head").rename(tmp_path / "kept")
    return path


def change(path: Path, *statements: str) -> None:
    """Change the file behind the log's back."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def words(path: Path) -> tuple[str, ...]:
    """The verb on this file."""
    return ("check", "--log", "--data", str(path.parent), "--partitions", "2")


def checked(path: Path) -> tuple[int, list[str], str]:
    """Exit code, lines and what stands on stderr."""
    result = run(*words(path))
    return result.exit_code, result.stdout.splitlines(), result.stderr


def test_sound(log_file: Path) -> None:
    """Exit code 0, and how many records there are of each partition."""
    (facts,) = [json.loads(line) for line in succeed(*words(log_file), "--json").splitlines()]

    assert [
        "partition 0: next offset 300, 300 records as written, all is well",
        "partition 1: next offset 300, 200 records as written, all is well",
    ] == succeed(*words(log_file)).splitlines()
    assert {
        "damages": 0,
        "partitions": [
            {"partition": 0, "next_offset": 300, "records": 300, "damages": 0},
            {"partition": 1, "next_offset": 300, "records": 200, "damages": 0},
        ],
    } == facts


@pytest.mark.parametrize(
    "words",
    [
        ("--log", "sqlite:///{file}"),
        ("--log=sqlite:///{file}",),
        ("--log", "sqlite:///{file}", "--log-itself"),
        ("--log", "--data", "{directory}"),
        ("--log-itself", "--data", "{directory}"),
        ("--log-itself", "--data", "{directory}/elsewhere", "--log", "sqlite:///{file}"),
    ],
)
def test_each_way_to_name_it(log_file: Path, words: tuple[str, ...]) -> None:
    """A log is looked through by its URL, or as that of a data directory; none of them needs a state."""
    change(log_file, "UPDATE records SET value = x'ff' WHERE position = 4")
    named = [word.format(file=log_file, directory=log_file.parent) for word in words]
    result = run("check", *named)

    assert (1, "partition 0: record at offset 4: it is not what was written") == (
        result.exit_code,
        result.stdout.splitlines()[0],
    )


def test_a_state_and_the_url_of_its_log(log_file: Path) -> None:
    """With --data beside the URL it is the state that is looked at."""
    result = run("check", "--data", log_file.parent, "--log", f"sqlite:///{log_file}")

    assert (1, True) == (result.exit_code, "has no state of partition 0" in result.stderr)


@pytest.mark.parametrize("slice_rows", [7, 10_000])
def test_every_damage_is_named(log_file: Path, slice_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, a line for each damage with its place, whatever else is damaged, and what to do."""
    monkeypatch.setattr(check_log, "_SLICE_ROWS", slice_rows)
    change(
        log_file,
        "UPDATE records SET value = x'ff' WHERE position = 0",
        "UPDATE records SET seal = NULL WHERE position IN (5, 6)",
        "DELETE FROM records WHERE position BETWEEN 20 AND 41",
        "DELETE FROM records WHERE position = 299",
        "UPDATE partitions SET next_offset = 7 WHERE partition = 1",
        "INSERT INTO records VALUES (1 << 49, 1, NULL, x'00', NULL)",
        "INSERT INTO dead_letters VALUES ('slotlog', 1, 7, 5, 'no event', NULL, x'00', x'90', x'00')",
    )
    code, lines, stderr = checked(log_file)

    assert [
        "partition 0: record at offset 0: it is not what was written",
        "partition 0: record at offset 5: it is not what was written",
        "partition 0: record at offset 6: it is not what was written",
        "partition 0: record at offsets 20 to 41: it is missing, though the file says that it was written",
        "partition 0: record at offset 299: it is missing, though the file says that it was written",
    ] == lines[:5]
    assert lines[5].startswith("partition 1: end: partition 1 of the log is damaged where the file says how far")
    assert [
        "partition 1: letter at offset 7: the dead letter is not what was stored",
        "file: 1 records are of no partition",
        "partition 0: next offset 300, 274 records as written, 26 damages",
        "partition 1: next offset 0, 0 records as written, 1 damage",
    ] == lines[6:]
    assert (1, "slotlog: bring the log's file back from a copy: nothing else knows what stood there\n") == (
        code,
        stderr,
    )


def test_damages_as_json(log_file: Path) -> None:
    """With --json a line for each damage, and a last line about all."""
    change(log_file, "DELETE FROM records WHERE position IN (5, 6)")
    result = run(*words(log_file), "--json")
    damage, facts = [json.loads(line) for line in result.stdout.splitlines()]

    expected: dict[str, Any] = {"kind": "record", "partition": 0, "offset": 5, "records": 2}
    assert expected == {name: damage[name] for name in expected}
    assert (1, 2) == (result.exit_code, facts["damages"])


def test_pages_that_cannot_be_read(log_file: Path) -> None:
    """What stands on a page that SQLite cannot read is named as a range; the rest is looked at."""
    with closing(sqlite3.connect(log_file)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(log_file.read_bytes())
    page = content.index(b"150" * 50) // size
    content[page * size : (page + 1) * size] = b"\xff" * size
    log_file.write_bytes(content)
    code, lines, _ = checked(log_file)

    assert (1, True) == (code, lines[0].startswith("partition 0: record at offsets "))
    assert "database disk image is malformed" in lines[0]
    first, last = (int(word) for word in lines[0].split("offsets ")[1].split(":")[0].split(" to "))
    assert (True, True) == (first <= 150 <= last, last - first < 100)
    assert any(line.startswith("file: ") for line in lines)
    assert f"partition 0: next offset 300, {300 - (last - first + 1)} records as written" in lines[-2]


def test_rows_outside_of_the_offsets(log_file: Path) -> None:
    """Records before the begin or behind the end of a partition are none that it has."""
    change(
        log_file,
        "INSERT INTO records VALUES ((1 << 48) + 99, 1, NULL, x'00', NULL)",
        "INSERT INTO records VALUES (300, 1, NULL, x'00', NULL)",
    )

    assert [
        "partition 0: end: 1 records stand outside of its offsets",
        "partition 1: end: 1 records stand outside of its offsets",
    ] == checked(log_file)[1][:2]


def test_other_end(log_file: Path) -> None:
    """A last record that is not the one that the head names is a damage, though both are whole."""
    with closing(sqlite3.connect(log_file)) as connection:
        set_head(connection, 0, head_of(connection, 0)._replace(link=bytes(16)))
        connection.commit()

    assert checked(log_file)[1][0].startswith("partition 0: end: the last record is another one than the file says: ")


def test_shorter_than_its_mark(log_file: Path) -> None:
    """A log that ends before the mark beside it is not looked at further: what is there is not all."""
    log_file.with_name("kept").rename(log_file.with_name("log.sqlite3-head"))
    with closing(sqlite3.connect(log_file)) as connection:
        head = head_of(connection, 0)
        set_head(connection, 0, head._replace(next_offset=299))
        connection.commit()
    code, lines, stderr = checked(log_file)

    assert (1, [], True) == (code, lines, "ends at offset 299, but 1 records after it were durable" in stderr)


def test_format_1(tmp_path: Path) -> None:
    """A log of format 1 has nothing to be held against: that is said, and it is left as it is."""
    path = tmp_path / "log.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(GOLDEN.read_text())
    before = path.read_bytes()
    result = run(*words(path))

    assert (1, True) == (
        result.exit_code,
        "has format 1, and this version holds records against the checksums of format 3" in result.stderr,
    )
    assert before == path.read_bytes()


def test_kafka(tmp_path: Path) -> None:
    """Kafka checks its records itself."""
    result = run("check", "--log-itself", "--log", "kafka://localhost:1", "--data", tmp_path)

    assert (1, True) == (result.exit_code, "Kafka's brokers and clients check each record" in result.stderr)


def test_no_log(tmp_path: Path) -> None:
    """A log that is not there is said to be so, and not made."""
    result = run(*words(tmp_path / "log.sqlite3"))

    assert (
        1,
        f"slotlog: there is no log at {tmp_path / 'log.sqlite3'}: name it with --data or --log\n",
    ) == (result.exit_code, result.stderr)
    assert [] == list(tmp_path.iterdir())


def beside(path: Path) -> dict[str, bytes]:
    """Files of its directory, by name; of SQLite's index, which a reader may make, nothing."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}


def left_behind(path: Path, mode: str, *statements: str) -> None:
    """Change the file as one does who is killed: what is not in the file yet stands beside it."""
    code = (
        "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"  # so that it writes into the file before the end, too
        "for statement in sys.argv[2:]: connection.execute(statement)\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, path, f"PRAGMA journal_mode = {mode}", *statements], check=True)


ROWS = "WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 300) SELECT zeroblob(500) AS a FROM n"


@pytest.mark.parametrize(
    ("whose", "said"),
    [
        ("nothing", "is empty: there is no log in it. If there was one, bring it back from a copy"),
        ("text", "is not a log of slotlog, nor any SQLite file"),
        ("a database", "is an SQLite file, but not a log of slotlog"),
        ("a -wal", "is an SQLite file, but not a log of slotlog"),
        ("a -journal", "is an SQLite file with a change half done in its -journal, which no log of slotlog has"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_no_log(tmp_path: Path, whose: str, said: str, as_json: bool) -> None:
    """A file that is no log is said to be none, and nothing is written into it or beside it."""
    path = tmp_path / "log.sqlite3"
    path.write_bytes(b"some text\n" * 500 if whose == "text" else b"")
    if whose == "a -wal":
        left_behind(path, "WAL", "CREATE TABLE theirs (a)")
    elif whose.startswith("a "):
        change(path, "CREATE TABLE theirs (a)")
    if whose == "a -journal":
        left_behind(path, "DELETE", "BEGIN", f"CREATE TABLE more AS {ROWS}")
    before = beside(path)
    result = run(*words(path), *["--json"] * as_json)
    error = json.loads(result.stdout)["error"] if as_json else result.stderr.removeprefix("slotlog: ").rstrip()

    assert (1, f"{path} {said}") == (result.exit_code, error)
    assert before == beside(path)


def test_a_log_whose_writer_was_killed(log_file: Path) -> None:
    """What stands beside the log alone is looked at, and stays there."""
    left_behind(log_file, "WAL", "DELETE FROM records WHERE position = 7")
    before = beside(log_file)
    code, lines, _ = checked(log_file)

    assert "partition 0: record at offset 7: it is missing, though the file says that it was written" == lines[0]
    assert (1, before) == (code, beside(log_file))


@pytest.mark.parametrize("function", ["head_of", "sum_of", "checked"])
def test_one_failing_read(log_file: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """What the disk fails to read once is looked at again, and is no damage."""
    change(log_file, "INSERT INTO dead_letters VALUES ('t', 0, 1, 2, 'r', NULL, NULL, x'90', NULL)")
    with closing(sqlite3.connect(log_file)) as connection:
        connection.create_function("sum_of", -1, sum_of)
        connection.execute("UPDATE dead_letters SET sum = sum_of('t', 0, 1, 2, 'r', NULL, NULL, x'90')")
        connection.commit()
    sound = checked(log_file)
    original, codes = getattr(scan, function), [sqlite3.SQLITE_CORRUPT]

    def failing(*arguments: Any) -> Any:
        if not codes:
            return original(*arguments)
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = codes.pop()
        raise error

    monkeypatch.setattr(scan, function, failing)

    assert sound == checked(log_file)
    assert (0, []) == (sound[0], codes)


def lost_records(line: str) -> int:
    """How many records a line names: one, or a range."""
    _, first, last = re.fullmatch(r".* at offset(s?) (\d+)(?: to (\d+))?: .*", line).groups()  # type: ignore[union-attr]
    return int(last or first) - int(first) + 1


@pytest.mark.parametrize("has_mark", [False, True])
def test_the_end_of_the_file_is_missing(log_file: Path, has_mark: bool) -> None:
    """What is left of a file that was cut off is looked at; what is missing is named, and nothing is written."""
    if has_mark:
        log_file.with_name("kept").rename(log_file.with_name("log.sqlite3-head"))
    whole = log_file.read_bytes()
    left = whole[: len(whole) // 2]
    log_file.write_bytes(left)
    code, lines, stderr = checked(log_file)

    assert f"file: it has {len(left)} bytes, and says that it had {len(whole)}: its end is missing" == lines[0]
    lost = sum(lost_records(line) for line in lines if line.startswith("partition 0: record at "))
    assert (True, True) == (0 < lost < RECORDS, any(line.startswith("partition 1: record at ") for line in lines))
    assert lines[-2].startswith(f"partition 0: next offset 300, {RECORDS - lost} records as written, ")
    assert (1, True, left) == (code, "bring the log's file back from a copy" in stderr, log_file.read_bytes())


def test_a_file_that_does_not_say_what_it_holds(log_file: Path) -> None:
    """Where nothing of a log can be looked at, the error sends to a backup, not to the same verb."""
    log_file.write_bytes(log_file.read_bytes()[:4096])
    code, lines, stderr = checked(log_file)
    said = stderr.splitlines()[-1]

    assert (1, []) == (code, lines)
    assert said.startswith(f"slotlog: nothing of the log {log_file} can be looked at, as it does not say what it holds")
    assert (True, False) == ("`slotlog backup`" in said, "check --log" in stderr)


def test_nothing_can_be_read_behind_what_is_lost(log_file: Path) -> None:
    """Where a record is lost, and what comes next cannot be read, both are named as one range."""
    change(log_file, "DELETE FROM records WHERE position BETWEEN 20 AND 299")
    look = scan.PartitionScan(0)
    with closing(sqlite3.connect(log_file, factory=_NothingBehind)) as connection:
        damages = [damage for _ in range(2) for damage in look.slice(connection, RECORDS, 1 << 20)[0]]

    assert [("record", 0, 20, 280)] == [(each.kind, each.partition, each.offset, each.records) for each in damages]


class _NothingBehind(sqlite3.Connection):
    """Fails to look for the next record behind one that is lost."""

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        if sql == scan._FIRST:
            raise sqlite3.DatabaseError("database disk image is malformed")
        return super().execute(sql, parameters)

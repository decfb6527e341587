"""`slotlog import dump.rdb` and `slotlog export --to dump.rdb`, as a user types them."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.values.rdb.crc64 import crc64
from tests.ops.importing.contents import fill, of_log, of_server
from tests.ops.importing.rdb.files import load, saved
from tests.ops.verbs import run, succeed, write_lines
from tests.real.oracle import Connection, Oracle


@pytest.fixture
def dump(oracle: Connection, oracle_server: Oracle, tmp_path: Path) -> Path:
    """A file of the session's server, filled with keys of every kind."""
    fill(oracle)
    return saved(oracle_server, oracle, tmp_path / "dump.rdb")


def imported(file: Path, data: Path, *options: object) -> dict[str, Any]:
    """The result of an import that has to be whole."""
    result: dict[str, Any] = json.loads(succeed("import", file, "--data", data, "--json", *options))
    return result


def digest_of(data: Path) -> str:
    """The digest of a state."""
    found: str = json.loads(succeed("digest", "--data", data, "--json"))["digest"]
    return found


def test_file_into_the_log_and_back(dump: Path, oracle: Connection, oracle_server: Oracle, tmp_path: Path) -> None:
    """A server's file is imported, exported from the state that it becomes, and loaded by the server: all the same."""
    data, state = tmp_path / "data", tmp_path / "state"
    expected, digest = of_server(oracle, (0, 3)), oracle.call("DEBUG", "DIGEST")
    result = imported(dump, data)
    assert expected == of_log(state, "--data", data)
    exported = json.loads(
        succeed(
            "export", "--data", state, "--log", f"sqlite:///{data}/log.sqlite3", "--to", tmp_path / "x.rdb", "--json"
        )
    )
    oracle.call("FLUSHALL")
    load(oracle_server, oracle, tmp_path / "x.rdb")

    assert {"hash": 2, "list": 3, "set": 3, "string": 9, "zset": 2} == result["types"] == exported["types"]
    assert (19, {}) == (result["events"], result["left_out"])
    assert "written by Valkey" in result["notes"][0]
    assert digest == oracle.call("DEBUG", "DIGEST")


def test_second_run_appends_nothing(dump: Path, tmp_path: Path) -> None:
    """It says what an earlier one has brought, also of the same file at another place."""
    data = tmp_path / "data"
    first = imported(dump, data)
    again = imported(dump, data)

    assert (19, 0) == (first["events"], first["earlier_keys"])
    assert (0, 19) == (again["events"], again["earlier_keys"])


def test_other_databases_of_a_file_need_another_progress(dump: Path, tmp_path: Path) -> None:
    """A run for database 3 behind one for database 0 is not told that all is there."""
    data = tmp_path / "data"
    first = imported(dump, data, "--db", 0)
    refused = run("import", dump, "--data", data, "--db", 3)
    second = imported(dump, data, "--db", 3, "--progress", tmp_path / "second")

    assert (1, 17, 2) == (refused.exit_code, first["keys"], second["keys"])
    assert "name another directory with --progress" in " ".join(refused.output.split())


def test_file_whose_name_is_no_text_is_imported(tmp_path: Path) -> None:
    """The name of a file is any bytes; its progress has a directory all the same."""
    content = b"REDIS0011\x00\x01a\x01v\xff"
    file = tmp_path / os.fsdecode(b"dump \xff\n.rdb")
    file.write_bytes(content + crc64(content).to_bytes(8, "little"))
    run("import", file, "--data", tmp_path / "data")

    assert {(0, b"a")} == of_log(tmp_path / "state", "--data", tmp_path / "data").keys()


def test_another_file_at_the_same_place_is_imported(tmp_path: Path) -> None:
    """Files of the same name and size are told apart by what is in them."""
    file, data = tmp_path / "dump.rdb", tmp_path / "data"
    for name in (b"a", b"b"):
        content = b"REDIS0011\x00\x01" + name + b"\x01v\xff"
        file.write_bytes(content + crc64(content).to_bytes(8, "little"))
        run("import", file, "--data", data, "--progress", tmp_path / name.decode())
    first = run("import", file, "--data", data, "--progress", tmp_path / "a")

    assert {(0, b"a"), (0, b"b")} == of_log(tmp_path / "state", "--data", data).keys()
    assert 1 == first.exit_code
    assert "another" in first.output


def test_dry_run_appends_nothing(dump: Path, tmp_path: Path) -> None:
    """It counts as an import does; there is no log afterwards."""
    result = imported(dump, tmp_path / "data", "--dry-run")

    assert (19, 0, True) == (result["keys"], result["events"], result["dry_run"])
    assert not (tmp_path / "data").exists()


def test_several_partitions(dump: Path, tmp_path: Path) -> None:
    """Each key goes to the partition of its slot, and all partitions together are the state of one."""
    refused = run("import", dump, "--data", tmp_path / "data", "--partitions", 4)
    one = imported(dump, tmp_path / "one", "--db", 0)
    four = imported(dump, tmp_path / "four", "--db", 0, "--partitions", 4)
    succeed("replay", "--data", tmp_path / "one", "--to", tmp_path / "a")
    succeed("replay", "--data", tmp_path / "four", "--partitions", 4, "--to", tmp_path / "b")

    assert 1 == refused.exit_code
    assert "has keys in database 3; a log of several partitions" in refused.output
    assert one["types"] == four["types"]
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b")
    assert f"{tmp_path / 'b.rdb'}: {one['keys']} keys\n  hash     2\n  list     2\n" in succeed(
        "export", "--data", tmp_path / "b", "--to", tmp_path / "b.rdb"
    )
    succeed("import", tmp_path / "b.rdb", "--data", tmp_path / "again")
    succeed("replay", "--data", tmp_path / "again", "--to", tmp_path / "c")
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "c")


def test_damaged_file_imports_nothing(dump: Path, tmp_path: Path) -> None:
    """Not even the keys before the damage: there is no log afterwards."""
    whole = dump.read_bytes()
    dump.write_bytes(whole[:-20])
    cut = run("import", dump, "--data", tmp_path / "data")
    dump.write_bytes(whole[:200] + bytes((whole[200] ^ 1,)) + whole[201:])
    flipped = run("import", dump, "--data", tmp_path / "data")
    absent = run("import", tmp_path / "none.rdb", "--data", tmp_path / "data")

    assert (1, 1, 1) == (cut.exit_code, flipped.exit_code, absent.exit_code)
    assert "is cut short: the file ends at byte" in cut.output
    assert "nothing was imported" in flipped.output
    assert "none.rdb: No such file or directory" in absent.output
    assert not (tmp_path / "data").exists()


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    """Exit code 1, a line on stderr and one in the report for each; the rest is in the log."""
    module_value = b"\x07\x06module\x81" + bytes(8) + b"\x00"
    data = b"REDIS0011\xf5\x10#!lua name=tools\x00\x01a\x01v" + module_value + b"\xff"
    file = tmp_path / "dump.rdb"
    file.write_bytes(data + crc64(data).to_bytes(8, "little"))
    result = run("import", file, "--data", tmp_path / "data", "--report", tmp_path / "report")
    lines = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]

    assert 1 == result.exit_code
    assert "left out: library of functions tools: Invalid library metadata" in result.output.replace('"', "")
    assert [(None, "tools"), (0, "module")] == [(line["db"], line["name"]) for line in lines]
    assert {(0, b"a"): ("string", b"v", None)} == of_log(tmp_path / "state", "--data", tmp_path / "data")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state of three keys, whose first record is a key of its own."""
    events: list[dict[str, Any]] = [{"cmd": "SET", "args": [name, "v"]} for name in "abc"]
    events.append({"cmd": "HSET", "args": ["h", "f", "v"]})
    events.append({"cmd": "HPEXPIREAT", "args": ["h", 4_102_444_800_000, "FIELDS", 1, "f"]})
    succeed("produce", write_lines(tmp_path / "events", events), "--data", tmp_path / "data")
    succeed("replay", "--data", tmp_path / "data", "--to", tmp_path / "state")
    return tmp_path / "state"


def test_export_of_the_past(state: Path, tmp_path: Path) -> None:
    """The state as it was before an offset, from the log; what it was built in is gone afterwards."""
    options = ("--data", state, "--log", f"sqlite:///{tmp_path}/data/log.sqlite3")
    before = sorted(path.name for path in tmp_path.iterdir())
    past = json.loads(succeed("export", *options, "--until", 2, "--to", tmp_path / "past.rdb", "--json"))

    assert ({"string": 2}, 2) == (past["types"], past["partitions"][0]["next_offset"])
    assert sorted([*before, "past.rdb"]) == sorted(path.name for path in tmp_path.iterdir())


def test_export_is_its_owners_alone(state: Path, tmp_path: Path) -> None:
    """Others on the machine cannot read the file, as they cannot read the state; also in place of one they could."""
    (tmp_path / "x.rdb").touch(mode=0o644)
    succeed("export", "--data", state, "--to", tmp_path / "x.rdb", "--force")

    assert 0o600 == (tmp_path / "x.rdb").stat().st_mode & 0o777


def test_times_of_fields_that_the_version_lacks_are_told(state: Path, tmp_path: Path) -> None:
    """Each key is named, and counted; a version that has them writes them in silence."""
    plain = run("export", "--data", state, "--to", tmp_path / "a.rdb")
    timed = run("export", "--data", state, "--to", tmp_path / "b.rdb", "--rdb-version", 80)

    assert (0, 0) == (plain.exit_code, timed.exit_code)
    assert "database 0, key h: times of fields are not in the file" in plain.output
    assert "not in the file: times of fields of 1 key" in plain.output
    assert "not in the file" not in timed.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "{0}/there"), "is there already; name another file, or replace it with --force"),
        (("--to", "{0}"), "is a directory; --to names the file"),
        (("--to", "{0}/none/x.rdb"), "none is no directory"),
        (("--to", "{0}/x.rdb", "--rdb-version", "8"), "--rdb-version 8 is none that is written. 9: Redis 5 and later"),
        (("--to", "{0}/x.rdb", "--own", "1", "--partitions", "2"), "has no state of partition 1"),
    ],
)
def test_exports_that_cannot_be(options: tuple[str, ...], message: str, state: Path, tmp_path: Path) -> None:
    """Refused with what to do, and nothing is written."""
    (tmp_path / "there").write_text("precious")
    before = sorted(tmp_path.iterdir())
    result = run("export", "--data", state, *(word.format(tmp_path) for word in options))

    assert 1 == result.exit_code
    assert message in result.output
    assert before == sorted(tmp_path.iterdir())
    assert "precious" == (tmp_path / "there").read_text()


def test_export_that_fails_leaves_the_old_file(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the middle: the file that was there is whole, and nothing lies beside it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "there").write_text("precious")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("ops.exporting.rdb.file.os.fsync", full)
    result = run("export", "--data", state, "--to", tmp_path / "there", "--force")
    monkeypatch.undo()

    assert 1 == result.exit_code
    assert "No space left on device: make room, and run the same command again" in result.output
    assert before == sorted(tmp_path.iterdir())
    assert "precious" == (tmp_path / "there").read_text()
    succeed("export", "--data", state, "--to", tmp_path / "there", "--force")
    assert (tmp_path / "there").read_bytes().startswith(b"REDIS0010")


def test_what_a_killed_export_left_is_written_anew(state: Path, tmp_path: Path) -> None:
    """Its partial file does not block the next export, and is gone afterwards; one that is being written does."""
    partial = tmp_path / ".x.rdb.partial"
    partial.write_bytes(b"REDIS0010" + b"rest of an export that was killed" * 100)
    partial.chmod(0o644)
    with partial.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused = run("export", "--data", state, "--to", tmp_path / "x.rdb")
    said = succeed("export", "--data", state, "--to", tmp_path / "x.rdb")

    assert 1 == refused.exit_code
    assert f"another export writes {partial}: let it end, or name another file" in refused.stderr
    assert "4 keys" in said
    assert 0o600 == (tmp_path / "x.rdb").stat().st_mode & 0o777
    assert (tmp_path / "x.rdb").stat().st_size < 200
    assert not partial.exists()

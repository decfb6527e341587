"""`slotlog export --layout kvrocks`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.layouts.layout import Form
from tests.ops.exporting.kvrocks.parsed import check_files, parse
from tests.ops.importing.kvrocks.imported import NOW_MS
from tests.ops.importing.kvrocks.written import NAMESPACE, few_keys
from tests.ops.verbs import run, succeed, write_lines

LATER_MS = NOW_MS * 2


@pytest.fixture
def kvrocks(tmp_path: Path) -> Path:
    """The directory of a Kvrocks with a few keys."""
    return few_keys(tmp_path / "kvrocks", LATER_MS)


def test_from_a_directory_to_another(kvrocks: Path, tmp_path: Path) -> None:
    """What was imported is in the log: a replay has it, and an export of that is a directory with the same keys."""
    log = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    facts = json.loads(succeed("import", kvrocks, "--layout", "kvrocks", "--log", log, "--data", tmp_path, "--json"))
    succeed("replay", "--log", log, "--data", tmp_path / "none", "--to", tmp_path / "state")
    told = succeed("export", "--data", tmp_path / "state", "--log", log, "--layout", "kvrocks", "--to", tmp_path / "to")

    assert {"hash": 1, "string": 3, "zset": 1} == facts["types"]
    assert ({}, ["read as kvrocks: keys name no slots"]) == (facts["left_out"], facts["notes"])
    assert "5 keys" in told
    check_files(tmp_path / "to" / "db")
    assert parse(kvrocks / "db") == parse(tmp_path / "to" / "db")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "--layout", "neokv", "--to", "to"), "--layout neokv is none of an export"),
        (("export", "--layout", "kvrocks", "--to", "to", "--field-times", "x"), "is none of leave-out, drop, keep"),
        (("export", "--layout", "kvrocks", "--to", "to", "--force"), "a directory has to be empty"),
        (("export", "--field-times", "drop", "--to", "to"), "--field-times is for directories"),
        (("export", "--layout", "kvrocks", "--to", "full"), "full is not empty"),
        (("export", "--layout", "kvrocks", "--to", "no/where"), "no is no directory"),
    ],
)
def test_wrong_words_say_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    """Bad input is one line that says what to do, and an exit code that is not 0; nothing is made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    result = run(*words)

    assert 1 == result.exit_code
    assert message in result.output
    assert not (tmp_path / "to").exists()


@pytest.mark.form(Form.FIELD_TIMES)
def test_times_of_fields_decide_the_exit_code(tmp_path: Path) -> None:
    """A hash that is left out makes it 1 and is named; with `--field-times drop` it is 0, and it is named as well."""
    log = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    events: list[dict[str, Any]] = [
        {"cmd": "HSET", "args": ["h", "f", "v"]},
        {"cmd": "HPEXPIREAT", "args": ["h", LATER_MS, "FIELDS", 1, "f"]},
        {"cmd": "SET", "args": ["k", "v"]},
    ]
    succeed("produce", write_lines(tmp_path / "events", events), "--log", log)
    succeed("replay", "--log", log, "--data", tmp_path / "none", "--to", tmp_path / "state")
    words = ("export", "--data", tmp_path / "state", "--log", log, "--layout", "kvrocks")
    left_out = run(*words, "--to", tmp_path / "a", "--json")
    dropped = run(*words, "--to", tmp_path / "b", "--field-times", "drop")
    kept = run(*words, "--to", tmp_path / "c", "--field-times", "keep")

    assert [1, 0, 0] == [left_out.exit_code, dropped.exit_code, kept.exit_code]
    assert (1, 1) == (json.loads(left_out.stdout)["keys"], json.loads(left_out.stdout)["left_out"])
    assert ["key h: left out", "key h: times of fields"] == [
        text for text in ("key h: left out", "key h: times of fields") if text in left_out.stderr + dropped.stderr
    ]
    assert {b"v"} == set(parse(tmp_path / "b" / "db")[NAMESPACE, b"h"].value.values())
    assert {b"f": (LATER_MS, b"v")} == parse(tmp_path / "c" / "db")[NAMESPACE, b"h"].value

"""`slotlog import --layout kvrocks`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ops.importing.kvrocks.imported import NOW_MS
from tests.ops.importing.kvrocks.written import KvrocksWriter, few_keys
from tests.ops.verbs import run, succeed

LATER_MS = NOW_MS * 2


@pytest.fixture
def kvrocks(tmp_path: Path) -> Path:
    """The directory of a Kvrocks with a few keys."""
    return few_keys(tmp_path / "kvrocks", LATER_MS)


def test_a_directory_into_the_log(kvrocks: Path, tmp_path: Path) -> None:
    """The keys are in the log, counted by type, and a replay has them."""
    log = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    facts = json.loads(succeed("import", kvrocks, "--layout", "kvrocks", "--log", log, "--data", tmp_path, "--json"))
    replayed = succeed("replay", "--log", log, "--data", tmp_path / "none", "--to", tmp_path / "state")

    assert {"hash": 1, "string": 3, "zset": 1} == facts["types"]
    assert ({}, ["read as kvrocks: keys name no slots"]) == (facts["left_out"], facts["notes"])
    assert "next offset 5, 5 keys" in replayed


def test_a_second_run_goes_on(kvrocks: Path, tmp_path: Path) -> None:
    """The same command again appends nothing."""
    words = ("import", kvrocks, "--layout", "kvrocks", "--data", tmp_path / "data", "--json")
    first = json.loads(succeed(*words))
    second = json.loads(succeed(*words))

    assert [(5, 0), (0, 5)] == [(facts["keys"], facts["earlier_keys"]) for facts in (first, second)]


def test_a_directory_that_was_written_to_is_another_source(tmp_path: Path) -> None:
    """A key that is new in front of the last one is never passed over: all is imported, with another progress."""
    words = ("import", tmp_path / "kvrocks", "--layout", "kvrocks", "--data", tmp_path / "data", "--json")
    with KvrocksWriter(tmp_path / "kvrocks") as writer:
        writer.string(b"k", b"v")
        succeed(*words)
        writer.string(b"a", b"new")
        refused, whole = run(*words), json.loads(succeed(*words, "--progress", tmp_path / "second"))

    assert 1 == refused.exit_code
    assert "name another directory with --progress" in json.loads(refused.stdout)["error"]
    assert (2, 0) == (whole["keys"], whole["earlier_keys"])


def test_a_dry_run_appends_nothing(kvrocks: Path, tmp_path: Path) -> None:
    """It reads every key, says how many there are, and makes neither a log nor a note of its progress."""
    said = succeed("import", kvrocks, "--layout", "kvrocks", "--data", tmp_path / "data", "--dry-run")

    assert "5 keys would be imported" in said
    assert not (tmp_path / "data").exists()


def test_what_is_left_out_is_an_exit_code(tmp_path: Path) -> None:
    """Each key that has no place is listed with its reason, and the exit code is 1, with all others in the log."""
    with KvrocksWriter(tmp_path / "kvrocks") as writer:
        writer.json(b"js", b"{}")
        writer.string(b"s", b"v")
        writer.string(b"k", b"v", namespace=b"tenant")
    words = ("import", tmp_path / "kvrocks", "--layout", "kvrocks", "--data", tmp_path / "data")
    result = run(*words, "--report", tmp_path / "left-out")
    lines = [json.loads(line) for line in (tmp_path / "left-out").read_text().splitlines()]

    assert 1 == result.exit_code
    assert "1 key in 1 event" in result.output
    assert [("k", "key of another namespace"), ("js", "JSON")] == [(line["name"], line["what"]) for line in lines]


def test_a_namespace_becomes_the_database_that_the_user_names(tmp_path: Path) -> None:
    """With `--namespace tenant=5` the keys of that namespace are left out no more."""
    with KvrocksWriter(tmp_path / "kvrocks") as writer:
        writer.string(b"k", b"v", namespace=b"tenant")
    words = ("import", tmp_path / "kvrocks", "--layout", "kvrocks", "--data", tmp_path / "data", "--dry-run")

    assert [1, 0] == [run(*words).exit_code, run(*words, "--namespace", "tenant=5").exit_code]


def test_another_choice_of_keys_is_another_source(kvrocks: Path, tmp_path: Path) -> None:
    """A run that asks for more than the one before it is not told that all is there: it needs another progress."""
    words = ("import", kvrocks, "--layout", "kvrocks", "--data", tmp_path / "data", "--json")
    first = json.loads(succeed(*words, "--db", 0))
    refused = [run(*words, *more) for more in (("--db", 3), (), ("--db", 0, "--namespace", "tenant=5"))]
    second = json.loads(succeed(*words, "--db", 3, "--progress", tmp_path / "second"))

    assert [1, 1, 1] == [result.exit_code for result in refused]
    assert "--db 0 into" in json.loads(refused[0].stdout)["error"]
    assert (4, 1) == (first["keys"], second["keys"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("import", "nowhere", "--layout", "kvrocks"), "nowhere is not there"),
        (("import", "nowhere", "--layout", "kvrocks-9"), "--layout kvrocks-9 is none of a directory"),
        (("import", "nowhere", "--layout", "kvrocks", "--namespace", "a"), "is not NAME=DATABASE"),
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

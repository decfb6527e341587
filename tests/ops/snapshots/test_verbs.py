"""`slotlog snapshot`, `snapshots` and `restore`, by hand, with a directory as the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import GenericError

from engine.layouts import LAYOUTS
from engine.layouts.layout import Form
from ops.snapshots.objects import StoredObjects
from tests.ops.snapshots.stores import apply, state_of
from tests.ops.verbs import run, succeed, write_lines

EVENTS: list[dict[str, Any]] = [
    *({"cmd": "HSET", "args": [f"h{number % 7}", f"f{number}", "v" * 100]} for number in range(50)),
    *({"cmd": "ZADD", "args": [f"z{number % 5}", number, f"m{number}"]} for number in range(50)),
    {"cmd": "SET", "args": ["gone", "1", "PX", 1]},
    {"cmd": "INCR", "args": ["n"], "id": "once"},
]
OF_EVERY_KIND: list[dict[str, Any]] = [
    *EVENTS,
    {"cmd": "RPUSH", "args": ["l", "1", "2"]},
    {"cmd": "SADD", "args": ["s", "1", "2"]},
    {"cmd": "SETBIT", "args": ["bits", 99, 1]},
    {"cmd": "FUNCTION|LOAD", "args": ["#!lua name=lib\nredis.register_function('f', function() return 7 end)"]},
    {"cmd": "EVAL", "args": ["return redis.call('SET', KEYS[1], ARGV[1])", 1, "by-script", "1"]},
]
STREAM: list[dict[str, Any]] = [
    {"cmd": "XADD", "args": ["x", "1-1", "f", "v"]},
    {"cmd": "XGROUP|CREATE", "args": ["x", "g", "0"]},
    {"cmd": "XREADGROUP", "args": ["GROUP", "g", "c", "STREAMS", "x", ">"]},
]
MORE: list[dict[str, Any]] = [
    {"cmd": "SET", "args": ["later", "1"]},
    {"cmd": "INCR", "args": ["n"], "id": "once"},
]


def taken(data: Path, to: Path) -> list[dict[str, Any]]:
    """The snapshots that one was taken of each partition."""
    found: list[dict[str, Any]] = json.loads(succeed("snapshot", "--data", data, "--to", to, "--json"))["snapshots"]
    return found


def facts(*words: object) -> Any:
    """What a verb says in JSON."""
    return json.loads(succeed(*words, "--json"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state of two partitions."""
    return state_of(tmp_path, EVENTS, 2)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the snapshots are to be."""
    return tmp_path / "snapshots"


def test_what_is_taken_is_restored(data: Path, store: Path, tmp_path: Path) -> None:
    """The digest is that of the state, positions are the same, and the log goes on from there."""
    before = facts("digest", "--data", data)
    snapshots = taken(data, store)
    printed = succeed("restore", "--from", store, "--to", tmp_path / "restored")
    log = f"sqlite:///{data / 'log.sqlite3'}"
    after = facts("digest", "--data", tmp_path / "restored", "--log", log)

    assert [each["digest"] for each in before["partitions"]] == [each["digest"] for each in snapshots]
    assert before == after
    assert [f"{each['id']}  restored: next offset {each['next_offset']}" in printed for each in snapshots] == [True] * 2
    assert "all is well" in succeed("check", "--data", tmp_path / "restored", "--log", log)
    assert ["0", "1"] == sorted(path.name for path in (tmp_path / "restored").iterdir())
    assert not (data / "scratch").exists()


def test_every_layout_has_snapshots(tmp_path: Path, store: Path) -> None:
    """Of a state of every kind of value, with functions and, where the layout has them, streams; all comes back."""
    logs, digests = dict[bool, str](), dict[bool, str]()
    for has_streams in (False, True):
        home = tmp_path / f"log-{has_streams}"
        home.mkdir()
        succeed("produce", write_lines(home / "events", OF_EVERY_KIND + STREAM * has_streams), "--data", home / "data")
        logs[has_streams] = f"sqlite:///{home / 'data' / 'log.sqlite3'}"
    for name, layout in LAYOUTS.items():
        data, has_streams = tmp_path / name, Form.STREAMS in layout.forms
        log = ("--log", logs[has_streams])
        succeed("replay", *log, "--data", tmp_path / "none", "--to", data, "--layout", name)
        (snapshot,) = taken(data, store / name)
        succeed("restore", "--from", store / name, "--to", tmp_path / f"restored-{name}")
        found = facts("digest", "--data", tmp_path / f"restored-{name}")["digest"]

        assert (snapshot["digest"], name) == (found, snapshot["layout"])
        assert found == digests.setdefault(has_streams, found)
        assert "all is well" in succeed("check", "--data", tmp_path / f"restored-{name}", *log)

    assert 2 == len({*digests.values()})


def test_an_index_outside_has_no_snapshots(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state whose sorted sets are in a Redis server is refused, before anything is asked or written."""
    data = state_of(tmp_path, EVENTS)
    succeed("replay", "--data", data, "--to", tmp_path / "as", "--layout", "camellia-v1")
    monkeypatch.setenv("SLOTLOG_INDEX", "redis://127.0.0.1:1/0")
    refused = run("snapshot", "--data", tmp_path / "as", "--to", store)

    assert (1, []) == (refused.exit_code, list(store.iterdir()))
    assert "whose sorted sets are in an index outside of it has no snapshots: they would lack" in refused.stderr


def test_only_new_files_are_uploaded(tmp_path: Path, store: Path) -> None:
    """A second snapshot of the same state shares all tables with the first; what differs is RocksDB's own list."""
    data = state_of(tmp_path, EVENTS)
    first, second = *taken(data, store), *taken(data, store)

    assert first["bytes"] == first["new_bytes"]
    assert 0 < second["new_bytes"] < second["bytes"] / 4


def test_snapshots_are_listed(data: Path, store: Path) -> None:
    """The oldest first, with position, size and whether each is verified."""
    snapshots = taken(data, store) + taken(data, store)
    listed = facts("snapshots", "list", "--from", store, "--data", data)
    printed = succeed("snapshots", "list", "--from", store, "--data", data).splitlines()

    assert sorted(each["id"] for each in snapshots) == sorted(each["id"] for each in listed)
    assert [0, 0, 1, 1] == [each["partition"] for each in listed]
    assert [True] * 4 == [each["verified"] for each in listed]
    assert [each["id"] for each in listed] == [line.split()[0] for line in printed]
    assert [True] * 4 == [line.endswith("  verified") for line in printed]
    assert listed[:2] == facts("snapshots", "list", "--from", store, "--data", data, "--partition", 0)


def test_the_wanted_position_is_restored(tmp_path: Path, store: Path) -> None:
    """--at takes the newest snapshot up to an offset, or before a time; without it the newest of all."""
    data = state_of(tmp_path, EVENTS)
    (first,) = taken(data, store)
    succeed("produce", write_lines(tmp_path / "more", MORE), "--data", data)
    apply(data, tmp_path / "again")
    (second,) = taken(data, store)

    def restored(name: str, *at: object) -> str:
        (found,) = facts("restore", "--from", store, "--to", tmp_path / name, *at)["restored"]
        return str(found["id"])

    assert second["id"] == restored("newest")
    assert second["id"] == restored("end", "--at", second["next_offset"])
    assert first["id"] == restored("before", "--at", second["next_offset"] - 1)
    assert first["id"] == restored("time", "--at", f"@{first['clock_ms'] + 1}")
    result = run("restore", "--from", store, "--to", tmp_path / "none", "--at", 1)
    assert 1 == result.exit_code
    assert "no snapshot of partition 0 can be restored" in result.stderr
    assert f"{first['id']}: it is after offset 1" in result.stderr
    assert not (tmp_path / "none").exists()


def test_what_is_deleted_is_gone(tmp_path: Path, store: Path) -> None:
    """Files that another snapshot has stay, and the others go when they were not needed for a grace period."""
    data = state_of(tmp_path, EVENTS)
    first, second = *taken(data, store), *taken(data, store)
    files = len(list((store / "files").iterdir()))
    printed = succeed("snapshots", "delete", first["id"], "--from", store, "--data", data)
    collected = facts("snapshots", "collect", "--from", store, "--data", data)

    assert "1 snapshot deleted\n" == printed
    assert [second["id"]] == [each["id"] for each in facts("snapshots", "list", "--from", store, "--data", data)]
    assert {"deleted": [], "deleted_files": 0, "deleted_bytes": 0} == collected
    assert files == len(list((store / "files").iterdir()))


def test_collecting_keeps_the_newest(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many verified snapshots stay as the setting says; with no grace period their files go at the next time."""
    data = state_of(tmp_path, EVENTS)
    snapshots = [*taken(data, store), *taken(data, store), *taken(data, store)]
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__KEEP", "1")
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__GRACE_HOURS", "0.000001")
    first = facts("snapshots", "collect", "--from", store, "--data", data)
    second = facts("snapshots", "collect", "--from", store, "--data", data)
    (left,) = facts("snapshots", "list", "--from", store, "--data", data)

    assert ([each["id"] for each in snapshots[:2]], 0) == (first["deleted"], first["deleted_files"])
    assert snapshots[2]["id"] == left["id"]
    assert ([], True) == (second["deleted"], second["deleted_files"] > 0)
    assert f"{left['id']}  verified\n" == succeed("snapshots", "verify", "--from", store, "--data", data)


def test_one_that_is_not_verified_is_not_offered(tmp_path: Path, store: Path) -> None:
    """It is not restored until it is verified, and one that fails is offered no more."""
    data = state_of(tmp_path, EVENTS)
    (snapshot,) = taken(data, store)
    mark = store / "snapshots" / "slotlog" / f"{snapshot['id']}.verified"
    mark.unlink()
    refused = run("restore", "--from", store, "--to", tmp_path / "restored")
    verified = succeed("snapshots", "verify", snapshot["id"], "--from", store, "--data", data)
    succeed("restore", "--from", store, "--to", tmp_path / "restored")
    for file in (store / "files").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    failed = run("snapshots", "verify", "--from", store, "--data", data)

    assert (1, True) == (refused.exit_code, "it is not verified" in refused.stderr)
    assert f"{snapshot['id']}  verified\n" == verified
    assert (1, False) == (failed.exit_code, mark.exists())
    assert f"{snapshot['id']}  refused\n" == failed.stdout
    assert f"snapshot {snapshot['id']}: its file " in failed.stderr


def test_the_directory_for_scratch_is_for_its_owner(tmp_path: Path, store: Path) -> None:
    """Where there is no data directory, verifying makes one that is 700, as every other verb does."""
    taken(state_of(tmp_path, EVENTS), store)
    made = tmp_path / "made"
    succeed("snapshots", "verify", "--from", store, "--data", made)

    assert 0o700 == made.stat().st_mode & 0o777


def test_a_store_that_may_not_be_written(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a verb that writes to the store says so, and what to do; reading it works."""
    data = state_of(tmp_path, EVENTS)
    (snapshot,) = taken(data, store)

    def refuse(*_: object, **__: object) -> None:
        raise GenericError(
            "Generic LocalFileSystem error: Unable to open file /s/a#1: Read-only file system (os error 30)"
        )

    monkeypatch.setattr(StoredObjects, "_sync", refuse)
    refused = run("snapshots", "verify", "--from", store, "--data", data)

    said = f"slotlog: {store}: it cannot be written: Read-only file system (os error 30). What takes, verifies, "
    assert (1, True) == (refused.exit_code, refused.stderr.startswith(said))
    assert refused.stderr.endswith("Get the right to write, or copy the store to where you can write\n")
    assert snapshot["id"] in succeed("snapshots", "list", "--from", store, "--data", data)


def test_no_snapshot_is_none_that_passes(tmp_path: Path, store: Path) -> None:
    """Who verifies where there is none, such as behind a wrong address, is told so, by the exit code too."""
    store.mkdir()
    refused = run("snapshots", "verify", "--from", store, "--data", tmp_path)

    assert (1, f"slotlog: {store} has no snapshot of slotlog\n") == (refused.exit_code, refused.stderr)


def test_a_damaged_one_is_named_and_the_one_before_is_taken(tmp_path: Path, store: Path) -> None:
    """Its reason is printed, and nothing of it is left."""
    data = state_of(tmp_path, EVENTS)
    first, second = *taken(data, store), *taken(data, store)
    (store / "snapshots" / "slotlog" / f"{second['id']}.json").write_text("{}")
    result = run("restore", "--from", store, "--to", tmp_path / "restored")

    assert f"snapshot {second['id']} is not taken: its manifest is damaged" in result.stderr
    assert result.stdout.startswith(f"{first['id']}  restored")
    assert ["0"] == [path.name for path in (tmp_path / "restored").iterdir()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["snapshot"], "where are the snapshots? Set SLOTLOG_SNAPSHOTS__URL, or --to URL"),
        (["restore", "--to", "to"], "where are the snapshots? Set SLOTLOG_SNAPSHOTS__URL, or --from URL"),
        (["snapshot", "--to", "gs://bucket"], "it is s3://BUCKET/PREFIX or a directory"),
        (["snapshot", "--to", "s3://key:secret@bucket"], "credentials come from AWS_ACCESS_KEY_ID"),
        (["snapshot", "--to", "here"], "nowhere has no state of partition 0"),
        (["restore", "--from", "here", "--to", "to"], "here has no snapshot of slotlog"),
        (["restore", "--from", "here", "--to", "to", "--at", "soon"], "--at 'soon' is neither an offset nor"),
        (["snapshots", "delete", "0/1-a", "--from", "here"], "there is no snapshot 0/1-a; `slotlog snapshots list`"),
    ],
)
def test_bad_input_is_named(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error says what to do, shows no secret, and leaves no state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTLOG_DATA", "nowhere")
    (tmp_path / "here").mkdir()
    result = run(*words)

    assert 1 == result.exit_code
    assert said in result.stderr
    assert "secret" not in result.stderr
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["restore", "--to", "to", "--from", "typo/dir"],
        ["trim", "--from", "typo/dir"],
        ["snapshots", "list", "--from", "typo/dir"],
        ["snapshots", "verify", "--from", "typo/dir"],
        ["snapshots", "delete", "0/1-a", "--from", "typo/dir"],
        ["snapshots", "collect", "--from", "typo/dir"],
        ["replay", "--to", "to", "--from-snapshot"],
    ],
)
def test_a_store_that_is_not_there_is_named(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb that takes no snapshot makes no directory for them: its name may be mistyped, or a disk not mounted."""
    data = state_of(tmp_path, EVENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", "typo/dir")
    result = run(*words, "--data", data) if words[0] != "restore" else run(*words)

    assert 1 == result.exit_code
    assert "there is no directory typo/dir: where are the snapshots?" in result.stderr
    assert not (tmp_path / "typo").exists()


def test_a_read_of_the_past_does_without_a_store_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has all that it needs; no directory is made either."""
    data = state_of(tmp_path, EVENTS)
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "typo"))
    succeed("at", 1, "--data", data, "DBSIZE")

    assert not (tmp_path / "typo").exists()


def test_a_state_is_not_overwritten(tmp_path: Path, store: Path) -> None:
    """A snapshot is restored where nothing is."""
    data = state_of(tmp_path, EVENTS)
    taken(data, store)
    result = run("restore", "--from", store, "--to", data)

    assert 1 == result.exit_code
    assert f"{data / '0'} is there already: a snapshot is restored where nothing is" in result.stderr

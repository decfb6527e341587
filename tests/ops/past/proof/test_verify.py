"""`slotlog verify`: a state is held against its log, and what differs is named with its event."""

from __future__ import annotations

import json
import os
from errno import ENOSPC
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest

from engine.store.store import SYSTEM_CF, Changes
from engine.tables.system import SKIP
from ops.config import load_settings
from ops.state.opening.directories import store_opener
from tests.faults.service import ServiceProcess
from tests.ops.past.logs import START_MS, entry, random_entries, write_log
from tests.ops.past.proof.states import apply, plant, with_state
from tests.ops.verbs import run, succeed, wait_for_offset

LINES = (
    (0, "HSET", ["h", "a", "1", "b", "2"]),
    (1, "SET", ["s", "x"]),
    (2, "HSET", ["h", "a", "5"]),
    (3, "INCR", ["n"]),
    (4, "INCR", ["n"]),
    (5, "HSET", ["h", "c", "7"]),
    (6, "RPUSH", ["l", "p", "q"]),
    (7, "ZADD", ["z", "1", "m", "2", "o"]),
    (8, "SET", ["lease", "v", "PX", "50000"]),
    (9, "SELECT", ["0"]),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a log and the state that it makes, which no test changes."""
    return with_state(tmp_path_factory.mktemp("verify") / "data", LINES)


@pytest.fixture
def data(tmp_path: Path, made: Path) -> Path:
    """A copy of it."""
    return copytree(made, tmp_path / "data")


def verified(data: Path, *options: object) -> tuple[int, Any]:
    """Exit code of `slotlog verify`, and what it says of the only partition."""
    result = run("verify", "--data", data, "--json", *options)
    said = json.loads(result.stdout)
    return result.exit_code, said["partitions"][0] if "partitions" in said else said


def test_a_right_state(data: Path) -> None:
    """It is equal to a replay from the log's start, and the exit code is 0."""
    exit_code, found = verified(data)

    assert (0, True, 0, []) == (exit_code, found["right"], found["replayed_from"], found["differences"])
    assert (
        found["digest"] == found["expected_digest"] == json.loads(succeed("digest", "--data", data, "--json"))["digest"]
    )
    assert "equal" in succeed("verify", "--data", data)


@pytest.mark.damaging
@pytest.mark.parametrize(
    ("damage", "key", "offset", "left_out"),
    [
        ((b"HSET", b"h", b"a", b"9"), "h", 2, False),
        ((b"HSET", b"h", b"b", b"9"), "h", 0, False),
        ((b"HSET", b"h", b"a", b"9", b"c", b"9"), "h", 2, False),
        ((b"HDEL", b"h", b"c"), "h", 5, True),
        ((b"SET", b"s", b"y"), "s", 1, False),
        ((b"DECR", b"n"), "n", 4, True),
        ((b"INCR", b"n"), "n", 4, False),
        ((b"LSET", b"l", b"1", b"other"), "l", 6, False),
        ((b"ZADD", b"z", b"7", b"m"), "z", 7, False),
        ((b"PERSIST", b"lease"), "lease", 8, False),
        ((b"DEL", b"s"), "s", 1, True),
        ((b"SET", b"stranger", b"v"), "stranger", None, None),
    ],
)
def test_a_damaged_value_is_named(
    data: Path, damage: tuple[bytes, ...], key: str, offset: int | None, left_out: bool | None
) -> None:
    """The key, and the event that wrote what differs, or that the state lacks; none for a key of no event."""
    plant(data, *damage)
    exit_code, found = verified(data)
    (difference,) = found["differences"]
    event = difference["event"] or {}

    assert (1, False, key) == (exit_code, found["right"], difference["key"])
    assert (offset, left_out) == (event.get("offset"), event.get("left_out"))
    if offset is not None:
        _, name, args = LINES[offset]
        assert [name, *args] == event["command"]
        assert START_MS + offset == event["time_ms"]


@pytest.mark.damaging
def test_it_says_so_in_words(data: Path) -> None:
    """Key, both values, offset, time and command stand in the text, and what to do on stderr."""
    plant(data, b"HSET", b"h", b"a", b"9")
    result = run("verify", "--data", data)

    assert 1 == result.exit_code
    assert [
        '  "h" differs',
        '    state     hash  1) "a"; 2) "9"; 3) "b"; 4) "2"; 5) "c"; 6) "7"',
        '      parts from the log at this event: offset 2, 2023-11-14T22:13:20.002Z, HSET "h" "a" "5"',
        '    replayed  hash  1) "a"; 2) "5"; 3) "b"; 4) "2"; 5) "c"; 6) "7"',
    ] == result.stdout.splitlines()[-4:]
    assert "slotlog replay --swap --even-if-different" in result.stderr


@pytest.mark.damaging
def test_what_no_reading_command_shows(data: Path, tmp_path: Path) -> None:
    """A field's time to live differs, which HGETALL does not show: the last event that touched the key is named."""
    other = with_state(
        tmp_path / "other", [(0, "HSET", ["h", "a", "1"]), (1, "HPEXPIRE", ["h", "9999", "FIELDS", "1", "a"])]
    )
    plant(other, b"HPERSIST", b"h", b"FIELDS", b"1", b"a")
    exit_code, found = verified(other)
    (difference,) = found["differences"]

    assert (1, difference["value"], 1) == (exit_code, difference["expected"], difference["event"]["offset"])


@pytest.mark.damaging
def test_an_event_that_was_not_applied(tmp_path: Path) -> None:
    """A state that has lost an event in the midst of others, without a decision that says so, parts at that event."""
    data = write_log(tmp_path / "data", LINES)
    apply(data, "--skip", "0:5")
    plant(data, b"HSET", b"h", b"a", b"5")  # writes the table of facts anew
    exit_code, found = verified(data)

    assert (0, ["5"]) == (exit_code, found["skips"])  # the decision is in the state, and holds for the replay
    forget_skips(data)
    exit_code, found = verified(data)
    (difference,) = found["differences"]
    assert (1, "h", 5, True) == (
        exit_code,
        difference["key"],
        difference["event"]["offset"],
        difference["event"]["left_out"],
    )


def forget_skips(data: Path) -> None:
    """Take an operator's decisions out of a state."""
    store = store_opener(load_settings(data=data), data)(0)
    changes = Changes()
    for name, _ in list(store.scan(SYSTEM_CF, SKIP, SKIP + b"\xff")):
        changes.of(SYSTEM_CF)[name] = None
    store.write(changes)
    store.close()


@pytest.mark.damaging
@pytest.mark.parametrize("seed", range(2))
def test_some_keys_of_a_random_log(tmp_path: Path, seed: int) -> None:
    """A state of every kind of write is right; of those keys that are damaged then just these are named."""
    data = with_state(tmp_path / "data", random_entries(seed, commands=300))
    names = [f"key {number}".encode() for number in Random(seed).sample(range(100), 3)]

    assert 0 == verified(data)[0]
    for name in names:
        plant(data, b"SET", name, b"damage")
    exit_code, found = verified(data)
    assert (1, sorted(map(bytes.decode, names))) == (exit_code, sorted(each["key"] for each in found["differences"]))
    exit_code, found = verified(data, "--count", 2)
    assert (1, 2, True) == (exit_code, len(found["differences"]), found["more"])


def test_beside_a_running_service(tmp_path: Path) -> None:
    """A service goes on meanwhile, and the state is right at the position at which it was read."""
    data = tmp_path / "data"
    with ServiceProcess(["--data", str(data), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        lines = tmp_path / "lines"
        lines.write_text('{"cmd": "INCR", "args": ["n"]}\n' * 500)
        succeed("produce", lines, "--data", data)
        wait_for_offset(service, 500)
        first = verified(data)
        succeed("produce", lines, "--data", data)
        wait_for_offset(service, 1000)
        second = verified(data)

        assert service.is_running()
    assert [(0, 500), (0, 1000)] == [(code, found["next_offset"]) for code, found in (first, second)]


def test_from_a_snapshot(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --from-snapshot it begins there, also where a trim has cut the log; without it at the start."""
    store = tmp_path / "store"
    succeed("snapshot", "--data", data, "--to", store)
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(store))

    assert [len(LINES), 0] == [verified(data, *options)[1]["replayed_from"] for options in (("--from-snapshot",), ())]
    succeed("trim", "--data", data, "--from", store)
    exit_code, found = verified(data)
    assert (0, True, len(LINES)) == (exit_code, found["right"], found["log"]["begin_offset"])


@pytest.mark.damaging
def test_two_states(data: Path, tmp_path: Path) -> None:
    """Two states at one position are compared without a replay, and a key says which of them is not the log's."""
    other = copytree(data, tmp_path / "other")
    options = ("--against", other)

    assert (0, None) == (verified(data, *options)[0], verified(data, *options)[1]["replayed_from"])
    plant(other, b"SET", b"s", b"y")
    exit_code, found = verified(data, *options)
    (difference,) = found["differences"]
    assert (1, "s", 1) == (exit_code, difference["key"], difference["expected_event"]["offset"])
    output = run("verify", "--data", data, *options).stdout
    assert "is what the log makes of it" in output
    assert 'parts from the log at this event: offset 1, 2023-11-14T22:13:20.001Z, SET "s" "x"' in output


@pytest.mark.damaging
def test_two_states_at_different_positions(data: Path, tmp_path: Path) -> None:
    """The one that is behind is brought up in a copy, whichever it is, and stays where it was."""
    other = write_log(tmp_path / "other", LINES)
    apply(other, "--until", 4)

    assert 0 == verified(data, "--against", other)[0]
    assert 0 == verified(other, "--against", data)[0]
    assert "next offset 4" in succeed("digest", "--data", other)
    plant(other, b"SET", b"s", b"y")
    assert [1, 1] == [verified(*each)[0] for each in ((data, "--against", other), (other, "--against", data))]


def test_refused(data: Path, tmp_path: Path) -> None:
    """No state, a state of another topic, or options that belong to something else."""
    empty = write_log(tmp_path / "empty", [entry(LINES[0])])

    assert "run `slotlog serve`" in run("verify", "--data", empty).stderr
    assert 2 == run("verify", "--data", data, "--against", data, "--from-snapshot").exit_code
    assert "is no PARTITION:OFFSET:HEAD" in run("verify", "--data", data, "--head", "0:1:ff").stderr


def test_the_disk_is_full(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room to build the partition, or to note heads, the full directory is named."""

    def refuse(*_: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr("ops.past.walk.begin_building", refuse)
    building = run("verify", "--data", data)
    monkeypatch.setattr("os.pwrite", refuse)
    noting = run("verify", "--data", data)

    assert f"partition 0 cannot be read: the disk of {data} is full: a copy of the partition" in building.stderr
    assert (1, True) == (building.exit_code, "in scratch/. Make room for it" in building.stderr)
    assert f"{data / 'chain' / '0'} cannot be written, as its disk is full: make room" in noting.stderr

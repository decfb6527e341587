"""`slotlog convert`: from state to state, in processes, killed on the way, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from engine.errors import StoreBusyError
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS
from engine.layouts.layout import Form
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from tests.ops.verbs import run, succeed, wait_until, write_lines

OTHERS = sorted(LAYOUTS.keys() - {DEFAULT_LAYOUT})
ODD = ["", "\0", "{}", "k" * 65_536]
EVENTS: list[dict[str, Any]] = [
    *({"cmd": "SET", "args": [f"s{name}", "v" * 65_536]} for name in ODD),
    *({"cmd": "HSET", "args": [f"h{name}", name, "v", "f", ""]} for name in ODD),
    *({"cmd": "RPUSH", "args": [f"l{name}", name, "b"]} for name in ODD),
    *({"cmd": "SADD", "args": [f"e{name}", name, "b"]} for name in ODD),
    *({"cmd": "ZADD", "args": [f"z{name}", "-inf", name, "2.5", "b"]} for name in ODD),
    *({"cmd": "SET", "args": [name, {"base64": "/wA="}, "PX", "1000000"]} for name in ODD),
    {"cmd": "SETRANGE", "args": ["bits", "400000", "x"]},
    {"cmd": "DEL", "args": ["e", "z"]},
    {"cmd": "INCR", "args": ["n"], "id": "once", "db": 3},
]
KILLED_KEYS = 3000
PROCESSES = 3
"""Of a conversion of two partitions: one for each, and the one that Python starts beside them."""


def state_of(directory: Path, events: list[dict[str, Any]], partitions: int = 1) -> Path:
    """A state in the default layout, beside its log."""
    data, built = directory / "data", directory / "built"
    succeed("produce", write_lines(directory / "events", events), "--data", data, "--partitions", partitions)
    succeed("replay", "--data", data, "--to", built, "--partitions", partitions)
    for partition in range(partitions):
        (built / str(partition)).rename(data / str(partition))
    return data


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state with every type, odd names and large values."""
    return state_of(tmp_path, EVENTS)


def test_a_round_through_all_layouts(data: Path, tmp_path: Path) -> None:
    """Each state says the same digest, is sound, and the last one dumps the same keys as the first."""
    first = json.loads(succeed("digest", "--data", data, "--json"))
    last = data
    for number, layout in enumerate([*OTHERS, DEFAULT_LAYOUT]):
        to = tmp_path / str(number)
        printed = succeed("convert", "--data", last, "--to", to, "--layout", layout)
        assert f"{layout}  {first['digest']}  equal" in printed
        assert "all is well" in succeed("check", "--data", to)
        assert first["digest"] in succeed("digest", "--data", to)
        succeed("space", "--data", to)
        last = to

    assert succeed("dump", "--data", data) == succeed("dump", "--data", last)


@pytest.mark.parametrize("layout", OTHERS)
def test_the_log_goes_on(layout: str, data: Path, tmp_path: Path) -> None:
    """What is appended behind the position is applied to the new state, and ids that were applied stay so."""
    printed = json.loads(succeed("convert", "--data", data, "--to", tmp_path / "new", "--layout", layout, "--json"))
    more = [{"cmd": "INCR", "args": ["n"], "db": 3, "id": event_id} for event_id in ("once", "twice")]
    succeed("produce", write_lines(tmp_path / "more", more), "--data", data)
    log = f"sqlite:///{data / 'log.sqlite3'}"
    succeed("replay", "--data", data, "--log", log, "--to", tmp_path / "again", "--layout", layout)

    assert (len(EVENTS), 1) == (printed["partitions"][0]["next_offset"], len(printed["partitions"]))
    assert (DEFAULT_LAYOUT, layout) == (printed["source_layout"], printed["layout"])
    behind = json.loads(succeed("digest", "--data", tmp_path / "new", "--log", log, "--json"))
    assert behind["digest"] == printed["digest"]
    assert '"2"\n' == succeed("query", "--data", tmp_path / "again", "GET", "n", "--db", 3)


def test_partitions_are_converted_beside_each_other(tmp_path: Path) -> None:
    """Each in a process of its own, into states that together have the digest of the source."""
    data = state_of(tmp_path, [{"cmd": "SET", "args": [f"key-{number}", number]} for number in range(100)], 3)
    printed = succeed("convert", "--data", data, "--to", tmp_path / "new", "--layout", DEFAULT_LAYOUT, "--processes", 2)
    before, after = (json.loads(succeed("digest", "--data", each, "--json")) for each in (data, tmp_path / "new"))

    assert before["digest"] in printed
    assert before["digest"] == after["digest"]
    assert [100] == [sum(each["keys"] for each in after["partitions"])]
    assert [0, 1, 2] == [each["partition"] for each in after["partitions"]]


def test_a_part_of_a_topic_is_converted(tmp_path: Path) -> None:
    """With --own the partitions that it names alone; what is not there is told."""
    data = state_of(tmp_path, [{"cmd": "SET", "args": [f"key-{number}", number]} for number in range(30)], 2)
    succeed("convert", "--data", data, "--to", tmp_path / "one", "--layout", DEFAULT_LAYOUT, "--own", 1)
    result = run("convert", "--data", tmp_path / "one", "--to", tmp_path / "two", "--layout", DEFAULT_LAYOUT)

    assert ["1"] == [path.name for path in (tmp_path / "one").iterdir()]
    assert f"{tmp_path / 'one'} has no state of partition 0" in result.stderr


def test_a_conversion_that_is_killed_is_no_state(tmp_path: Path) -> None:
    """Its processes end with it, whoever reads the directory refuses it, and the next conversion begins anew."""
    events = [{"cmd": "SET", "args": [f"key-{number}", number]} for number in range(KILLED_KEYS)]
    data, to = state_of(tmp_path, events, 2), tmp_path / "new"
    words = ["convert", "--data", str(data), "--to", str(to), "--layout", DEFAULT_LAYOUT, "--processes", "2"]
    process = subprocess.Popen([sys.executable, "-m", "ops.cli", *words])
    children: list[str] = []
    while len(children) < PROCESSES:
        assert process.poll() is None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        sleep(0.001)
    process.kill()
    process.wait()
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "its processes to end")

    log = f"sqlite:///{data / 'log.sqlite3'}"
    for refused in (
        run("digest", "--data", to),
        run("serve", "--data", to, "--partitions", 2, "--log", log, "--http", ""),
    ):
        assert 1 == refused.exit_code
        assert "holds an unfinished replay or conversion: run the same command" in refused.stderr
    again = run(*words)
    assert 0 == again.exit_code
    assert "begun_anew" in again.stderr
    assert json.loads(succeed("digest", "--data", data, "--json"))["digest"] in again.stdout
    assert ["0", "1"] == sorted(path.name for path in to.iterdir())


_HOLDS = """
import fcntl, sys
fcntl.{how}(file := open(sys.argv[1], "r+"), fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("how", "file", "said"),
    [
        ("flock", "BUILDING", "another replay or conversion writes {to}: let it end, or name another directory"),
        ("lockf", "0/LOCK", "{to}/0 is in use: end what runs on it, or name another directory"),
    ],
)
def test_what_is_in_use_is_not_removed(how: str, file: str, said: str, data: Path, tmp_path: Path) -> None:
    """A conversion that still runs, or a service on what one has left, keeps its directory."""
    to = tmp_path / "new"
    (to / "0").mkdir(parents=True)
    for name in ("BUILDING", "0/LOCK", "0/CURRENT"):
        (to / name).touch()
    words = ("convert", "--data", data, "--to", to, "--layout", DEFAULT_LAYOUT)
    holding = [sys.executable, "-c", _HOLDS.format(how=how), str(to / file)]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        refused = run(*words)
        assert (to / "0" / "CURRENT").exists()
        holder.communicate()

    assert 1 == refused.exit_code
    assert said.format(to=to) in refused.stderr
    assert "equal" in succeed(*words)


def test_another_digest_is_no_state(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a record is lost on the way, the difference is named and the directory stays unfinished."""
    write = RocksStore.write
    lost: list[object] = []

    def losing(store: RocksStore, changes: Changes) -> None:
        records = changes.values.get("data", {})
        if not lost and records and store.path.parent == tmp_path / "new":
            lost.append(records.popitem())
        write(store, changes)

    monkeypatch.setattr(RocksStore, "write", losing)
    result = run("convert", "--data", data, "--to", tmp_path / "new", "--layout", DEFAULT_LAYOUT)
    monkeypatch.undo()

    assert 1 == len(lost)
    assert 1 == result.exit_code
    assert "the new state has the digest" in result.stderr
    assert "unfinished" in run("digest", "--data", tmp_path / "new").stderr


def test_a_store_that_is_behind_is_waited_for(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that RocksDB refuses for its compactions is done again."""
    write = RocksStore.write
    refused: list[Changes] = []

    def busy(store: RocksStore, changes: Changes) -> None:
        if len(refused) < 2 and "metadata" in changes.values:
            refused.append(changes)
            raise StoreBusyError
        write(store, changes)

    monkeypatch.setattr(RocksStore, "write", busy)
    printed = succeed("convert", "--data", data, "--to", tmp_path / "new", "--layout", DEFAULT_LAYOUT)

    assert 2 == len(refused)
    assert "equal" in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--layout", "nekov", "--to", "new"], f"there is no such layout; there are {', '.join(LAYOUTS)}"),
        (["--layout", DEFAULT_LAYOUT, "--to", "data"], "data is not empty; what is built needs a directory of its own"),
        (["--layout", DEFAULT_LAYOUT, "--to", "new", "--own", "1"], "own"),
    ],
)
def test_bad_input_leaves_nothing(
    words: list[str], said: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error says what to do, in one line, and no directory is made."""
    monkeypatch.chdir(tmp_path)
    result = run("convert", "--data", data, *words)

    assert 1 == result.exit_code
    assert said in result.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("layout", [name for name in OTHERS if Form.FIELD_TIMES not in LAYOUTS[name].forms])
def test_what_the_layout_cannot_hold_is_refused(layout: str, tmp_path: Path) -> None:
    """The key is named, and what to do."""
    data = state_of(tmp_path, [{"cmd": "HSETEX", "args": ["h", "PXAT", 4102444800000, "FIELDS", 1, "f", "v"]}])
    result = run("convert", "--data", data, "--to", tmp_path / "new", "--layout", layout)

    assert 1 == result.exit_code
    assert "fields with a time to live, which the key h of database 0 has; choose another layout" in result.stderr

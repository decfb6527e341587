"""`slotlog history`: each event that named or changed a key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.store.memory import MemoryStore
from ops.config import load_settings
from ops.past.answering import HistoryOf, answer
from ops.past.documents import touch_as_json
from ops.past.history import History, Touch, Value, value_of
from ops.past.kept import KeptStates
from ops.past.walk import walked
from ops.state.rebuilding.replay_plan import Until
from slotlog.events import decode, encode
from tests.differential.vocabulary import ALL_KEYS
from tests.layouts import column_families
from tests.ops.past.logs import HOME, START_MS, entry, random_entries, write_log
from tests.ops.snapshots.stores import state_of
from tests.ops.verbs import run, succeed, write_lines


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log in which `a` is made, changed, and taken away in many ways, and others beside it."""
    return write_log(
        tmp_path / "data",
        [
            entry((0, "SET", ["other", "1"])),
            entry((1, "SET", ["a", "1"]), id="once", meta={"user": "ann"}),
            entry((2, "SET", ["a", "1"]), id="once"),
            entry((3, "LPUSH", ["a", "x"])),
            entry((4, "SET", ["a"])),
            entry((5, "SET", ["a", "in db 1"]), db=1),
            entry((6, "EXEC", [["INCR", "n"], ["APPEND", "a", "0"]])),
            entry((7, "RENAME", ["a", "b"])),
            entry((8, "EVAL", ["redis.call('SET', KEYS[1], 'script')", "1", "a"])),
            entry((9, "EXEC", [["SELECT", "1"], ["DEL", "a"]])),
            entry((10, "EXEC", [["SET", "other", "2"], ["FLUSHALL"]])),
            entry((11, "FLUSHALL", [])),
            entry((12, "SET", ["a", "2", "PX", "5"])),
            entry((20, "EXISTS", ["a"])),
            entry((21, "SETNX", ["a", "3"])),
            entry((22, "SWAPDB", ["0", "1"])),
        ],
    )


def lines(data: Path, *words: object) -> list[dict[str, Any]]:
    """What `slotlog history a --json` prints."""
    return [json.loads(line) for line in succeed("history", "a", "--data", data, "--json", *words).splitlines()]


def test_a_begin_beyond_the_end_is_refused(data: Path) -> None:
    """The log's end is one to begin with: nothing has come yet."""
    result = run("history", "a", "--data", data, "--from", 17)

    assert (1, "") == (result.exit_code, result.stdout)
    assert "offset 17 is beyond the log's end at offset 16" in result.stderr
    assert [] == lines(data, "--from", 16)


def test_every_event_that_named_or_changed_the_key(data: Path) -> None:
    """Duplicates, rejections and dead letters that name it are there, and what took it away without naming it."""
    found = [(each["offset"], each["command"][0], each["outcome"], each["changed"]) for each in lines(data)]

    assert [
        (1, "SET", "applied", True),
        (2, "SET", "duplicate", False),
        (3, "LPUSH", "rejected", False),
        (6, "EXEC", "applied", True),
        (7, "RENAME", "applied", True),
        (8, "EVAL", "applied", True),
        (10, "EXEC", "applied", True),
        (12, "SET", "applied", True),
        (13, "EXISTS", "applied", False),
        (14, "SETNX", "applied", True),
        (15, "SWAPDB", "applied", True),
    ] == found


def test_a_line_says_when_what_and_what_came_of_it(data: Path) -> None:
    """Time, command, id, meta and reply of an event."""
    first = lines(data)[0]

    assert {
        "offset": 1,
        "time_ms": START_MS + 1,
        "command": ["SET", "a", "1"],
        "id": "once",
        "meta": {"user": "ann"},
        "outcome": "applied",
        "reply": "OK",
        "changed": True,
    } == first


def test_values_before_and_after(data: Path) -> None:
    """With `--values` each event stands between the key before it and after it; a key that expired is gone before."""
    found = {each["offset"]: (each["before"], each["after"]) for each in lines(data, "--values")}

    assert (None, {"type": "string", "value": "1", "expire_ms": None}) == found[1]
    assert "10" == found[6][1]["value"]
    assert (None, START_MS + 17) == (found[12][0], found[12][1]["expire_ms"])
    assert (None, "3") == (found[14][0], found[14][1]["value"])
    assert None is found[15][1]


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (("--count", "2"), [14, 15]),
        (("--from", "12"), [12, 13, 14, 15]),
        (("--until", "3"), [1, 2]),
        (("--db", "1"), [5, 9, 15]),
    ],
)
def test_bounds(data: Path, words: tuple[str, ...], offsets: list[int]) -> None:
    """The last few, those from an offset, those before one, those of another database."""
    found = [each["offset"] for each in lines(data, *words)]

    assert offsets == found


def test_for_people(data: Path) -> None:
    """Each event takes two lines, and two more with values."""
    output = succeed("history", "a", "--data", data, "--values", "--until", "2")

    assert [
        'offset 1  2023-11-14T22:13:20.001Z  id "once"',
        '  SET "a" "1"',
        "  applied: OK",
        "  before  (nil)",
        '  after   string  "1"',
    ] == output.splitlines()


def test_a_key_that_nothing_names_has_no_history(data: Path) -> None:
    """Nothing is printed, and that is no failure."""
    assert "" == run("history", "nobody", "--data", data).stdout


def test_a_key_is_read_only_for_its_values(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read where its values are told, and where an event has changed whole databases."""
    read: list[int] = []

    def reads(machine: Machine, db: int, key: bytes, at_ms: int = 0) -> Value:
        read.append(machine.next_offset)
        return value_of(machine, db, key, at_ms)

    monkeypatch.setattr("ops.past.history.value_of", reads)
    bare = lines(data)
    offsets = set(read)
    read.clear()
    lines(data, "--values", "--from", "14")

    assert {10, 11, 12, 15, 16} == offsets
    assert [each["offset"] for each in bare] == [1, 2, 3, 6, 7, 8, 10, 12, 13, 14, 15]
    assert [14, 15, 15, 16] == read


@pytest.mark.parametrize("seed", range(4))
def test_with_values_and_without_the_same_events_are_told(tmp_path: Path, seed: int) -> None:
    """And the same of each but the values, of random logs that change whole databases, too."""
    entries = list(random_entries(seed, commands=250))
    whole = ((b"FLUSHDB",), (b"SWAPDB", b"0", b"1"), (b"EXEC", [b"FLUSHALL"]))
    for at in range(0, len(entries), 20):
        name, *args = whole[at // 20 % len(whole)]
        entries[at] = entries[at]._replace(value=encode(name, args))
    settings = load_settings(data=write_log(tmp_path / "data", entries))
    told: dict[bool, list[Touch]] = {False: [], True: []}

    async def walk(key: bytes, *, values: bool) -> None:
        step = History(0, key, told[values].append, values=values).step
        async with walked(settings, 0, Until(), step, from_snapshot=False):
            pass

    for key in ALL_KEYS[:: len(ALL_KEYS) // 4]:
        for values in told:
            asyncio.run(walk(key, values=values))

    bare = [replace(touch, before=None, after=None) for touch in told[True]]
    assert [touch_as_json(touch) for touch in told[False]] == [touch_as_json(touch) for touch in bare]
    assert {True, False} == {touch.changed for touch in told[True]}


@pytest.fixture
def trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log that begins at offset 2, the last one in the snapshot, with one more event of `a` behind it."""
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    data = state_of(tmp_path, [{"cmd": "SET", "args": [key, "1"]} for key in ("old", "b", "a")])
    assert "" == run("history", "old", "--data", data).stderr
    succeed("snapshot", "--data", data)
    succeed("trim", "--data", data)
    succeed("produce", write_lines(tmp_path / "more", [{"cmd": "SET", "args": ["a", "2"]}]), "--data", data)
    return data


@pytest.mark.parametrize(
    ("words", "offsets", "noted"),
    [
        (("old",), [], True),
        (("a",), [3], True),
        (("a", "--from", 2), [3], True),
        (("a", "--from", 3), [3], False),
        (("a", "--count", 1), [3], False),
        (("a", "--count", 2), [3], True),
    ],
)
def test_a_history_that_a_trim_has_cut_says_so(
    trimmed: Path, words: tuple[object, ...], offsets: list[int], noted: bool
) -> None:
    """A note says where log and history begin, unless all events that were asked for are there."""
    result = run("history", *words, "--data", trimmed, "--json")
    note = (
        "slotlog: partition 0 of the log begins at offset 2, so this history begins with the snapshot before offset 3:"
        " earlier events are not in it\n"
    )

    assert (0, offsets) == (result.exit_code, [json.loads(line)["offset"] for line in result.stdout.splitlines()])
    assert (note if noted else "") == result.stderr


@pytest.mark.parametrize(("key", "offsets"), [(b"old", []), (b"a", [3])])
async def test_the_reply_to_a_client_has_events_alone(trimmed: Path, key: bytes, offsets: list[int]) -> None:
    """Also where a trim has cut the history each element is an event; a note in it would be taken for one."""
    settings = load_settings(data=trimmed)
    states = KeptStates(settings)
    rows = await answer(settings, states, HistoryOf(0, key, 0, 100, 0, None, values=False))
    await states.close()

    assert offsets == [dict(row)[b"offset"] for row in rows]


@pytest.mark.parametrize(
    ("command", "elements"),
    [(["HSET", "{i}", "v"], 1), (["RPUSH", "{i}"], 1), (["SADD", "{i}"], 1), (["APPEND", "x" * 40], 2)],
)
@pytest.mark.parametrize("options", [(), ("--json",), ("--count", 1)])
def test_values_that_take_long_are_noted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], elements: int, options: tuple[object, ...]
) -> None:
    """Once many elements were read a note on stderr says what to do instead; the output is the same."""
    name, *args = command
    data = write_log(tmp_path / "data", [(i, name, ["k", *(each.format(i=i) for each in args)]) for i in range(20)])
    words = ("history", "k", "--data", data, *options)
    before = run(*words, "--values")
    monkeypatch.setattr("ops.cli.past.history._NOTED_ELEMENTS", 25 * elements)
    noted = run(*words, "--values")

    assert ("", before.stdout) == (before.stderr, noted.stdout)
    # The event at an offset finds as many elements as the offset says, and leaves one more: 25 after the one at 4.
    assert noted.stderr.startswith(f"slotlog: {25 * elements} elements were read up to offset 4: --values reads all of")
    assert 1 == noted.stderr.count("\n")
    assert "" == run(*words).stderr


@pytest.mark.parametrize("seed", range(2))
def test_random_logs_have_the_history_that_one_event_at_a_time_shows(tmp_path: Path, seed: int) -> None:
    """Of a log of random commands, the told events are all those between which a key differs, with the same values."""
    entries = random_entries(seed, commands=250)
    settings = load_settings(data=write_log(tmp_path / "data", entries))
    keys = ALL_KEYS[:: len(ALL_KEYS) // 4]
    told: dict[bytes, list[Touch]] = {key: [] for key in keys}

    def tell(key: bytes) -> Callable[[Touch], None]:
        return told[key].append

    async def walk(key: bytes) -> None:
        watching = History(0, key, tell(key), values=True)
        async with walked(settings, 0, Until(), watching.step, from_snapshot=False):
            pass

    for key in keys:
        asyncio.run(walk(key))

    machine = Machine(MemoryStore(column_families()), HOME)
    for offset, each in enumerate(entries):
        values = {key: value_of(machine, 0, key, each.time_ms or 0) for key in keys}
        machine.apply([decode(offset, each.time_ms or 0, each.value)], offset)
        for key in keys:
            value = value_of(machine, 0, key)
            touch = next((touch for touch in told[key] if touch.offset == offset), None)
            if touch is None:
                assert values[key] == value, (offset, key)
            else:
                assert (values[key], value) == (touch.before, touch.after)
        machine.commit(None)
    assert any(told.values())

"""`slotlog whatif` and `slotlog replay --without`: the state as it would be if some events had never been."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.layouts import home_of
from tests.ops.past.logs import START_MS, Line, entry, random_entries, write_log
from tests.ops.past.proof.states import with_state
from tests.ops.verbs import run, succeed

LINES: tuple[Line, ...] = (
    (0, "SET", ["user:1", "Ann"]),
    (1, "INCR", ["n"]),
    (2, "SET", ["user:2", "Bob"]),
    (3, "INCR", ["n"]),
    (4, "EXEC", [["INCR", "n"], ["DEL", "user:1"]]),
    (5, "SADD", ["s", "a"]),
    (6, "RENAME", ["user:2", "user:3"]),
)
MORE = (
    entry((7, "SET", ["user:4", "Eve"]), id="order 7", meta={"who": "night job"}),
    entry((8, "INCR", ["n"]), meta={"who": "day job"}),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a log and the state that it makes, which no test changes."""
    return with_state(tmp_path_factory.mktemp("whatif") / "data", [*LINES, *MORE])


def differing(data: Path, *without: str) -> dict[str, tuple[Any, Any]]:
    """By key, its value as it is and as it would be."""
    options = [option for each in without for option in ("--without", each)]
    (found,) = json.loads(succeed("whatif", "--data", data, "--json", *options))["partitions"]

    def value(shown: Any) -> Any:
        return None if shown is None else shown["value"]

    return {each["key"]: (value(each["live"]), value(each["without"])) for each in found["differences"]}


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        (["1"], {"n": ("4", "3")}),
        (["1-4"], {"n": ("4", "1"), "user:1": (None, "Ann"), "user:3": ("Bob", None)}),
        (["1", "3"], {"n": ("4", "2")}),
        (["1-3", "2-5"], {"n": ("4", "1"), "user:1": (None, "Ann"), "user:3": ("Bob", None), "s": (["a"], None)}),
        (["key=n"], {"n": ("4", None), "user:1": (None, "Ann")}),
        (["command=incr"], {"n": ("4", None), "user:1": (None, "Ann")}),
        (["key=user:*,command=SET"], {"user:3": ("Bob", None), "user:4": ("Eve", None)}),
        (["key=user:*", "5"], {"user:3": ("Bob", None), "user:4": ("Eve", None), "s": (["a"], None), "n": ("4", "3")}),
        (["id=order*"], {"user:4": ("Eve", None)}),
        (["meta.who=*job"], {"user:4": ("Eve", None), "n": ("4", "3")}),
        ([f"time=@{START_MS + 6}..@{START_MS + 7}"], {"user:2": (None, "Bob"), "user:3": ("Bob", None)}),
        ([f"time=..@{START_MS + 1}"], {}),
        (["key=nobody"], {}),
    ],
)  # fmt: skip
def test_what_would_differ(data: Path, without: list[str], expected: dict[str, tuple[Any, Any]]) -> None:
    """Keys that would differ are named with both values, those that depend on an event that was left out among them."""
    assert expected == differing(data, *without)


def test_without_every_key(tmp_path: Path) -> None:
    """`*` is every key, the empty one too."""
    made = with_state(tmp_path / "data", [(0, "SET", ["", "v"]), (1, "SET", ["a", "v"])])

    assert {"": ("v", None), "a": ("v", None)} == differing(made, "key=*")


def test_it_says_so_in_words(data: Path) -> None:
    """Number of events, keys, and both values; and at most as many keys as are asked for."""
    assert [
        "partition 0: without 2 offsets of 9, 2 keys would differ",
        '  "n"',
        '    live      string  "4"',
        '    without   string  "2"',
        '  "user:1"',
        "    live      (nil)",
        '    without   string  "Ann"',
    ] == succeed("whatif", "--without", "1", "--without", "4", "--data", data).splitlines()
    assert "at least 1 key would differ" in succeed("whatif", "--without", "4", "--count", 1, "--data", data)


def test_a_state_that_is_built_without_them(data: Path, tmp_path: Path) -> None:
    """`replay --without` builds what `whatif` says, names what it has left out, and the live state stays as it is."""
    built = tmp_path / "built"
    output = succeed("replay", "--data", data, "--to", built, "--without", "command=INCR")

    assert "DIFFERENT" in output
    assert "  skipped   offsets 1, 3-4, 8" in output
    assert '"Ann"\n' == succeed("query", "--data", built, "--stale", "GET", "user:1")
    assert {} == differing(data, "key=nobody")
    assert "give --to" in run("replay", "--data", data, "--swap", "--without", "1").output


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_state_that_would_be_built(tmp_path: Path, seed: int) -> None:
    """Of a log with every kind of write: a key differs if and only if it does between the two states."""
    data, built = with_state(tmp_path / "data", random_entries(seed, commands=300)), tmp_path / "built"
    succeed("replay", "--data", data, "--to", built, "--without", "100-120", "--without", "command=EXEC")
    dumps = [set(succeed("dump", "--data", each).splitlines()) for each in (data, built)]
    expected = {json.dumps([each["db"], each["key"]]) for each in map(json.loads, dumps[0] ^ dumps[1])}
    (found,) = json.loads(
        succeed("whatif", "--data", data, "--json", "--without", "100-120", "--without", "command=EXEC")
    )["partitions"]

    assert expected
    assert expected == {json.dumps([each["db"], each["key"]]) for each in found["differences"]}


def test_from_a_snapshot(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a trim it begins with the snapshot, and an event before it cannot be left out any more."""
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(tmp_path / "store"))
    early = write_log(tmp_path / "early", [*LINES, *MORE])
    succeed("replay", "--data", early, "--to", tmp_path / "part", "--until", 5)
    (tmp_path / "part" / "0").rename(early / "0")
    succeed("snapshot", "--data", early)
    succeed("trim", "--data", early)
    (early / "0").rename(tmp_path / "old")
    copytree(data / "0", early / "0")

    assert {"n": ("4", "3")} == differing(early, "8")
    assert "log begins at offset 4, so offset 1 cannot" in run("whatif", "--data", early, "--without", "1-6").stderr
    assert 0 == run("replay", "--data", early, "--to", tmp_path / "to8", "--without", "8").exit_code
    refused = run("replay", "--data", early, "--to", tmp_path / "to4", "--without", "4")
    assert (1, True) == (refused.exit_code, "so a replay has to start from a snapshot, and none" in refused.stderr)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5-3", "the last offset lies before the first one"),
        ("nothing", "is neither offsets"),
        ("color=red", "is neither offsets"),
        ("time=yesterday", "neither an offset nor an ISO 8601 time"),
        ("time=2013-01-01", "a time is FROM..TO"),
        ("1:5", "say which partition, 0 to 0"),
    ],
)
def test_refused(data: Path, text: str, reason: str) -> None:
    """What is no choice of events is refused, with what would be one."""
    result = run("whatif", "--without", text, "--data", data)

    assert (1, True) == (result.exit_code, reason in result.stderr), result.stderr


@pytest.mark.parametrize("verb", [["whatif"], ["replay", "--to", "built"]])
@pytest.mark.parametrize("without", [["9"], ["1", "5-9"], ["9", "key=n"]])
def test_what_the_log_does_not_have_is_refused(data: Path, verb: list[str], without: list[str]) -> None:
    """That nothing is left out must not look as if nothing depended on it."""
    result = run(*verb, "--data", data, *[option for each in without for option in ("--without", each)])

    assert (1, "") == (result.exit_code, result.stdout)
    assert "offset 9 is beyond the log's end at offset 9" in result.stderr


def test_what_is_not_rebuilt_is_refused(data: Path, tmp_path: Path) -> None:
    """An event behind the end of the replay is in no case in what is built."""
    result = run("replay", "--data", data, "--to", tmp_path / "built", "--until", 5, "--without", 5)

    assert (1, True) == (
        result.exit_code,
        "offset 5 cannot be left out: what is rebuilt ends before offset 5" in result.stderr,
    )


def test_too_many_pieces(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a state could not keep as decisions is refused before anything is built."""
    monkeypatch.setattr("ops.past.left_out.RANGES_MAX", 2)

    assert "more than 2 pieces" in run("whatif", "--without", "command=INCR", "--data", data).stderr


def test_of_which_partition(tmp_path: Path) -> None:
    """Where there are several, offsets without one are refused."""
    lines = tmp_path / "lines"
    lines.write_text('{"cmd": "SET", "args": ["greeting", "v"]}\n')
    data = tmp_path / "data"
    succeed("produce", lines, "--data", data, "--partitions", 3)
    succeed("replay", "--data", data, "--to", tmp_path / "built", "--partitions", 3)
    words = ("whatif", "--data", tmp_path / "built", "--log", f"sqlite:///{data / 'log.sqlite3'}")

    assert "say which partition, 0 to 2" in run(*words, "--without", "0").stderr
    assert "    without   (nil)" in succeed(*words, "--without", "2:0")
    assert home_of("slotlog", 2, 3).partitions == 3

"""A state is built in any layout, and opened in its own alone."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rocksdict as rd  # noqa: TID251 - as another program uses it

from engine.apply.machine import Machine
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS, takes_over
from engine.layouts.records import column_families
from engine.store.rocks import RocksStore, stored_families
from engine.store.store import SHARED_CFS
from ops.config import ConfigError, load_settings
from ops.state.opening.directories import reading_store, store_opener
from ops.state.opening.recorded import recorded_home
from tests.ops.verbs import run, succeed, write_lines

EVENTS: list[dict[str, Any]] = [
    *({"cmd": "SET", "args": ["s", "1"]}, {"cmd": "SET", "args": ["dies", "1", "PX", "1"]}),
    *({"cmd": "HSET", "args": ["h", "f", "1"]}, {"cmd": "ZADD", "args": ["z", "1", "m"]}),
    {"cmd": "INCR", "args": ["n"], "id": "once", "db": 3},
]
OTHERS = sorted(LAYOUTS.keys() - {DEFAULT_LAYOUT})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state in the default layout."""
    data = tmp_path / "data"
    succeed("produce", write_lines(tmp_path / "events", EVENTS), "--data", data)
    succeed("replay", "--data", data, "--to", tmp_path / "built")
    (tmp_path / "built" / "0").rename(data / "0")
    return data


@pytest.mark.parametrize("layout", OTHERS)
def test_a_replay_builds_a_state_in_another_layout(layout: str, data: Path, tmp_path: Path) -> None:
    """It has the digest of the live state, says its layout itself, and every verb that reads takes it."""
    printed = json.loads(succeed("replay", "--data", data, "--to", tmp_path / "new", "--layout", layout, "--json"))
    (tmp_path / "new" / "log.sqlite3").symlink_to(data / "log.sqlite3")

    assert printed["digest"] == printed["live_digest"]
    assert {"default", *SHARED_CFS, *column_families(LAYOUTS[layout])} == stored_families(tmp_path / "new" / "0")
    assert succeed("digest", "--data", data) == succeed("digest", "--data", tmp_path / "new")
    assert '"1"\n' == succeed("query", "--data", tmp_path / "new", "GET", "s")
    assert "all is well" in succeed("check", "--data", tmp_path / "new")
    succeed("space", "--data", tmp_path / "new")


@pytest.mark.parametrize("verb", ["serve", "replay", "digest"])
def test_an_unknown_layout_is_refused(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layouts that there are follow, and nothing is made."""
    words: list[object] = [verb, "--data", tmp_path / "data", *(["--to", tmp_path / "to"] if verb == "replay" else [])]
    if verb == "digest":
        monkeypatch.setenv("SLOTLOG_LAYOUT", "nekov")
    result = run(*words, *([] if verb == "digest" else ["--layout", "nekov"]))

    assert 1 == result.exit_code
    assert f"there is no such layout; there are {', '.join(LAYOUTS)}" in result.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("layout", [layout for layout in OTHERS if not takes_over(DEFAULT_LAYOUT, layout)])
def test_a_state_of_another_layout_is_left_as_it_is(layout: str, data: Path, tmp_path: Path) -> None:
    """It is refused with what it is, and the layout that it has finds no column family that it does not know."""
    succeed("replay", "--data", data, "--to", tmp_path / "new", "--layout", layout)
    before = stored_families(tmp_path / "new" / "0")
    serve = ("serve", "--http", "", "--resp", "", "--log", f"sqlite:///{data / 'log.sqlite3'}")
    mistaken = run(*serve, "--data", tmp_path / "new", "--layout", DEFAULT_LAYOUT)
    silent = run(*serve, "--data", tmp_path / "new")
    other = run(*serve, "--data", data, "--layout", layout)

    for result, found, asked in (
        (mistaken, layout, DEFAULT_LAYOUT),
        (silent, layout, DEFAULT_LAYOUT),
        (other, DEFAULT_LAYOUT, layout),
    ):
        assert 1 == result.exit_code
        assert (
            f"its layout is {found}, not {asked} (`slotlog convert` makes a state of another one); choose"
            in result.stderr
        )
    assert before == stored_families(tmp_path / "new" / "0")
    assert succeed("digest", "--data", data) == succeed("digest", "--data", tmp_path / "new")


@pytest.mark.parametrize("layout", [layout for layout in OTHERS if takes_over(DEFAULT_LAYOUT, layout)])
def test_a_state_is_taken_over_by_the_first_batch(layout: str, data: Path, tmp_path: Path) -> None:
    """It is read in either layout until something is written, and says then that it is of the new one."""
    succeed("replay", "--data", data, "--to", tmp_path / "new", "--layout", layout)
    (tmp_path / "new" / "log.sqlite3").symlink_to(data / "log.sqlite3")
    read = ("query", "--data", tmp_path / "new", "GET", "s")
    before = succeed("digest", "--data", data)
    for name in (layout, DEFAULT_LAYOUT):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLOTLOG_LAYOUT", name)
            assert ('"1"\n', before) == (succeed(*read), succeed("digest", "--data", tmp_path / "new"))
            assert "all is well" in succeed("check", "--data", tmp_path / "new")
    home = recorded_home(tmp_path / "new")
    assert home is not None
    assert layout == home.layout

    with closing(RocksStore(tmp_path / "new" / "0", column_families(LAYOUTS[layout]))) as store:
        machine = Machine(store, replace(home, layout=DEFAULT_LAYOUT))
        machine.begin_cleaning()
        machine.commit(None)
    assert replace(home, layout=DEFAULT_LAYOUT) == recorded_home(tmp_path / "new")
    assert ('"1"\n', before) == (succeed(*read), succeed("digest", "--data", tmp_path / "new"))
    assert "all is well" in succeed("check", "--data", tmp_path / "new")


@pytest.mark.parametrize("theirs", ["theirs", "data"])
def test_a_database_of_somebody_else_is_left_as_it_is(theirs: str, tmp_path: Path) -> None:
    """A directory that another program's RocksDB has made is refused by the names of its column families."""
    path = tmp_path / "data" / "0"
    with closing(_database(path, theirs)) as database:
        database.get_column_family(theirs)[b"key"] = b"value"
    refused = [run(verb, "--data", tmp_path / "data", *words) for verb, *words in (["clean", "--now"], ["digest"])]

    for result in refused:
        assert 1 == result.exit_code
        assert f"no state of slotlog: it has the column families {theirs}; choose another --data" in result.stderr
    assert {"default", theirs} == stored_families(path)


def test_a_state_whose_making_was_broken_off_is_made_whole(tmp_path: Path) -> None:
    """A kill leaves some column families and no record: a verb that reads says so, the next open makes the others."""
    path = tmp_path / "data" / "0"
    _database(path, "data", "dedup", "local").close()

    read = run("digest", "--data", tmp_path / "data")
    assert 1 == read.exit_code
    assert "0 is being made, or its making was broken off: try again, or run `slotlog serve`" in read.stderr
    assert {"default", "data", "dedup", "local"} == stored_families(path)
    succeed("clean", "--now", "--data", tmp_path / "data")
    assert {"default", *SHARED_CFS, *column_families(LAYOUTS[DEFAULT_LAYOUT])} == stored_families(path)


def test_column_families_are_listed_once_an_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an open for writing nor one for reading lists them twice, be the state whole or not made to its end."""
    listed: list[Path] = []

    def counted(path: Path) -> frozenset[str]:
        listed.append(path)
        return stored_families(path)

    monkeypatch.setattr("ops.state.opening.foreign.stored_families", counted)
    settings = load_settings(data=tmp_path)
    _database(tmp_path / "0", "data").close()
    with pytest.raises(ConfigError, match="is being made"), reading_store(settings, 0):
        pass
    store_opener(settings, tmp_path)(0).close()
    with reading_store(settings, 0):
        pass

    assert [tmp_path / "0"] * 3 == listed


def _database(path: Path, *families: str) -> rd.Rdict:
    path.mkdir(parents=True)
    options = rd.Options(raw_mode=True)
    options.create_missing_column_families(True)
    options.create_if_missing(True)
    return rd.Rdict(
        str(path), options, column_families={name: rd.Options(raw_mode=True) for name in ("default", *families)}
    )

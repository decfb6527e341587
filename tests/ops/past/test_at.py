"""`slotlog at`: reads as of a moment."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ops.config import load_settings
from ops.past.history import value_of
from ops.past.walk import apply_all, walked
from ops.state.rebuilding.replay_plan import Until
from tests.ops.past.logs import START_MS, write_log
from tests.ops.verbs import run, succeed

LINES = (
    (0, "SET", ["name", "Ann"]),
    (10, "HSET", ["user", "city", "Ghent"]),
    (20, "SET", ["name", "Bo", "PX", "15"]),
    (40, "DEL", ["user"]),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a log of four events and no state."""
    return write_log(tmp_path / "data", LINES)


@pytest.mark.parametrize(
    ("when", "command", "reply"),
    [
        ("0", "GET name", "(nil)"),
        ("1", "GET name", '"Ann"'),
        ("2", "HGET user city", '"Ghent"'),
        ("3", "GET name", '"Bo"'),
        ("3", "TTL name", "(integer) 0"),
        ("4", "GET name", "(nil)"),
        (f"@{START_MS + 20}", "GET name", '"Ann"'),
        (f"@{START_MS + 21}", "GET name", '"Bo"'),
        ("2023-11-14T22:13:20.040Z", "EXISTS user", "(integer) 1"),
        ("2030-01-01T00:00:00Z", "EXISTS user", "(integer) 0"),
        ("2", "DBSIZE", "(integer) 2"),
    ],
)
def test_a_read_as_of_then(data: Path, when: str, command: str, reply: str) -> None:
    """A read gives what it would have given before that offset, or before the first record at that time."""
    assert f"{reply}\n" == succeed("at", when, "--data", data, *command.split())


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """An event that sets the clock back asks for what is due to be removed first; the walk does that, and goes on."""
    back = ["SETCLOCK", [str(START_MS + 50_000), str(START_MS + 10_000)]]
    lines = [
        (0, "SET", ["lease", "x", "PX", "100"]),
        (50_000, "SET", ["late", "1"]),
        (50_000, *back),
        (50_000, "SET", ["name", "Ann"]),
    ]
    data = write_log(tmp_path / "data", lines)  # type: ignore[arg-type]

    assert ["(integer) 1\n", "(integer) 0\n"] == [
        succeed("at", when, "--data", data, "EXISTS", "lease") for when in ("1", "3")
    ]
    assert '"Ann"\n' == succeed("at", "4", "--data", data, "GET", "name")
    (told,) = succeed("history", "lease", "--data", data, "--json").splitlines()
    assert 0 == json.loads(told)["offset"]


def test_nothing_is_left_behind(data: Path) -> None:
    """Neither a state nor a scratch directory stays, and the log is as it was."""
    before = sorted(path.name for path in data.iterdir())

    succeed("at", "3", "--data", data, "GET", "name")

    assert [name for name in before if not name.startswith("log.")] == [
        path.name for path in data.iterdir() if not path.name.startswith("log.")
    ]


def test_json_and_note(data: Path) -> None:
    """`--json` prints the reply alone; the position that it holds for is said on stderr."""
    result = run("at", "2", "--data", data, "--json", "HGETALL", "user")

    assert [["city", "Ghent"]] == json.loads(result.stdout)
    assert "partition 0 before offset 2, where the log's clock was 2023-11-14T22:13:20.010Z" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("9", "GET", "name"), "beyond the log's end at offset 4"),
        (("1", "SET", "name", "x"), "SET writes: the past cannot be changed"),
        (("soon", "GET", "name"), "the moment 'soon' is neither an offset nor"),
        (("1", "GET"), "wrong number of arguments"),
    ],
)
def test_refused(data: Path, words: tuple[str, ...], message: str) -> None:
    """What cannot be answered is refused with the reason, and exit code 1."""
    result = run("at", "--data", data, *words)

    assert 1 == result.exit_code
    assert message in result.stderr


def test_a_walk_begins_with_the_newest_snapshot_before_it(data: Path, tmp_path: Path) -> None:
    """Where a verified snapshot stands before the moment, only what follows it is applied; the reply is the same."""
    store = tmp_path / "snapshots"
    succeed("replay", "--data", data, "--to", tmp_path / "state", "--until", "2")
    succeed("snapshot", "--data", tmp_path / "state", "--to", store)
    settings = load_settings(data=data, snapshots={"url": str(store)})

    async def begin(offset: int) -> int:
        async with walked(settings, 0, Until(offset=offset), apply_all, from_snapshot=True) as past:
            assert value_of(past.machine, 0, b"user").type == (b"hash" if offset > 1 else b"none")
            return past.begin

    assert [0, 2, 2] == [asyncio.run(begin(offset)) for offset in (1, 2, 3)]

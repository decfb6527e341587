"""`slotlog restore-key`: keys are put back as they were."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ops.config import Settings, load_settings
from ops.past.history import Value, value_of
from ops.past.undo import Selection, Undone, undo
from ops.past.walk import apply_all, walked
from ops.state.rebuilding.replay_plan import Until
from tests.differential.vocabulary import ALL_KEYS
from tests.ops.past.logs import random_entries, write_log
from tests.ops.verbs import run, succeed

LINES = (
    (0, "HSET", ["user:1", "name", "Ann"]),
    (1, "SET", ["lease", "x", "PX", "1000"]),
    (2, "RPUSH", ["user:2", "a", "b"]),
    (3, "DEL", ["user:1"]),
    (4, "SET", ["user:3", "new"]),
    (5, "SET", ["user:2", "a string now"]),
    (6, "DEL", ["lease"]),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a log in which keys went, came and changed behind offset 3, and no state."""
    return write_log(tmp_path / "data", LINES)


def now(data: Path, *command: str) -> str:
    """What a read gives at the log's end."""
    return succeed("at", "2100-01-01", "--data", data, *command)


def test_a_key_is_put_back(data: Path) -> None:
    """A key that was deleted is there again by one event, and the others are as they were."""
    output = succeed("restore-key", "user:1", "--at", "3", "--data", data)

    assert ['"user:1"  put back', "0 keys unchanged since, 1 event appended"] == output.splitlines()
    assert '1) "name"\n2) "Ann"\n' == now(data, "HGETALL", "user:1")
    assert '"a string now"\n' == now(data, "GET", "user:2")


def test_a_pattern(data: Path) -> None:
    """What went comes back, what has another type has its own again, and what came since goes."""
    found = json.loads(succeed("restore-key", "user:*", "--pattern", "--at", "3", "--data", data, "--json"))

    assert {
        "dry_run": False,
        "restored": ["user:1", "user:2"],
        "expired": [],
        "deleted": ["user:3"],
        "equal": 0,
        "left_out": [],
        "events": 3,
    } == {**found, "restored": sorted(found["restored"])}
    assert '1) "a"\n2) "b"\n' == now(data, "LRANGE", "user:2", "0", "-1")
    assert "(integer) 0\n" == now(data, "EXISTS", "user:3")


def test_every_key(tmp_path: Path) -> None:
    """`*` is every key, the empty one too, as in KEYS."""
    data = write_log(
        tmp_path / "data", [(number, "SET", [key, f"{number}"]) for number, key in enumerate(["", "a"] * 2)]
    )
    output = succeed("restore-key", "*", "--pattern", "--at", "2", "--data", data)

    assert ['""  put back', '"a"  put back', "0 keys unchanged since, 2 events appended"] == output.splitlines()
    assert '1) "0"\n2) "1"\n' == now(data, "MGET", "", "a")


def test_again_it_appends_nothing(data: Path) -> None:
    """A second undo to the same moment finds everything as it was then."""
    succeed("restore-key", "user:*", "--pattern", "--at", "3", "--data", data)

    assert "2 keys unchanged since, 0 events appended\n" == succeed(
        "restore-key", "user:*", "--pattern", "--at", "3", "--data", data
    )


def test_a_dry_run_appends_nothing(data: Path) -> None:
    """It says what would be done, and the log is as it was."""
    output = succeed("restore-key", "user:*", "--pattern", "--at", "3", "--data", data, "--dry-run")

    assert {
        '"user:1"  would be put back',
        '"user:2"  would be put back',
        '"user:3"  would be deleted: it was not there then',
        "0 keys unchanged since, 0 events appended",
    } == set(output.splitlines())
    assert "(integer) 0\n" == now(data, "EXISTS", "user:1")


def test_a_time_to_live_that_has_passed(data: Path) -> None:
    """A key that would have died since is gone again at once; with --persist it stays."""
    output = succeed("restore-key", "lease", "--at", "3", "--data", data)

    assert '"lease"  put back, and has expired since' == output.splitlines()[0]
    assert "(integer) 0\n" == now(data, "EXISTS", "lease")
    succeed("restore-key", "lease", "--at", "3", "--data", data, "--persist")
    assert "(integer) -1\n" == now(data, "TTL", "lease")


def test_a_stream_is_put_back(tmp_path: Path) -> None:
    """With its counts, its groups, when their consumers were seen, and what is pending, deleted entries included."""
    lines = (
        *((number, "XADD", ["s", f"{number + 1}-0", "f", "v"]) for number in range(4)),
        (4, "XGROUP|CREATE", ["s", "g", "0"]),
        (5, "XREADGROUP", ["GROUP", "g", "ann", "COUNT", "3", "STREAMS", "s", ">"]),
        (6, "XDEL", ["s", "2-0"]),
        (7, "DEL", ["s"]),
    )
    data = write_log(tmp_path / "data", lines)
    then = succeed("at", "7", "--data", data, "XINFO", "STREAM", "s", "FULL")
    succeed("restore-key", "s", "--at", "7", "--data", data)

    assert '"pel-count"' in then
    assert then == now(data, "XINFO", "STREAM", "s", "FULL")


def test_refused(data: Path) -> None:
    """A moment that the log does not have is refused, and nothing is appended."""
    result = run("restore-key", "user:1", "--at", "99", "--data", data)

    assert (1, True) == (result.exit_code, "beyond the log's end" in result.stderr)


async def _values(settings: Settings, until: Until) -> dict[bytes, Value]:
    async with walked(settings, 0, until, apply_all, from_snapshot=False) as past:
        return {key: value_of(past.machine, 0, key) for key in ALL_KEYS}


@pytest.mark.parametrize("seed", range(2))
def test_all_keys_of_a_random_log_are_put_back(tmp_path: Path, seed: int) -> None:
    """After an undo of everything to a moment each key has the content of then; other databases are untouched."""
    entries = random_entries(seed, commands=250)
    settings = load_settings(data=write_log(tmp_path / "data", entries))
    moment = Until(offset=len(entries) // 2)
    undone = Undone()

    asyncio.run(undo(settings, 0, moment, Selection(0, lambda _: True, persist=True), undone))

    then, after = (asyncio.run(_values(settings, until)) for until in (moment, Until()))
    assert {key: (value.type, value.content) for key, value in then.items()} == {
        key: (value.type, value.content) for key, value in after.items()
    }
    assert {-1, -2} >= {value.expire_ms for value in after.values()}
    assert [] == undone.left_out

"""A decision to skip several records is kept as one, replayed, listed, and bounded."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slotlog.events import encode
from slotlog.log import Entry, open_log
from tests.ops.verbs import run, succeed

END = 9
LOST = "3-5"


async def _append(path: Path) -> None:
    log = open_log(f"sqlite:///{path}", topic="slotlog", partitions=1)
    await log.start()
    await log.append([Entry(0, None, encode("INCR", [b"n"]))] * END)
    await log.close()


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """Of a log whose offsets 3 to 5 are lost, and a state that stands before them."""
    path = tmp_path / "log.sqlite3"
    asyncio.run(_append(path))
    options = ["--log", f"sqlite:///{path}", "--data", str(tmp_path / "data")]
    succeed("replay", *options[:2], "--data", tmp_path / "none", "--until", 3, "--to", tmp_path / "data")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM records WHERE position BETWEEN 3 AND 5")
        connection.commit()
    return options


def test_kept_and_replayed(options: list[str], tmp_path: Path) -> None:
    """One decision goes past all of them; a replay takes it over, also one that ends among them."""
    said = succeed("skip", 0, LOST, *options)
    digest = json.loads(succeed("digest", *options, "--json"))
    carried = json.loads(succeed("replay", *options, "--to", tmp_path / "carried", "--json"))
    ended = json.loads(succeed("replay", *options, "--to", tmp_path / "ended", "--until", 5, "--json"))
    audit = run("check", "--data", tmp_path / "carried", *options[:2])

    assert "partition 0 will go past offsets 3 to 5: 3 records\n" == said
    assert [LOST] == digest["partitions"][0]["skips"]
    assert [(END, [LOST])] == [(each["next_offset"], each["skips"]) for each in carried["partitions"]]
    assert [(5, ["3-4", "5"])] == [(each["next_offset"], each["skips"]) for each in ended["partitions"]]
    assert (0, True) == (audit.exit_code, "all is well" in audit.stdout)
    assert f'"{END - 3}"\n' == succeed("query", *options[:2], "--data", tmp_path / "carried", "GET", "n")
    assert "  skipped   offsets 3-5" in succeed("digest", *options).splitlines()


def test_told_to_a_replay(options: list[str], tmp_path: Path) -> None:
    """--skip takes a range as well; without it, the replay stops before the first of them."""
    log = [*options[:2], "--data", tmp_path / "none"]
    told = json.loads(succeed("replay", *log, "--to", tmp_path / "told", "--skip", f"0:{LOST}", "--json"))
    without = run("replay", *log, "--to", tmp_path / "without")

    assert [(END, [LOST])] == [(each["next_offset"], each["skips"]) for each in told["partitions"]]
    assert (1, True) == (without.exit_code, "the record at offset 3 cannot be read" in without.stderr)


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        (f"3-{END}", f"partition 0 of the log ends at offset {END}, before {END + 1}"),
        ("4-5", "partition 0 stands before offset 3, so 4 cannot be skipped"),
        ("5-3", "'5-3' is neither an offset nor FIRST-LAST"),
    ],
)
def test_refused(options: list[str], offsets: str, said: str) -> None:
    """No decision is kept about records that are not there yet, or not where the partition stands."""
    result = run("skip", 0, offsets, *options)

    assert (True, True) == (result.exit_code > 0, said in " ".join(result.stderr.split()))
    assert [[]] == [each["skips"] for each in json.loads(succeed("digest", *options, "--json"))["partitions"]]


def test_no_log_to_ask(options: list[str], tmp_path: Path) -> None:
    """Without the log nobody can say that it has all of them."""
    result = run("skip", 0, LOST, "--log", f"sqlite:///{tmp_path / 'gone'}", *options[2:])

    assert (1, True) == (result.exit_code, "how far the log goes is not known" in result.stderr)

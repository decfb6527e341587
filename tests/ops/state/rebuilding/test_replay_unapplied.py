"""A replay reports records that it could not apply, and those that were applied before."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.dead_letters.stores import open_dead_letters
from ingest.reporting.observer import NullObserver
from ops.config import load_settings
from ops.state.opening.directories import home_of, store_opener
from slotlog.events import encode
from slotlog.log import Entry, open_log
from tests.ops.verbs import run, succeed

VALUES = (
    encode("SET", ["a", "1"]),
    b"no event",
    encode("LPUSH", ["a", "1"]),
    encode("SET", ["b", "1"], id="one"),
    encode("SET", ["b", "1"], id="one"),
    b"nor this",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state with its log: dead letters at the offsets 1 and 5, a rejected command and a duplicate."""
    settings = load_settings(data=tmp_path / "data")

    async def apply() -> None:
        settings.data.mkdir()
        log = open_log(settings.log_url, topic=settings.topic, partitions=1)
        await log.start()
        await log.append([Entry(0, None, value) for value in VALUES])
        dead_letters = open_dead_letters(log)
        worker = Worker(home_of(settings, 0), log, store_opener(settings, settings.data), dead_letters, NullObserver())
        consumer = Consumer(log, {0: worker}, NullObserver())
        await consumer.open()
        await consumer.run_to({0: len(VALUES)})
        consumer.close()
        await log.close()

    asyncio.run(apply())
    return settings.data


def test_counted_by_kind(data: Path, tmp_path: Path) -> None:
    """What was never applied is counted, and is no failure."""
    plain = run("replay", "--data", data, "--to", tmp_path / "plain")
    as_json = run("replay", "--data", data, "--to", tmp_path / "json", "--json")

    assert (0, 0) == (plain.exit_code, as_json.exit_code)
    assert "  not applied: 2 dead letters, 1 rejected command, 1 duplicate\n" in plain.stdout
    counts: dict[str, Any] = json.loads(as_json.stdout)["partitions"][0]["not_applied"]
    first = counts.pop("first_rejected")
    assert {"dead_letters": 2, "rejected": 1, "duplicates": 1, "skipped": 0, "newly_dead": []} == counts
    assert f"  the first rejected: {first}\n" in plain.stdout


@pytest.mark.parametrize("layout", ["camellia-v0", "camellia-v1"])
def test_a_layout_that_holds_no_streams_says_so(tmp_path: Path, layout: str) -> None:
    """A replay into it rejects what would make a stream, names the first of these events, and why."""
    lines = ('{"cmd": "SET", "args": ["k", "v"]}', '{"cmd": "XADD", "args": ["s", "1-1", "f", "v"]}')
    (tmp_path / "events").write_text("\n".join(lines))
    succeed("produce", "--data", tmp_path / "data", tmp_path / "events")
    result = run("replay", "--data", tmp_path / "data", "--layout", layout, "--to", tmp_path / "to")

    assert 0 == result.exit_code
    assert f"  the first rejected: offset 1, XADD: ERR the layout {layout} cannot hold streams\n" in result.stdout


def test_applied_at_its_first_life(data: Path, tmp_path: Path) -> None:
    """A record that cannot be applied now, and was no dead letter when the state met it, is a failure."""
    with closing(sqlite3.connect(data / "log.sqlite3")) as connection:
        connection.execute("DELETE FROM dead_letters WHERE offset = 5")
        connection.commit()
    result = run("replay", "--data", data, "--to", tmp_path / "rebuilt")
    elsewhere = run(
        "replay", "--data", tmp_path / "none", "--log", f"sqlite:///{data}/log.sqlite3", "--to", tmp_path / "b"
    )

    assert (1, 0) == (result.exit_code, elsewhere.exit_code)
    assert "slotlog: partition 0: offset 5 cannot be applied, and no dead letter says so" in result.stderr


def test_letters_that_are_forgotten(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where old letters are forgotten by a setting, a letter that is not there says nothing."""
    with closing(sqlite3.connect(data / "log.sqlite3")) as connection:
        connection.execute("DELETE FROM dead_letters")
        connection.commit()
    monkeypatch.setenv("SLOTLOG_DEAD_LETTERS_MAX", "1")

    assert 0 == run("replay", "--data", data, "--to", tmp_path / "rebuilt").exit_code

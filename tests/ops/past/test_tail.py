"""`slotlog tail`: events as they come, with what came of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ops.config import load_settings
from ops.past.history import Touch
from ops.past.tail import Tail, follow
from ops.state.rebuilding.replay_plan import Until
from slotlog.log import open_log
from tests.ops.past.logs import START_MS, entry, write_log
from tests.ops.verbs import run, succeed


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log of a few events."""
    return write_log(
        tmp_path / "data",
        [
            entry((0, "SET", ["user:1", "Ann"])),
            entry((1, "LPUSH", ["user:1", "x"])),
            entry((2, "EXEC", [["INCR", "visits"], ["SET", "user:2", "Bo"]]), id="x", meta={"who": "ann"}),
            entry((3, "NOSUCH", ["user:3"])),
            entry((4, "EVAL", ["redis.call('SET', 'user:4', '1')", "0"])),
            entry((5, "INCR", ["visits"])),
        ],
    )


def lines(data: Path, *words: object) -> list[dict[str, Any]]:
    """What is printed."""
    return [json.loads(line) for line in succeed("tail", "--data", data, *words).splitlines()]


def test_events_with_what_came_of_them(data: Path) -> None:
    """Each event is a line: what it was, its outcome, the keys that it changed."""
    found = lines(data, "--from", 0, "--count", 6)

    assert ["applied", "rejected", "applied", "dead letter", "applied", "applied"] == [
        each["outcome"] for each in found
    ]
    assert [["user:1"], [], ["visits", "user:2"], [], ["user:4"], ["visits"]] == [
        [key["key"] for key in each["keys"]] for each in found
    ]
    assert {
        "offset": 2,
        "time_ms": START_MS + 2,
        "command": ["EXEC", ["INCR", "visits"], ["SET", "user:2", "Bo"]],
        "id": "x",
        "meta": {"who": "ann"},
        "outcome": "applied",
        "reply": [1, "OK"],
        "changed": True,
        "keys": [{"db": 0, "key": "visits"}, {"db": 0, "key": "user:2"}],
        "partition": 0,
    } == found[2]


def test_keys_and_begin(data: Path) -> None:
    """Events that name or change a key like the pattern, from an offset or a time on."""
    assert [0, 1, 2, 4] == [each["offset"] for each in lines(data, "--from", 0, "--key", "user:?", "--count", 4)]
    (last,) = lines(data, "--from", f"@{START_MS + 5}", "--count", 1)
    assert (5, 2) == (last["offset"], last["reply"])


def test_every_key(tmp_path: Path) -> None:
    """`*` is every key, the empty one too, and no event without a key."""
    events = [(0, "SET", ["", "v"]), (1, "FLUSHALL", []), (2, "SET", ["a", "v"]), (3, "SET", ["b", "v"])]
    log = write_log(tmp_path / "data", events)

    assert [0, 2] == [each["offset"] for each in lines(log, "--from", 0, "--key", "*", "--count", 2)]


def test_refused(data: Path) -> None:
    """A begin beyond the log's end is refused."""
    assert "beyond the log's end" in run("tail", "--data", data, "--from", "9").stderr


async def test_what_comes_is_told(data: Path) -> None:
    """From the log's end on, an event is told that another process appends later."""
    settings = load_settings(data=data)
    told: list[Touch] = []

    def tell(touch: Touch, _changed: object) -> bool:
        told.append(touch)
        return False

    following = asyncio.create_task(follow(settings, 0, Until(), Tail(None, tell)))
    log = open_log(settings.log_url, topic=settings.topic, partitions=1)
    await log.start()
    async with asyncio.timeout(60):
        while not (data / "scratch").exists():  # noqa: ASYNC110 - then the end was taken
            await asyncio.sleep(0.01)
        await log.append([entry((9, "INCR", ["visits"]))])
        await following
    await log.close()

    assert [(6, 3)] == [(touch.offset, touch.reply) for touch in told]

"""Changes of keys, as documents and records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.store.memory import MemoryStore
from ops.changes.change import Change, change_record, document
from ops.changes.watching import Watching
from ops.config import ConfigError, load_settings
from ops.serving.changes import ChangeFeed
from slotlog.events import decode
from tests.layouts import column_families
from tests.ops.past.logs import HOME, START_MS, Line, entry, write_log
from tests.ops.verbs import run, succeed

LINES: tuple[Line, ...] = (
    (0, "SET", ["a", "1"]),
    (1, "EXEC", [["HSET", "h", "f", "v"], ["PEXPIRE", "h", "60000"], ["INCR", "a"]]),
    (2, "LPUSH", ["a", "x"]),
    (3, "GET", ["a"]),
    (4, "DEL", ["a"]),
    (5, "FLUSHDB", []),
)


def told(lines: tuple[Line, ...], bytes_max: int = 1000) -> list[Change]:
    """The changes that some events make."""
    found: list[Change] = []
    watching = Watching(0, bytes_max, found.append)
    store = MemoryStore(column_families())
    machine = Machine(store, HOME)
    watching.begin(machine, store)
    watching.step(machine, [decode(at, START_MS + line[0], entry(line).value) for at, line in enumerate(lines)])
    return found


def test_one_change_for_each_key_of_an_event() -> None:
    """What changed each key, and the key after the event; what is rejected, and what reads, changes nothing."""
    found = [document(each, 1000) for each in told(LINES)]

    assert [
        (0, "a", ["SET"]),
        (1, "h", ["HSET", "PEXPIRE"]),
        (1, "a", ["INCR"]),
        (4, "a", ["DEL"]),
        (5, None, ["FLUSHDB"]),
    ] == [(each["offset"], each["key"], each["commands"]) for each in found]
    after = [each["after"] and (each["after"]["type"], each["after"]["value"]) for each in found]
    assert [("string", "1"), ("hash", [["f", "v"]]), ("string", "2"), None, None] == after
    assert START_MS + 1 + 60_000 == found[1]["after"]["expire_ms"]
    assert {False} == {each["omitted"] for each in found}


@pytest.mark.parametrize(
    ("line", "omitted"),
    [
        ((0, "SET", ["s", "x" * 90]), False),
        ((0, "SET", ["s", "x" * 101]), True),
        ((0, "RPUSH", ["l", *"ab"]), False),
        ((0, "RPUSH", ["l", *"ab" * 40]), True),
        ((0, "SADD", ["l", *map(str, range(1001))]), True),
    ],
)
def test_large_values_are_left_out(line: Line, omitted: bool) -> None:
    """A string or a collection that is too large is told without its value, and says so."""
    (change,) = told((line,), bytes_max=100)
    found = document(change, 100)

    assert (omitted, omitted) == (found["omitted"], (found["after"] or {}).get("value") is None)


def test_a_record_is_a_cloud_event() -> None:
    """In binary mode: attributes are headers, the data is the document, the record's key the changed key."""
    record = change_record("orders", told(LINES)[2], 1000)

    assert {
        "ce_specversion": b"1.0",
        "ce_id": b"0-1-1",
        "ce_source": b"/slotlog/orders",
        "ce_type": b"slotlog.change.v1",
        "ce_time": b"2023-11-14T22:13:20.001Z",
        "ce_subject": b"a",
        "content-type": b"application/json",
        "slotlog.offset": b"1",
    } == dict(record.headers)
    assert (0, b"a", "a") == (record.partition, record.key, json.loads(record.value or b"")["key"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with these events in its log, and no state."""
    return write_log(tmp_path / "data", LINES)


def lines(data: Path, *words: object) -> list[dict[str, Any]]:
    """What `slotlog changes` prints."""
    return [json.loads(line) for line in succeed("changes", "--data", data, *words).splitlines()]


def test_the_verb_prints_the_same_documents(data: Path) -> None:
    """From an offset on, so many of them; those of one event are told apart by their keys."""
    found = [document(each, 64 * 1024) for each in told(LINES)]

    assert found[1:4] == lines(data, "--from", 1, "--count", 3)


def test_refused(data: Path) -> None:
    """A begin beyond the log's end is refused."""
    assert "beyond the log's end" in run("changes", "--data", data, "--from", 9).stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "needs a log in Kafka"),
        ({"log": "kafka://127.0.0.1:1", "topic": "changes"}, "is the log: name another topic"),
    ],
)
def test_a_topic_that_cannot_be(tmp_path: Path, options: dict[str, str], reason: str) -> None:
    """A service does not start with a topic of changes where there can be none."""
    settings = load_settings(data=tmp_path / "data", changes={"topic": "changes"}, **options)

    with pytest.raises(ConfigError, match=reason):
        ChangeFeed(settings, {})

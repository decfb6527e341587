"""`slotlog repartition`: another number of partitions, with the same keys, or an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.config import Settings
from ops.exporting import repartition
from ops.importing.source import ImportKey, LeftOut
from ops.state.opening.directories import reading
from tests.faults.workers import new_topic
from tests.ops.verbs import run, succeed, write_lines

_LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
_KINDS: list[list[Any]] = [
    ["RPUSH", "list", "a", "b", "a"],
    ["SADD", "set", "x", "y", "1"],
    ["ZADD", "zset", "1.5", "one", "-inf", "two"],
    ["HSET", "hash", "f", "1", "g", "2"],
    ["HPEXPIREAT", "hash", 4102444800000, "FIELDS", 1, "g"],
    ["XADD", "stream", "5-1", "f", "v"],
    ["XGROUP|CREATE", "stream", "g", "0"],
    ["SET", "dies", "x", "PXAT", 4102444800000],
    ["SET", "large", "v" * 2_000_000],
    ["PFADD", "hll", "a", "b"],
    ["SETBIT", "bits", 7, 1],
    ["FUNCTION|LOAD", _LIBRARY],
    ["DEL", "k7"],
]


class _Old:
    """A topic with one partition in a file, and its state."""

    def __init__(self, home: Path) -> None:
        self.home, self.data = home, home / "old"
        self._log = f"sqlite:///{home / 'old.sqlite3'}"
        self.new_log = f"sqlite:///{home / 'new.sqlite3'}"
        self.append(*(["SET", f"k{number}", number] for number in range(50)), *_KINDS)
        self.build()

    def append(self, *commands: list[Any], db: int = 0) -> None:
        """More events."""
        events = [{"cmd": name, "args": args, "db": db} for name, *args in commands]
        file = write_lines(self.home / "events", events)
        succeed("produce", file, "--data", self.home / "none", "--log", self._log, "--topic", "old")

    def build(self) -> None:
        """The state of all that is in the log."""
        self.data = self.home / f"{self.data.name}-"
        succeed("replay", "--to", self.data, "--data", self.home / "none", "--log", self._log, "--topic", "old")

    @property
    def words(self) -> list[object]:
        """A command that makes three partitions of it."""
        source = ["--data", self.data, "--log", self._log]
        return ["repartition", *source, "--to-log", self.new_log, "--to-topic", "new", "--to-partitions", 3]


def _dumped(data: Path) -> list[str]:
    return sorted(succeed("dump", "--data", data).splitlines())


def _said(*words: object) -> str:
    result = run(*words)
    assert 0 != result.exit_code
    return " ".join(result.output.split())


def test_the_new_topic_has_every_key(tmp_path: Path) -> None:
    """One partition becomes three, with all types, times to live and libraries; the old topic and state stay."""
    old, to = _Old(tmp_path), tmp_path / "new"
    before = _dumped(old.data)
    shown = json.loads(succeed(*old.words, "--to", to, "--json"))

    assert before == _dumped(to)
    assert before == _dumped(old.data)
    digests = json.loads(succeed("digest", "--data", to, "--json"))["partitions"]
    assert [0, 1, 2] == [each["partition"] for each in digests]
    assert all(each["keys"] > 2 for each in digests)
    assert (58, 3) == (shown["keys"], shown["partitions"])
    for partition in range(3):
        with reading(Settings(data=to, topic="new", partitions=3), partition) as (_, machine):
            assert {b"lib": _LIBRARY.encode()} == machine.kept[1].codes
    succeed("check", "--data", to)


def test_a_state_behind_its_log_is_refused(tmp_path: Path) -> None:
    """An event that the state does not have would be lost: the command says so, and makes nothing."""
    old, to = _Old(tmp_path), tmp_path / "new"
    old.append(["SET", "late", "1"])

    assert "is not where its log ends" in _said(*old.words, "--to", to)
    assert not to.exists()
    assert not (tmp_path / "new.sqlite3").exists()


def test_an_event_that_comes_meanwhile_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes during the copy makes the command fail; it works once that is applied, into a new topic."""
    old = _Old(tmp_path)
    copy = repartition._copy

    async def copied(*settings: Any) -> int:
        events = await copy(*settings)
        old.append(["SET", "late", "1"])
        return events

    monkeypatch.setattr(repartition, "_copy", copied)
    assert "is not where its log ends" in _said(*old.words, "--to", tmp_path / "new")
    monkeypatch.undo()
    old.build()
    assert "has records already" in _said(*old.words, "--to", tmp_path / "new")
    old.new_log = f"sqlite:///{tmp_path / 'newer.sqlite3'}"
    succeed(*old.words, "--to", tmp_path / "new")
    assert _dumped(old.data) == _dumped(tmp_path / "new")


def test_a_copy_that_lacks_a_key_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug, which leaves one key out, is not passed for a copy: the digests differ."""
    old, keys = _Old(tmp_path), repartition._keys

    def fewer(*words: Any) -> Iterator[ImportKey | LeftOut]:
        return (key for key in keys(*words) if key.name != b"k3")

    monkeypatch.setattr(repartition, "_keys", fewer)
    said = _said(*old.words, "--to", tmp_path / "new")
    assert "its 57 keys have the digest" in said
    assert "Delete the topic new" in said


def test_databases_have_no_place_in_a_cluster(tmp_path: Path) -> None:
    """Keys of another database than 0 are named before anything is written; one partition takes them."""
    old = _Old(tmp_path)
    old.append(["SET", "elsewhere", "1"], db=3)
    old.build()

    assert "there are keys in database 3" in _said(*old.words, "--to", tmp_path / "new")
    assert not (tmp_path / "new.sqlite3").exists()
    succeed(*old.words[:-1], 1, "--to", tmp_path / "new")
    assert _dumped(old.data) == _dumped(tmp_path / "new")


def test_a_topic_of_kafka(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Two partitions of a topic become five of a new one, which the command makes in the same Kafka."""
    topic, log = new_topic(), f"kafka://{kafka_bootstrap}"
    here = ["--log", log, "--topic", topic, "--partitions", 2]
    events = write_lines(tmp_path / "events", ({"cmd": "SET", "args": [f"k{n}", n]} for n in range(30)))
    succeed("produce", events, "--data", tmp_path / "none", *here)
    succeed("replay", "--to", tmp_path / "old", "--data", tmp_path / "none", *here)
    new = ["--to-topic", f"{topic}-5", "--to-partitions", 5, "--to", tmp_path / "new"]
    assert f"{topic}-5: 30 keys in 30 events" in succeed("repartition", "--data", tmp_path / "old", "--log", log, *new)
    assert _dumped(tmp_path / "old") == _dumped(tmp_path / "new")

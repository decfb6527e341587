"""The recorded logs give what they gave when they were recorded: every outcome, every digest, every byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from struct import Struct
from typing import Any
from unittest.mock import patch

import pytest

from engine import limits
from engine.batch.keys import fragments
from engine.batch.ranks import rank_counts
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS
from engine.layouts.neokv import codec, layout
from engine.tables.system import FIRST_RULES, RULES
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import NullObserver
from ops.config import Settings
from ops.state.opening.directories import home_of, prepare_data, store_opener
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.log import Entry
from tests.engine.native.twins import running
from tests.golden import corpus, record
from tests.golden.replay import Result, replay
from tests.layouts import layout_of, refused_commands
from tests.ops.verbs import succeed

_LITTLE_ENDIAN: dict[str, Any] = {
    "_DATABASE": Struct("<QQ"),
    "_KEY_HEADER": Struct("<QQHI"),
}
CORPUS_BYTES_MAX = 2 * 1024 * 1024


def known_rules(name: str) -> int:
    """What the engine knew that recorded a log: one that it could not go on with asks for more."""
    stopped = any(result["stopped"] for result in corpus.read_results(name))
    return FIRST_RULES if stopped else RULES


@pytest.mark.parametrize("name", corpus.names())
@pytest.mark.layout("neokv")
def test_a_replay_gives_the_recorded_bytes(name: str) -> None:
    """Outcomes, counts, digest and dump of each partition are those of the recording."""
    log, dump = corpus.read_log(name), corpus.read_dump(name)
    replayed = [replay(log, partition, known_rules(name)) for partition in range(log.partitions)]

    assert corpus.read_results(name) == [each.result._asdict() for each in replayed]
    if dump is not None:
        assert dump.splitlines() == [line for each in replayed for line in each.lines]


@pytest.mark.parametrize("name", corpus.names())
@pytest.mark.layout(*(LAYOUTS.keys() - {DEFAULT_LAYOUT}))
def test_a_replay_on_another_layout_says_what_was_recorded(name: str) -> None:
    """Outcomes, counts and digest of each partition are those of the recording, whatever the bytes.

    Of a partition whose events the layout cannot hold all of, or answers otherwise, the numbers of its records alone.
    """
    log, recorded = corpus.read_log(name), corpus.read_results(name)
    logical = ("records", "next_offset", "clock_ms", "rules", "commands", "dead_letters", "duplicates", "stopped")
    for partition, expected in enumerate(recorded):
        actual = replay(log, partition, known_rules(name)).result._asdict()
        told: tuple[str, ...] = logical
        held = not refused_commands() & {word.encode() for word in expected["commands"]}
        if held and not layout_of().differences:
            told = (*logical, "rejected", "outcomes", "digest")
        assert {word: expected[word] for word in told} == {word: actual[word] for word in told}


def test_an_engine_of_earlier_rules_refuses() -> None:
    """It stops at the event that asks for rules 2, with what rules 1 made of the events before; a newer one goes on.

    The log `stopped`, which was recorded by such an engine, ends at its event; this engine applies what follows.
    """
    log = corpus.read_log("rules-2")
    older, newer = replay(log, 0, FIRST_RULES).result, replay(log, 0).result
    ended = next(record.offset for record in log.records if record.value and b"RULES" in record.value)
    further = replay(corpus.read_log("stopped"), 0).result

    assert ([ended, "RULES"], ended, 1) == (older.stopped, older.next_offset, older.rules)
    assert (None, len(log.records), 2) == (newer.stopped, newer.next_offset, newer.rules)
    assert (None, 6, 2) == (further.stopped, further.next_offset, further.rules)


def test_the_corpus_is_whole() -> None:
    """Every log has its results and no file is left over; together they stay small."""
    files = {path.name for path in corpus.CORPUS.iterdir()}
    expected = {f"{name}{end}" for name in corpus.names() for end in (".log.gz", ".json")}

    assert expected == {name for name in files if not name.endswith(".dump.gz")}
    assert {name for name in files if name.endswith(".dump.gz")} <= {f"{name}.dump.gz" for name in corpus.names()}
    assert sum(path.stat().st_size for path in corpus.CORPUS.iterdir()) < CORPUS_BYTES_MAX


def test_the_corpus_has_something_of_everything() -> None:
    """Thousands of rejections and dead letters, ids sent twice and a partition that stops stand in it."""
    results = [Result(**result) for name in corpus.names() for result in corpus.read_results(name)]

    assert sum(result.records for result in results) > 20_000
    assert sum(result.rejected for result in results) > 1000
    assert sum(result.dead_letters for result in results) > 1000
    assert sum(result.duplicates for result in results) > 100
    assert [[4, "RULES"]] == [result.stopped for result in results if result.stopped]


@pytest.mark.layout("neokv")
def test_a_log_is_recorded_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The recorder leaves what is there as it is, and knows no other names than those of its list."""
    before = {path: path.read_bytes() for path in corpus.CORPUS.iterdir()}

    assert 0 == record.main(["small", "flights"])
    assert "small: recorded before, left as it is" in capsys.readouterr().out
    assert 1 == record.main(["nothing"])
    assert before == {path: path.read_bytes() for path in corpus.CORPUS.iterdir()}


@pytest.mark.damaging
@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("small", lambda: patch.multiple(layout, **_LITTLE_ENDIAN)),
        ("small", lambda: patch.object(codec, "_LIST_FLAGS", codec._LIST_FLAGS | 0x20)),
        ("large", lambda: patch.object(rank_counts, "BLOCK_MAX", rank_counts.BLOCK_MAX - 1)),
        ("large", lambda: patch.object(fragments, "FRAGMENT_BYTES", limits.FRAGMENT_BYTES // 2)),
    ],
    ids=["the order of bytes in a prefix", "a flag", "the members of a block", "the bytes of a fragment"],
)
@pytest.mark.layout("neokv")
def test_planted_changes_are_seen(name: str, plant: Callable[[], AbstractContextManager[object]]) -> None:
    """One other byte in a layout, or another count in a form of our own, gives another dump.

    Planted in Python, so it is Python that runs: beside a part in C that is right, the state is not even one.
    """
    with running(natively=False), plant():
        changed = replay(corpus.read_log(name), 0).result

    assert corpus.read_results(name)[0]["dump"] != changed.dump


@pytest.mark.parametrize("name", ["small", "group-sorted-set"])
@pytest.mark.layout("neokv")
async def test_a_service_gives_the_recorded_dump(name: str, tmp_path: Path) -> None:
    """The same events through the embedded log, a worker and RocksDB: `slotlog dump --raw` prints the recorded lines.

    But for the fingerprint, which is the log's own mark.
    """
    events, dump = corpus.read_log(name), corpus.read_dump(name)
    assert dump is not None
    settings = Settings(data=tmp_path / "data")
    prepare_data(settings)
    log = EmbeddedLog(settings.data / "log.sqlite3", topic=events.topic, partitions=1)
    await log.start()
    await log.append([Entry(0, each.key, each.value or b"", each.time_ms) for each in events.records])
    worker = Worker(home_of(settings, 0), log, store_opener(settings, settings.data), None, NullObserver())
    consumer = Consumer(log, {0: worker}, NullObserver())
    await consumer.open()
    await consumer.run_to({0: len(events.records)}, lambda: None)
    consumer.close()
    await log.close()
    printed = succeed("dump", "--raw", "--data", settings.data)

    assert _without_fingerprint(dump) == _without_fingerprint(printed)


def _without_fingerprint(dump: str) -> list[str]:
    return [line for line in dump.splitlines() if bytes.fromhex(json.loads(line)["key"]) != b"fingerprint"]

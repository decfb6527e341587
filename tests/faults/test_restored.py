"""A service that has lost its state restores it from snapshots by itself, and applies the rest of the log."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from ops.state.opening.directories import partition_path
from slotlog.events import encode
from slotlog.log import Entry
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, metric, run, succeed, wait_for_offset, wait_until

TOPIC = "t"
EVENTS = 300
TAIL = 50
P0 = 'partition="0"'
_SLOW_SECONDS = 0.1


class Restored:
    """A topic of one partition with a snapshot, and with events after it.

    Args:
        directory: of the test.
    """

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.store = directory / "store"
        self.log = f"sqlite:///{directory / 'log.sqlite3'}"
        self.variables = {"SLOTLOG_SNAPSHOTS__URL": str(self.store)}
        self.snapshots: list[str] = []
        self.restored: dict[str, float] = {}

    def service(self, **variables: str) -> ServiceProcess:
        """A service on it."""
        return ServiceProcess([*self.words, "--http", "127.0.0.1:0"], {**self.variables, **variables})

    @property
    def words(self) -> list[str]:
        """The options of its verbs."""
        return ["--data", str(self.data), "--log", self.log, "--topic", TOPIC]

    def append(self, first: int, count: int) -> None:
        """Append events that follow one another."""
        asyncio.run(self._append(first, count))

    async def _append(self, first: int, count: int) -> None:
        events = [
            encode("HSET", [f"h{n % 20}", f"f{n}", "v" * 50]) if n % 3 else encode("INCR", ["n"])
            for n in range(first, first + count)
        ]
        async with opened_log(self.log, TOPIC) as log:
            await log.append([Entry(0, None, event) for event in events])

    def live(self) -> None:
        """Apply events, take two snapshots, apply more, end."""
        with self.service() as service:
            service.wait_for("started")
            for first in (0, EVENTS):
                self.append(first, EVENTS)
                wait_for_offset(service, first + EVENTS)
                printed = succeed("snapshot", "--data", self.data, "--to", self.store, "--json")
                self.snapshots += [each["id"] for each in json.loads(printed)["snapshots"]]
            self.append(2 * EVENTS, TAIL)
            wait_for_offset(service, 2 * EVENTS + TAIL)
            assert 0 == service.terminate()

    def comes_back(self) -> list[dict[str, Any]]:
        """Start the service until all is applied; its log lines."""
        with self.service() as service:
            service.wait_for("started")
            wait_for_offset(service, 2 * EVENTS + TAIL)
            self.restored = metric(service, "slotlog_snapshots_restored_total")
            assert 0 == service.terminate()
            service.wait_for_end()
            return service.seen

    def replay(self, to: Path) -> str:
        """What a replay from the first event says of the state."""
        return succeed("replay", *self.words, "--to", to)


@pytest.fixture
def topic(tmp_path: Path) -> Restored:
    """A topic that has lived for a while."""
    made = Restored(tmp_path)
    made.live()
    return made


def said(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    """The log lines of a name."""
    return [line for line in lines if line.get("event") == event]


def damage(directory: Path) -> None:
    """Cut its list of tables off."""
    (manifest,) = directory.glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20])


LOSSES: dict[str, Callable[[Path], None]] = {
    "the directory is gone": shutil.rmtree,
    "all of --data is gone": lambda directory: shutil.rmtree(directory.parent),
    "its list of tables is damaged": damage,
    "nothing names its tables": lambda directory: (directory / "CURRENT").unlink(),
}


@pytest.mark.damaging
@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_lost_state_comes_back(lose: Callable[[Path], None], topic: Restored, tmp_path: Path) -> None:
    """From the newest snapshot, and the log after it; in the end it equals a replay of the whole log."""
    state = partition_path(topic.data, 0)
    lose(state)
    was_there = state.exists()
    lines = topic.comes_back()

    (restored,) = said(lines, "restored")
    assert {'partition="0"': 1.0} == topic.restored
    assert (topic.snapshots[-1], 2 * EVENTS) == (restored["id"], restored["next_offset"])
    assert "equal" in topic.replay(tmp_path / "again")
    assert was_there == (topic.data / "aside").exists()
    assert not (topic.data / "scratch").exists()
    assert [] == said(topic.comes_back(), "restored")


def test_a_damaged_snapshot_is_named_and_the_one_before_is_taken(topic: Restored, tmp_path: Path) -> None:
    """The reason is in the log; the older one needs more of the log, and gives the same state."""
    shutil.rmtree(partition_path(topic.data, 0))
    (topic.store / "snapshots" / TOPIC / f"{topic.snapshots[-1]}.json").write_bytes(b"{}")
    lines = topic.comes_back()

    (refused,) = said(lines, "snapshot_refused")
    assert topic.snapshots[-1] == refused["id"]
    assert "its manifest is damaged" in refused["reason"]
    assert [topic.snapshots[0]] == [line["id"] for line in said(lines, "restored")]
    assert "equal" in topic.replay(tmp_path / "again")


def test_without_a_usable_snapshot_the_log_is_applied_from_its_begin(topic: Restored, tmp_path: Path) -> None:
    """As without snapshots, if the log has all of it."""
    shutil.rmtree(partition_path(topic.data, 0))
    for file in (topic.store / "files").iterdir():
        file.unlink()
    lines = topic.comes_back()

    assert [False, False] == ["is missing" not in line["reason"] for line in said(lines, "snapshot_refused")]
    assert [] == said(lines, "restored")
    assert "equal" in topic.replay(tmp_path / "again")


def test_snapshots_of_another_log_refuse_the_start(topic: Restored, tmp_path: Path) -> None:
    """A log that was lost with the state is not begun anew in silence."""
    shutil.rmtree(topic.data)
    log = f"sqlite:///{tmp_path / 'other.sqlite3'}"
    words = ["--data", str(topic.data), "--log", log, "--topic", TOPIC, "--http", ""]
    with ServiceProcess(words, topic.variables) as service:
        service.wait_for_end()
        assert 1 == service.exit_code()

    assert "are of another log than" in str(service.seen[-1])
    assert not partition_path(topic.data, 0).exists()


def test_a_store_that_is_away_is_waited_for(topic: Restored, tmp_path: Path) -> None:
    """`/readyz` says why nothing happens; when the store is back the state is restored."""
    shutil.rmtree(partition_path(topic.data, 0))
    topic.store.rename(tmp_path / "away")
    topic.store.write_text("not a directory")
    with topic.service() as service:
        service.wait_for("restore_waits")
        ready = get(service, "/readyz")
        topic.store.unlink()
        (tmp_path / "away").rename(topic.store)
        service.wait_for("restored")
        wait_for_offset(service, 2 * EVENTS + TAIL)
        assert 0 == service.terminate()

    (partition,) = ready.json["partitions"]
    assert (503, False) == (ready.status, partition["ready"])
    assert partition["reason"].startswith("a snapshot is looked for: ")


def test_progress_is_shown(topic: Restored) -> None:
    """While a snapshot is fetched, `/readyz`, status, metrics and log say how far it is, and what is left."""
    shutil.rmtree(partition_path(topic.data, 0))
    slow = max((topic.store / "files").iterdir(), key=lambda path: path.stat().st_size)
    content = slow.read_bytes()
    slow.unlink()
    os.mkfifo(slow)  # the store gives as much of it as the test has written
    with topic.service() as service:
        service.wait_for("restore_begun")
        with slow.open("wb", buffering=0) as pipe:
            half = len(content) // 2
            pipe.write(content[:half])
            wait_until(lambda: metric(service, "slotlog_restore_done_bytes")[P0] >= half, "half of it to be fetched")
            ready, status = get(service, "/readyz"), get(service, "/status").json["partitions"][0]
            total = metric(service, "slotlog_restore_total_bytes")[P0]
            written = half
            while not said(service.said(), "restoring"):
                written += pipe.write(content[written : written + 1])
                sleep(_SLOW_SECONDS)
            pipe.write(content[written:])
        service.wait_for("restored")
        wait_for_offset(service, 2 * EVENTS + TAIL)
        after = metric(service, "slotlog_restore_total_bytes")[P0]
        assert 0 == service.terminate()

    (line, *_) = said(service.seen, "restoring")
    running = status["snapshots"]["running"]
    assert 503 == ready.status
    assert f"snapshot {topic.snapshots[-1]} is being restored: " in ready.json["partitions"][0]["reason"]
    assert ready.json["partitions"][0]["reason"].endswith(" s left")
    assert ("restore", total, True) == (running["what"], running["total_bytes"], running["eta_seconds"] >= 0)
    assert (total, "bytes", True) == (line["total"], line["unit"], half <= line["done"] < total)
    assert line["eta_seconds"] >= 0
    assert 0 == after


@pytest.mark.damaging
def test_damage_that_is_met_later_is_mended(topic: Restored, tmp_path: Path) -> None:
    """A running service whose reads meet damage stops the partition, restores it, and goes on; the old one is aside."""
    state = partition_path(topic.data, 0)
    for table in state.glob("*.sst"):
        if b"next_offset" not in (data := table.read_bytes()):  # which is read at the start
            table.write_bytes(bytes(200) + data[200:])
    with topic.service() as service:
        service.wait_for("started")
        topic.append(2 * EVENTS + TAIL, TAIL)
        service.wait_for("restored")
        wait_for_offset(service, 2 * EVENTS + 2 * TAIL)
        assert 0 == service.terminate()

    assert "equal" in topic.replay(tmp_path / "again")
    assert 1 == len(list((topic.data / "aside").iterdir()))


def test_decisions_of_an_operator_are_kept(topic: Restored, tmp_path: Path) -> None:
    """What was skipped after the snapshot is skipped again, also when the old state is aside already."""
    asyncio.run(append_poison(topic))
    end = 2 * EVENTS + TAIL + 1
    succeed("replay", *topic.words, "--to", tmp_path / "built", "--skip", f"0:{end - 1}")
    shutil.rmtree(partition_path(topic.data, 0))
    (tmp_path / "built" / "0").rename(partition_path(topic.data, 0))
    aside = topic.data / "aside"
    aside.mkdir()
    partition_path(topic.data, 0).rename(aside / "0-1795428000000")
    with topic.service() as service:
        restored = service.wait_for("restored")
        wait_for_offset(service, end)
        assert 0 == service.terminate()

    assert 1 == restored["decisions"]
    skips = json.loads(succeed("digest", *topic.words, "--json"))["partitions"][0]["skips"]
    assert [str(end - 1)] == skips


async def append_poison(topic: Restored) -> None:
    """One more event, which an operator skips."""
    async with opened_log(topic.log, TOPIC) as log:
        await log.append([Entry(0, None, encode("SET", ["skipped", "1"]))])


def test_a_service_that_ends_meanwhile_leaves_no_state(topic: Restored) -> None:
    """SIGTERM while it waits for a store ends it in order, and the next start restores."""
    shutil.rmtree(partition_path(topic.data, 0))
    away = topic.store.with_name("away")
    topic.store.rename(away)
    topic.store.write_text("not a directory")
    with topic.service() as service:
        service.wait_for("restore_waits")
        assert 0 == service.terminate()
    assert not partition_path(topic.data, 0).exists()
    topic.store.unlink()
    away.rename(topic.store)

    assert 1 == len(said(topic.comes_back(), "restored"))
    wait_until(lambda: 0 == run("check", "--data", topic.data, "--log", topic.log).exit_code, "the state is sound")

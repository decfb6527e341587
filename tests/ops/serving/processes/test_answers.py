"""The answers of several processes as one, also while one of them is away."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ops.config import Settings
from ops.serving.processes import held_process
from ops.serving.processes.answers import Answers
from ops.serving.processes.child import Child
from ops.serving.processes.held_process import HeldProcess
from ops.serving.systemd import status

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess


def health(partition: int, **changes: Any) -> dict[str, Any]:
    """Of a partition that is applied."""
    whole = {"partition": partition, "condition": "running", "ready": True, "lag_events": 0, "reason": ""}
    return whole | changes


def readiness(*partitions: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Of a process with these partitions."""
    part = {"ready": True, "reason": ""}
    whole = {"log": part | {"warnings": ["cut"]}, "disk": part, "clock": part, "partitions": list(partitions)}
    return {"ready": all(each["ready"] for each in partitions), **whole, **changes}


class Answering(HeldProcess):
    """A process that answers what a test says, and is away where that is nothing."""

    def __init__(self, number: int, answers: dict[str, dict[str, Any]]) -> None:
        settings = Settings(partitions=2, own=str(number), resp=f"127.0.0.1:{6379 + number}")
        super().__init__(Child(number, settings, Path("none"), None))
        self.answers = answers
        self.asked: list[tuple[bytes, int]] = []
        self.begin()

    def begin(self) -> None:
        """Stand for another process."""
        self._process = cast("SpawnProcess", SimpleNamespace(pid=7))

    async def body(self, path: str) -> bytes | None:
        """The answer."""
        return json.dumps(self.answers[path]).encode() if path in self.answers else None

    async def history(self, key: bytes, db: int) -> tuple[int, dict[str, Any]] | None:
        """Its number, if it is there."""
        self.asked.append((key, db))
        return (200, {"events": [self.child.number]}) if self.answers else None


def answering(number: int, ready: dict[str, Any], live: dict[str, Any] | None = None, **more: Any) -> Answering:
    """A process that is there."""
    return Answering(number, {"/readyz": ready, "/livez": live or {"live": True}, **more})


async def test_all_that_is_ready_is_ready_together() -> None:
    """With all processes ready the service is; each warning is said once, and partitions stand in their order."""
    found = await Answers([answering(0, readiness(health(1))), answering(1, readiness(health(0)))]).readiness()

    assert readiness(health(0), health(1)) == found


async def test_what_is_amiss_in_one_is_amiss() -> None:
    """One process' trouble with its disk is the service's, and the service is not ready."""
    full = readiness(health(1), ready=False, disk={"ready": False, "reason": "full"})
    found = await Answers([answering(0, readiness(health(0))), answering(1, full)]).readiness()

    assert (False, {"ready": False, "reason": "full"}) == (found["ready"], found["disk"])


async def test_a_process_that_is_away_is_being_started_again() -> None:
    """Its partitions are opening, with a reason, and systemd is told that something is still to come."""
    away = Answering(1, {})
    away.starts = 2
    answers = Answers([answering(0, readiness(health(0))), away])
    found = await answers.readiness()

    reason = "process 1, which has partition 1, is being started again"
    opening = health(1, condition="opening", ready=False, lag_events=None, reason=reason)
    assert not found["ready"]
    assert [health(0), opening] == found["partitions"]
    assert "catching up with 1 of 2 partitions, 0 events behind" == status(answers)


async def test_one_that_is_stuck_needs_a_restart() -> None:
    """`/livez` of the service says which process does not turn."""
    answers = Answers([answering(0, readiness()), answering(1, readiness(), {"live": False, "reason": "too long"})])
    before = answers.stuck()
    await answers.readiness()

    assert ("", "process 1: too long") == (before, answers.stuck())


async def test_one_that_says_nothing_needs_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not answered for long hangs; one that has just been started may take its time."""
    silent = Answering(0, {})
    await silent.look()
    young = silent.stuck
    monkeypatch.setattr(held_process, "_SILENT_SECONDS", 0.0)
    await silent.look()

    assert ("", "it has not answered for 0 s") == (young, silent.stuck)


async def test_one_that_is_not_there_hangs_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two processes nobody answers, and what was asked of the one before is not held against the next."""
    monkeypatch.setattr(held_process, "_SILENT_SECONDS", 0.0)
    between, exchanged = Answering(0, {}), Answering(1, {})
    between._process = None
    await between.look()
    monkeypatch.setattr(Answering, "body", lambda process, _path: _exchange(process))
    await exchanged.look()

    assert ("", "") == (between.stuck, exchanged.stuck)


async def _exchange(process: Answering) -> None:
    """No answer, and meanwhile another process is started."""
    process.begin()


def document(partition: int, *, clients: dict[str, Any] | None) -> dict[str, Any]:
    """Of a process with one partition."""
    return {
        "topic": "t",
        "worker": {"pid": partition, "resp": f"host:{partition}"},
        "disk": {"free_bytes": 5},
        "memory": {"rss_bytes": 10, "peak_bytes": 20},
        "partitions": [{**health(partition), "keys": 7}],
        "clients": clients,
        "dead_letters": {"since_start": 2, "error": "", "latest": []},
        "history": partition == 0,
    }


async def test_the_status_of_all_is_one_document() -> None:
    """Memory, clients and dead letters are sums, latencies the worst, addresses those of the first process.

    Histories are shown where all processes show them.
    """
    counts = {"commands_per_second": 1, "connected": 2, "blocked": 0, "subscribed": 1, "read_p99_seconds": None}
    documents = [document(number, clients=counts | {"write_p99_seconds": 0.1 * number}) for number in range(2)]
    processes = [answering(number, readiness(health(number)), **{"/status": documents[number]}) for number in range(2)]
    found = await Answers(processes).document()

    assert {"rss_bytes": 20, "peak_bytes": 40} == found["memory"]
    expected = {"commands_per_second": 2, "connected": 4, "blocked": 0, "subscribed": 2, "read_p99_seconds": None}
    assert expected | {"write_p99_seconds": 0.1} == found["clients"]
    assert (4, False) == (found["dead_letters"]["since_start"], found["history"])
    assert ("host:0", 5, "t") == (found["worker"]["resp"], found["disk"]["free_bytes"], found["topic"])
    assert [(0, 7), (1, 7)] == [(each["partition"], each["keys"]) for each in found["partitions"]]
    assert ["127.0.0.1:6379", "127.0.0.1:6380"] == [each["resp"] for each in found["processes"]]


async def test_the_status_while_one_is_away() -> None:
    """The partitions of a process that is away are there, their counts not known; with no process there is nothing."""
    first = answering(0, readiness(health(0)), **{"/status": document(0, clients=None)})
    found = await Answers([first, Answering(1, {})]).document()

    assert [7, None] == [each["keys"] for each in found["partitions"]]
    assert ["running", "opening"] == [each["condition"] for each in found["partitions"]]
    assert found["clients"] is None
    assert {} == await Answers([Answering(0, {}), Answering(1, {})]).document()


async def test_the_owner_of_a_key_gives_its_history() -> None:
    """The process that has the key's partition is asked, alone; while it is away, that is said."""
    processes = [Answering(0, {}), answering(1, readiness(health(1)))]
    answers = Answers(processes)
    found = [await answers.history(key, 3) for key in (b"a", b"b")]

    assert [(200, {"events": [1]}), (503, {"error": "process 0 does not answer: try again later"})] == found
    assert [[(b"b", 3)], [(b"a", 3)]] == [each.asked for each in processes]

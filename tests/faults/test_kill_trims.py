"""kill -9 beside the request that cuts a Kafka log: before it, before its answer, behind it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from ops.snapshots.steps import Step
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess
from tests.faults.test_kill_snapshots import EVENTS, MORE, facts, killed
from tests.faults.workers import new_topic
from tests.ops.verbs import succeed, wait_for_offset, wait_until, write_lines
from tests.real import forks
from tests.real.held import DELETE_RECORDS, HoldingLink
from tests.real.process import free_ports

TAIL: Final = [{"cmd": "INCR", "args": ["tail"]} for _ in range(10)]
FIRST_KEPT: Final = len(EVENTS) - 1
"""The record that the oldest snapshot applied last: by it a restored state knows the log again."""
SECOND_KEPT: Final = FIRST_KEPT + len(MORE)
"""Likewise of the other one."""


class Log:
    """A Kafka log with two verified snapshots, records after both, and the state of a service that has applied some.

    Args:
        directory: of the test.
        bootstrap: of the broker.
        monkeypatch: sets what all verbs are told.

    Attributes:
        snapshots: the ids of both, the oldest first.
        unbroken: the digest of a replay of the whole log.
    """

    def __init__(self, directory: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bootstrap = bootstrap
        self.data = directory / "data"
        self.data.mkdir()
        self.snapshots: list[str] = []
        self._topic = new_topic()
        self._directory = directory
        monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", str(directory / "store"))
        for number, events in enumerate((EVENTS, MORE)):
            self._append(events)
            built = directory / f"built-{number}"
            succeed("replay", "--to", built, *self.words)
            shutil.rmtree(self.data / "0", ignore_errors=True)
            (built / "0").rename(self.data / "0")
            self.snapshots.append(facts("snapshot", "--data", self.data)["snapshots"][0]["id"])
        self._append(TAIL)
        self.unbroken = str(facts("replay", "--to", directory / "unbroken", *self.words)["digest"])

    @property
    def words(self) -> list[str]:
        """What leads a verb to it."""
        return self.words_to(self.bootstrap)

    def words_to(self, bootstrap: str) -> list[str]:
        """What leads a verb to it by another address."""
        return ["--log", f"kafka://{bootstrap}", "--topic", self._topic, "--data", str(self.data)]

    def begin(self) -> int:
        """The first offset that the broker has."""

        async def ask() -> int:
            async with opened_log(f"kafka://{self.bootstrap}", self._topic) as log:
                return await log.begin_offset(0)

        return asyncio.run(ask())

    def trim(self) -> tuple[int, int]:
        """Cut it; where it began and begins."""
        (cut,) = facts("trim", *self.words)["partitions"]
        return cut["begin_offset"], cut["trimmed_to"]

    def digest_of_a_service(self) -> str:
        """Of the state of a service that is started, applies what there is, and is stopped."""
        with ServiceProcess([*self.words, "--http", "127.0.0.1:0"]) as service:
            service.wait_for("started")
            wait_for_offset(service, len(EVENTS) + len(MORE) + len(TAIL))
            assert 0 == service.terminate()
        return str(facts("digest", *self.words)["digest"])

    def _append(self, events: list[dict[str, Any]]) -> None:
        succeed("produce", write_lines(self._directory / "events", events), *self.words)

    def check_after_kill(self, begin: int) -> None:
        """The log begins there, and a service that goes on with its state has applied each event once."""
        assert begin == self.begin()
        assert self.unbroken == self.digest_of_a_service()

    def check_in_the_end(self, begin: int) -> None:
        """There is nothing left to cut, and a service without a disk starts from a snapshot."""
        assert (begin, begin) == self.trim()
        shutil.rmtree(self.data)
        assert self.unbroken == self.digest_of_a_service()


@pytest.fixture
def log(tmp_path: Path, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log with two snapshots."""
    return Log(tmp_path, kafka_bootstrap, monkeypatch)


@contextmanager
def holding(log: Log, *, arrives: bool) -> Iterator[HoldingLink]:
    """A link to the broker on which the request that deletes records, or its answer, goes no further."""
    (port,) = free_ports(1)
    with HoldingLink(port, log.bootstrap, DELETE_RECORDS, arrives=arrives) as link:
        yield link


def killed_in_a_cut(log: Log, begin: int, *, arrives: bool) -> None:
    """Kill `trim` when it has asked the broker, which has not heard of it, or lets the log begin there already."""
    with holding(log, arrives=arrives) as link:
        words = ["trim", *log.words_to(f"127.0.0.1:{link.port}")]
        process = forks.start([sys.executable, "-m", "ops.cli", *words], os.environ)
        assert link.is_held.wait(60)
        wait_until(lambda: log.begin() == begin, "the broker to have deleted")
        process.kill()
        assert -signal.SIGKILL == process.wait(60)


@pytest.mark.timeout(240)
def test_killed_beside_a_cut(log: Log) -> None:
    """`trim` is killed before the broker has its request, behind the answer, and when the broker has answered alone.

    The oldest snapshot goes in between. Nothing is deleted that the oldest one which is kept needs.
    """
    killed_in_a_cut(log, 0, arrives=False)
    log.check_after_kill(0)
    killed(Step.TRIMMED, "trim", *log.words)
    log.check_after_kill(FIRST_KEPT)
    succeed("snapshots", "delete", log.snapshots[0], "--data", log.data)
    killed_in_a_cut(log, SECOND_KEPT, arrives=True)
    log.check_after_kill(SECOND_KEPT)
    log.check_in_the_end(SECOND_KEPT)


@pytest.mark.timeout(240)
def test_a_service_is_killed_in_a_cut(log: Log) -> None:
    """A service that cuts its log by itself is killed before it knows that the broker has deleted."""
    with holding(log, arrives=True) as link:
        words = [*log.words_to(f"127.0.0.1:{link.port}"), "--http", ""]
        with ServiceProcess(words, {"SLOTLOG_SNAPSHOTS__TRIM_SECONDS": "0.1"}) as service:
            assert link.is_held.wait(60)
            wait_until(lambda: log.begin() == FIRST_KEPT, "the broker to have deleted")
            service.kill()
    log.check_after_kill(FIRST_KEPT)
    log.check_in_the_end(FIRST_KEPT)

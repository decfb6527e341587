"""Workers of one topic that are killed: what the others say, and messages among those that are there."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from tests.clients.programs import INSTALLED
from tests.faults.workers import WorkerProcess, running_workers
from tests.ops.verbs import wait_until

PATIENCE: Final = 300
"""Attempts of a client, a tenth of a second apart: a worker that is started again takes some seconds here."""


def test_twelve_messages_of_twelve(tmp_path: Path) -> None:
    """Of twelve messages, four published at each of three workers, a subscriber at each hears all twelve."""
    with running_workers(tmp_path, 3) as workers, ExitStack() as stack:
        listeners = [stack.enter_context(closing(worker.connect())) for worker in workers]
        for listener in listeners:
            listener.call("SUBSCRIBE", "news")
        for number in range(4):
            for who, worker in enumerate(workers):
                assert 1 == worker.call("PUBLISH", "news", f"{who}-{number}")
        heard = [sorted(listener.reply()[2] for _ in range(12)) for listener in listeners]
        lost = [worker.metric("slotlog_peer_messages_lost_total", 'reason="unreachable"') for worker in workers]

    assert [[f"{who}-{number}".encode() for who in range(3) for number in range(4)]] * 3 == heard
    assert [0, 0, 0] == lost


def test_a_killed_worker_is_told_of(tmp_path: Path) -> None:
    """With one of two workers killed the other says so in CLUSTER INFO, NODES and SHARDS and in its metrics."""
    with running_workers(tmp_path, 2) as (first, second):
        before = first.info()
        second.kill()
        wait_until(lambda: first.info()["cluster_slots_fail"] == "8192", "the other one to have failed")
        after = first.info()
        line = first.call("CLUSTER", "NODES").decode().splitlines()[1]
        health = [shard[3][0][-1] for shard in first.call("CLUSTER", "SHARDS")]
        written = first.call("SET", "b", "1")
        failed = first.metric("slotlog_peers", 'health="failed"')
        second.start()
        wait_until(lambda: first.info()["cluster_state"] == "ok", "it to be back")

    names = "cluster_state", "cluster_slots_ok", "cluster_slots_pfail", "cluster_slots_fail"
    assert ["ok", "16384", "0", "0"] == [before[name] for name in names]
    assert ["fail", "8192", "0", "8192"] == [after[name] for name in names]
    assert re.search(r" master,fail - \d+ \d+ 0 disconnected 8192-16383$", line)
    assert [b"online", b"fail"] == health
    assert (b"OK", 1) == (written.text, failed)


def test_messages_for_a_killed_worker_are_counted(tmp_path: Path) -> None:
    """Messages go on to the workers that are there; those that a killed one misses are counted."""
    with running_workers(tmp_path, 3) as (first, second, third):
        third.kill()
        wait_until(lambda: first.metric("slotlog_peers", 'health="failed"') == 1, "it to have failed")
        with closing(second.connect()) as listener:
            listener.call("SUBSCRIBE", "news")
            for number in range(5):
                first.call("PUBLISH", "news", str(number))
            heard = [listener.reply()[2] for _ in range(5)]
        wait_until(
            lambda: first.metric("slotlog_peer_messages_lost_total", 'reason="unreachable"') == 5, "five to be lost"
        )

    assert [b"0", b"1", b"2", b"3", b"4"] == heard


class Counting:
    """A client of the cluster that counts keys up, each by one at a time, in a thread, until told to end."""

    def __init__(self, port: int, name: str) -> None:
        self.acknowledged: dict[str, int] = {}
        self.failures: list[Exception] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port, name))
        self._thread.start()

    def end(self) -> None:
        """End it, and wait for it."""
        self._end.set()
        self._thread.join()

    @property
    def total(self) -> int:
        """Writes that were acknowledged."""
        return sum(self.acknowledged.values())

    def _run(self, port: int, name: str) -> None:
        patience = Retry(ConstantBackoff(0.1), PATIENCE)
        with redis.RedisCluster(host="127.0.0.1", port=port, retry=patience) as client:
            number = 0
            while not self._end.is_set():
                key = f"{name}:{number % 20}"
                number += 1
                try:
                    self.acknowledged[key] = client.incr(key)
                except redis.RedisError as error:
                    self.failures.append(error)
                    return


def restarted_under_load(workers: list[WorkerProcess], clients: list[Counting]) -> None:
    """SIGTERM each worker in turn and start it again, with writes acknowledged before and after."""
    for worker in workers:
        for client in clients:
            goal = client.total + 50
            wait_until(lambda: bool(client.failures) or client.total >= goal, "writes")  # noqa: B023 - called at once
        worker.restart()
    for client in clients:
        client.end()


@pytest.mark.timeout(180)
def test_a_stopped_worker_hands_over_in_order(tmp_path: Path) -> None:
    """Workers are stopped under load and started again: a cluster client sees no error, nothing is lost or twice."""
    with running_workers(tmp_path, 2) as workers:
        clients = [Counting(workers[0].port, f"client{number}") for number in range(4)]
        restarted_under_load(workers, clients)
        with redis.RedisCluster(host="127.0.0.1", port=workers[0].port) as client:
            there = [{key: int(client.get(key)) for key in each.acknowledged} for each in clients]

    assert [] == [str(error) for each in clients for error in each.failures]
    assert [each.acknowledged for each in clients] == there


@pytest.mark.timeout(180)
def test_go_clients_see_no_error(tmp_path: Path) -> None:
    """The same with go-redis, which sends again what was answered CLUSTERDOWN."""
    with running_workers(tmp_path, 2) as workers:
        program = subprocess.Popen(
            [INSTALLED / "go" / "counting", str(workers[0].port), "go"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        for worker in workers:
            assert [".\n", ".\n"] == [program.stdout.readline() for _ in range(2)]  # it counts
            worker.restart()
        report, _ = program.communicate(timeout=60)
        seen = json.loads(report.lstrip(".\n"))
        with redis.RedisCluster(host="127.0.0.1", port=workers[0].port) as client:
            there = {key: int(client.get(key)) for key in seen["counts"]}

    assert ([], seen["counts"]) == (seen["errors"], there)

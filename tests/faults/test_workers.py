"""Workers of one topic that are killed: what the others say, and messages among those that are there."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from tests.clients.programs import INSTALLED
from tests.faults.workers import WorkerProcess, links_of, running_workers
from tests.ops.verbs import wait_until

PATIENCE: Final = 20_000
"""Attempts of a client: redis-py makes the next one at once where a connection is refused, as it is for some seconds
while a worker is started again, and on a busy machine for a quarter of a minute.
"""


def test_twelve_messages_of_twelve(tmp_path: Path, log_url: str) -> None:
    """Of twelve messages, four published at each of three workers, a subscriber at each hears all twelve."""
    with running_workers(tmp_path, 3, log_url) as workers, ExitStack() as stack:
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


def test_a_killed_worker_is_told_of(tmp_path: Path, log_url: str) -> None:
    """With one of three workers killed the others say so in CLUSTER INFO, NODES and SHARDS and in their metrics."""
    with running_workers(tmp_path, 3, log_url) as (*others, killed):
        before = [worker.info() for worker in others]
        killed.kill()
        for worker in others:
            wait_until(lambda: worker.info()["cluster_slots_fail"] == "5461", "it to have failed")  # noqa: B023 - called at once
        after = [worker.info() for worker in others]
        lines = [worker.call("CLUSTER", "NODES").decode() for worker in others]
        health = [[shard[3][0][-1] for shard in worker.call("CLUSTER", "SHARDS")] for worker in others]
        written = others[0].call("SET", "b", "1")
        failed = [worker.metric("slotlog_peers", 'health="failed"') for worker in others]
        killed.start()
        for worker in others:
            wait_until(lambda: worker.info()["cluster_state"] == "ok", "it to be back")  # noqa: B023 - as above

    names = "cluster_state", "cluster_slots_ok", "cluster_slots_pfail", "cluster_slots_fail"
    assert [["ok", "16384", "0", "0"]] * 2 == [[info[name] for name in names] for info in before]
    assert [["fail", "10923", "0", "5461"]] * 2 == [[info[name] for name in names] for info in after]
    assert [1, 1] == [len(re.findall(r" master,fail - \d+ \d+ 0 disconnected 10923-16383\n", text)) for text in lines]
    assert [[b"online", b"online", b"fail"]] * 2 == health
    assert (b"OK", [1, 1]) == (written.text, failed)


def test_messages_after_a_return(tmp_path: Path, log_url: str) -> None:
    """Messages are published all the time while a worker is killed and comes back: each is heard there or counted.

    What its new listener hears has no gap, once the publisher's worker has had the greeting of the one that is back.
    """
    with running_workers(tmp_path, 3, log_url) as (first, _, third), closing(first.connect()) as publisher:
        published = count(1)

        def publish() -> int:
            reply = publisher.call("PUBLISH", "news", str(number := next(published)))
            assert reply == 0, reply  # nobody listens there; an error would be a message that was not published
            return number

        for _ in range(20):
            publish()
        third.kill()
        wait_until(lambda: publish() > 0 and first.info()["cluster_slots_fail"] == "5461", "it to have failed")
        third.start()
        with closing(third.connect()) as listener:
            listener.call("SUBSCRIBE", "news")
            wait_until(lambda: publish() > 0 and len(links_of(first)) == 2, "the link to be back")
            begin = publish()
            last = [publish() for _ in range(50)][-1]
            heard = [int(listener.reply()[2])]
            while heard[-1] < last:
                heard.append(int(listener.reply()[2]))
        wait_until(
            lambda: sum(told(first)) == 2 * last,
            f"the fate of each of {last}, at each of two workers, to be known",
            lambda: fates(first),
        )
        _, lost = told(first)

    assert list(range(heard[0], last + 1)) == heard
    assert (True, True) == (heard[0] <= begin, lost > 0)


def fates(worker: WorkerProcess) -> dict[str, Any]:
    """What a worker says of its messages for others, and of those."""
    lost, peers = (worker.metrics(f"slotlog_{name}") for name in ("peer_messages_lost_total", "peers"))
    service = worker.service
    assert service is not None
    return {"told": told(worker), "lost": lost, "peers": peers, "log": service.said()}


def told(worker: WorkerProcess) -> tuple[float, float]:
    """How many messages others have taken from it, and how many it has lost."""
    lost = worker.metrics("slotlog_peer_messages_lost_total")
    return worker.metric("slotlog_peer_messages_sent_total"), sum(lost.values())


def test_messages_for_a_killed_worker_are_counted(tmp_path: Path, log_url: str) -> None:
    """Messages go on to the workers that are there; those that a killed one misses are counted."""
    with running_workers(tmp_path, 3, log_url) as (first, second, third):
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
        self._thread = threading.Thread(target=self._run, args=(port, name), daemon=True)
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


@pytest.mark.timeout(300)
def test_a_stopped_worker_hands_over_in_order(tmp_path: Path, log_url: str) -> None:
    """Workers are stopped under load and started again: a cluster client sees no error, nothing is lost or twice."""
    with running_workers(tmp_path, 3, log_url) as workers:
        clients = [Counting(workers[0].port, f"client{number}") for number in range(4)]
        restarted_under_load(workers, clients)
        with redis.RedisCluster(host="127.0.0.1", port=workers[0].port) as client:
            there = [{key: int(client.get(key)) for key in each.acknowledged} for each in clients]

    assert [] == [str(error) for each in clients for error in each.failures]
    assert [each.acknowledged for each in clients] == there


@pytest.mark.timeout(300)
def test_go_clients_see_no_error(tmp_path: Path, log_url: str) -> None:
    """The same with go-redis, which sends again what was answered CLUSTERDOWN."""
    with running_workers(tmp_path, 3, log_url) as workers:
        program = subprocess.Popen(
            [INSTALLED / "go" / "counting", str(workers[0].port), "go", "patient"],
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

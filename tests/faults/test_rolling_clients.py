"""Unmodified cluster clients, while the workers of a group are restarted one after the other."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.clients.programs import Counting, counting
from tests.faults.grouped import GroupedWorker
from tests.faults.workers import new_topic
from tests.ops.verbs import wait_until
from tests.real.process import free_ports

_PARTITIONS = 3
_EVERY = ("redis-py", "ioredis", "node-redis", "go-redis", "Jedis", "Lettuce", "redis-rb")
_ROUNDS = int(os.environ.get("ROLLING_ROUNDS", "0"))  # 0: one round, without those clients that take long to start
_CLIENTS = _EVERY if _ROUNDS else ("redis-py", "node-redis", "go-redis", "redis-rb")


def _wait_for_dots(programs: dict[str, Counting], dots: int) -> None:
    """Wait until each has counted so often 50 again, or has ended with an error."""
    wanted = {name: program.dots + dots for name, program in programs.items()}
    wait_until(
        lambda: all(program.dots >= wanted[name] or program.report for name, program in programs.items()),
        "all clients to count",
        lambda: {name: (program.dots, program.report) for name, program in programs.items()},
    )


@pytest.mark.timeout(600)
def test_clients_see_no_error_while_workers_are_restarted(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Clients of several languages count on, with their default settings, and no count is lost or made twice.

    As an operator does it: the next worker is stopped once the one before is back, and `/readyz` there says so. No
    worker warns of a partition with two owners or none.
    """
    topic, url, ports, pages = new_topic(), f"kafka://{kafka_bootstrap}", free_ports(3), free_ports(3)
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=_PARTITIONS, session_seconds=4, standbys=1)

        def begin(number: int) -> GroupedWorker:
            http = f"127.0.0.1:{pages[number]}"
            every.append(stack.enter_context(start(tmp_path / str(number), port=ports[number], http=http)))
            return every[-1]

        def wait_for_ready(*numbers: int) -> None:
            for number in numbers:
                worker = workers[number]
                wait_until(worker.is_ready, f"worker {number} to be ready", worker.said)

        every: list[GroupedWorker] = []
        workers = [begin(number) for number in range(3)]
        wait_for_ready(0, 1, 2)
        programs = counting(ports[0], _CLIENTS)
        for program in programs.values():
            stack.callback(program.kill)
        _wait_for_dots(programs, 1)
        for number in [*range(3)] * max(1, _ROUNDS):
            assert 0 == workers[number].terminate()
            assert [] == workers[number].wait_for("handed_over")["left"]
            _wait_for_dots(programs, 1)
            workers[number] = begin(number)
            wait_for_ready(number)
            _wait_for_dots(programs, 1)
        said = [line for worker in every for line in worker.said()]
        reports = {name: program.end() for name, program in programs.items()}
        with redis.RedisCluster(host="127.0.0.1", port=ports[0]) as client:
            there = {
                name: {key: int(client.get(key) or 0) for key in report["counts"]} for name, report in reports.items()
            }

    assert [] == [line for line in said if line.get("event") in {"owned_twice", "owned_by_nobody"}]
    assert {} == {name: report["errors"] for name, report in reports.items() if report["errors"]}
    assert {name: report["counts"] for name, report in reports.items()} == there

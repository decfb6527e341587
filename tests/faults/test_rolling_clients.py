"""Unmodified cluster clients, while the workers of a group are restarted one after the other."""

from __future__ import annotations

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


def _wait_for_dots(programs: dict[str, Counting], dots: int) -> None:
    """Wait until each has counted so often 50 again, or has ended with an error."""
    wanted = {name: program.dots + dots for name, program in programs.items()}
    wait_until(
        lambda: all(program.dots >= wanted[name] or program.report for name, program in programs.items()),
        "all clients to count",
        lambda: {name: (program.dots, program.report) for name, program in programs.items()},
    )


@pytest.mark.timeout(300)
def test_clients_see_no_error_while_workers_are_restarted(tmp_path: Path, kafka_bootstrap: str) -> None:
    """redis-py and ioredis count on, and no count is lost or made twice."""
    topic, url, ports = new_topic(), f"kafka://{kafka_bootstrap}", free_ports(3)
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=_PARTITIONS, session_seconds=4, standbys=1)

        def begin(number: int) -> GroupedWorker:
            return stack.enter_context(start(tmp_path / str(number), port=ports[number]))

        workers = [begin(number) for number in range(3)]

        def is_shared() -> bool:
            return all({*worker.owners().values()} == {*ports} for worker in workers)

        wait_until(is_shared, "every worker to own")
        programs = counting(ports[0])
        for program in programs.values():
            stack.callback(program.kill)
        _wait_for_dots(programs, 1)
        for number in range(3):
            assert 0 == workers[number].terminate()
            _wait_for_dots(programs, 1)
            workers[number] = begin(number)
            wait_until(is_shared, "every worker to own")
            _wait_for_dots(programs, 1)
        reports = {name: program.end() for name, program in programs.items()}
        with redis.RedisCluster(host="127.0.0.1", port=ports[0]) as client:
            there = {
                name: {key: int(client.get(key) or 0) for key in report["counts"]} for name, report in reports.items()
            }

    assert {} == {name: report["errors"] for name, report in reports.items() if report["errors"]}
    assert {name: report["counts"] for name, report in reports.items()} == there

"""A partition with two owners, and one with none: services say so of themselves, on both logs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.workers import WorkerProcess, new_topic, worker_options
from tests.ops.verbs import get, wait_until
from tests.real.process import free_ports


def started(stack: ExitStack, tmp_path: Path, log_url: str, names: str) -> list[WorkerProcess]:
    """Workers of a topic with two partitions, each with a state of its own, that own the first one."""
    workers, topic = [], new_topic()
    for name, port in zip(names, free_ports(len(names)), strict=True):
        options = worker_options(tmp_path / name, log_url, topic, port, 2, 0)
        workers.append(stack.enter_context(WorkerProcess(port, options)))
    return workers


@pytest.mark.timeout(180)
def test_two_owners_and_none(tmp_path: Path, log_url: str) -> None:
    """Two owners with states of their own notice each other, and both that a partition is nobody's; ready they stay.

    Once one is killed the other is alone again.
    """
    with ExitStack() as stack:
        first, second = started(stack, tmp_path, log_url, "ab")
        for worker in (first, second):
            wait_until(lambda: worker.metric("slotlog_partition_owners", 'partition="0"') == 2, "the other")  # noqa: B023 - called at once
            wait_until(lambda: "slotlog_partitions_unowned 1" in metrics(worker), "the partition of nobody")  # noqa: B023 - as above
        assert first.service is not None
        answer = get(first.service, "/readyz")
        warnings = answer.json["log"]["warnings"]
        said = first.service.wait_for("owned_twice")
        second.kill()
        wait_until(lambda: first.metric("slotlog_partition_owners", 'partition="0"') == 1, "it to be alone")

    (other,) = said["others"]
    assert (200, 0, True) == (answer.status, said["partition"], f":{tmp_path / 'b'}#" in other)
    assert [
        f"partition 0 has another owner too, {other}: reads may be old there and here",
        "nobody owns the partitions [1]: nothing is applied there",
    ] == warnings


def metrics(worker: WorkerProcess) -> str:
    """Of a worker, as text."""
    assert worker.service is not None
    return get(worker.service, "/metrics").text

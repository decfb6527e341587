"""Several processes of one machine as members of a group, beside a worker that joins it."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.grouped import Counting, GroupedWorker, connect, keys_of
from tests.faults.workers import new_topic
from tests.ops.verbs import wait_until
from tests.real.process import free_ports, free_row

_PARTITIONS = 4


@pytest.mark.timeout(240)
def test_processes_of_a_machine_are_members(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Two processes share the partitions, each with states of its own; a worker that joins takes a part of each.

    What is published at the worker reaches clients of both processes. One that is killed is started again, and nothing
    that was acknowledged is lost.
    """
    topic, url, port, (other,) = new_topic(), f"kafka://{kafka_bootstrap}", free_row(2), free_ports(1)
    ports = [port, port + 1, other]
    counting = Counting(ports, keys_of(_PARTITIONS))
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=_PARTITIONS, session_seconds=4)
        service = stack.enter_context(start(tmp_path / "0", port=port, processes=2))
        pids = [service.wait_for("process_started")["pid"] for _ in range(2)]
        wait_until(lambda: {*ports[:2]} == {*service.owners().values()}, "both processes to own")
        assert ["process-0", "process-1"] == sorted(path.name for path in (tmp_path / "0").iterdir())
        joined = stack.enter_context(start(tmp_path / "1", port=other))
        wait_until(lambda: {*ports} == {*joined.owners().values()}, "all three to own")
        for listening in ports[:2]:
            client: Any = connect(listening)
            stack.callback(client.close)
            pubsub = client.pubsub()
            stack.callback(pubsub.close)
            pubsub.subscribe("news")
            assert pubsub.get_message(timeout=30)
            publisher: Any = connect(other)
            stack.callback(publisher.close)
            publisher.publish("news", "hello")
            wait_until(lambda: (each := pubsub.get_message()) and b"hello" == each["data"], "the message")  # noqa: B023 - called at once

        counting.start()
        stack.callback(counting.stop)
        counting.wait_for_more(3)
        os.kill(pids[0], signal.SIGKILL)
        service.wait_for("process_ended")
        service.wait_for("process_started")
        wait_until(lambda: {*ports} == {*joined.owners().values()}, "the killed process to own again")
        counting.wait_for_more(3)
        counting.stop()
        values = {key: counting.read(key) for key in counting.acknowledged}

    for key, value in values.items():
        assert counting.acknowledged[key] <= value <= counting.acknowledged[key] + counting.doubtful[key], key

"""Two of three brokers that are lost: writes fail and say why, replicas read on, and nothing is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
import redis

from slotlog.log.kafka.topic import MESSAGE_BYTES_MAX, TopicRules
from tests.faults.grouped import connect
from tests.faults.rig import LARGE, Rig
from tests.faults.topics import administered
from tests.faults.workers import WorkerProcess, new_topic, worker_options
from tests.ops.verbs import get, wait_until
from tests.real.oracle import SimpleString
from tests.real.process import free_ports

_CLEAR: Final = re.compile(
    r"^\d+ 127|^Hash slot not served|^slotlog (is|may not)|UNKNOWNOUTCOME|nothing was written|owns no partition"
)
"""Errors that say what has become of a write: nothing, or that nobody knows. redis-py leaves out the first word."""


@contextmanager
def _unclean(rig: Rig, home: Path, nodes: list[int]) -> Iterator[WorkerProcess]:
    """A worker whose topic lies on two brokers, and may be led by one that lacks its end, though that was acknowledged.

    Nobody may start a worker on such a topic: an operator changes it later.
    """
    topic, (port,) = new_topic(), free_ports(1)
    rig.cluster.create_topic(topic, {0: nodes}, TopicRules(topic, 1).settings(2))
    options = worker_options(home, f"kafka://{rig.cluster.bootstrap}", topic, port, 1, 0)

    async def allow() -> None:
        async with administered(rig.cluster.bootstrap, topic) as administration:
            await administration.configure(
                min_insync_replicas="1",
                unclean_leader_election_enable="true",
                retention_ms="-1",
                retention_bytes="-1",
                message_timestamp_type="LogAppendTime",
                max_message_bytes=str(MESSAGE_BYTES_MAX),
            )

    with WorkerProcess(port, options) as worker:
        asyncio.run(allow())
        yield worker


def _ports_of_followers(rig: Rig, key: str) -> list[int]:
    """At which a replica may answer for a key: its owner would, too."""
    owner = rig.owner_of(key)
    return [port for number, port in enumerate(rig.replica_ports) if number != owner]


def _length(ports: Sequence[int], key: str) -> int:
    """How long a list is by what replicas show; -1: none shows it."""
    found = [-1]
    for port in ports:
        with closing(connect(port)) as client, suppress(redis.ResponseError):
            client.execute_command("READONLY")  # type: ignore[no-untyped-call]
            found.append(int(client.llen(key)))
    return max(found)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("coordinator_is_left", [True, False] if LARGE else [True])
def test_two_of_three_brokers_are_lost_and_back(rig: Rig, tmp_path: Path, coordinator_is_left: bool) -> None:
    """Writes fail and say why, replicas read on, and nothing is lost when both are back.

    Also where the one that is left coordinates the group: it takes heartbeats on and on. A topic that was set to be led
    by a broker that lacks its end is, and its worker notices that the log was truncated.
    """
    coordinator = rig.cluster.coordinator(rig.group)
    lagging, other = (node for node in rig.cluster.brokers if node != coordinator)
    leader = other if coordinator_is_left else coordinator
    with (
        _unclean(rig, tmp_path / "unclean", [leader, lagging]) as worker,
        rig.writing(f"two-{coordinator_is_left}") as writer,
    ):
        assert SimpleString(b"OK") == worker.call("SET", "kept", "1")
        rig.cluster.brokers[lagging].kill()
        wait_until(lambda: worker.call("SET", "lost", "1") == SimpleString(b"OK"), "one of two brokers to be enough")
        writer.wait_for_more(1)
        ports = {key: _ports_of_followers(rig, key) for key in writer.written}
        known = {key: _length(ports[key], key) for key in ports}
        rig.cluster.brokers[leader].kill()
        failed = sum(writer.errors.values())
        wait_until(
            lambda: all(_refuses(rig.ports[number], rig.keys) for number in rig.workers),
            "every worker to know that it may own nothing any more",
            lambda: [worker.said()[-5:] for worker in rig.workers.values()],
        )
        assert [] == [key for key in ports if not 0 < known[key] <= _length(ports[key], key)]
        rig.cluster.start_brokers(lagging)
        wait_until(lambda: "truncated" in _reason(worker), "it to notice", lambda: _reason(worker))
        rig.cluster.start_brokers(leader)
    rig.cluster.wait_for_replicas(rig.topic)
    rig.compare()

    assert [] == [text for text in writer.errors if not _CLEAR.search(text)]
    assert failed < sum(writer.errors.values())


def _refuses(port: int, keys: Sequence[str]) -> bool:
    """Whether a worker answers no read that may not be old."""
    with closing(connect(port)) as client:
        for key in keys:
            try:
                client.exists(key)
            except redis.ResponseError:
                continue
            return False
    return True


def _reason(worker: WorkerProcess) -> str:
    """Why its partition does not run."""
    assert worker.service is not None
    (partition,) = get(worker.service, "/readyz").json["partitions"]
    return str(partition["reason"])

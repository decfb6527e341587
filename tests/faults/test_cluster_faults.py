"""A group of workers on three brokers, and brokers, links and workers that fail: what takes a night."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import pytest
import redis

from slotlog.log.kafka.topic import MESSAGE_BYTES_MAX, TopicRules
from tests.faults.grouped import connect
from tests.faults.rig import LARGE, MORE, Rig
from tests.faults.topics import administered
from tests.faults.workers import WorkerProcess, new_topic, worker_options
from tests.ops.verbs import get, wait_until
from tests.real.oracle import SimpleString
from tests.real.process import free_ports

_PAUSED_SECONDS: Final = 60 if LARGE else 5
_HALF_OPEN_SECONDS: Final = 30 if LARGE else 3
_DELAY_SECONDS: Final = 0.05
_CUTS: Final = 20 if LARGE else 3
_CHANGES: Final = 50 if LARGE else 2
_DEPTH: Final = 20 if LARGE else 1
_CLEAR: Final = re.compile(
    r"^\d+ 127|^Hash slot not served|^slotlog (is|may not)|UNKNOWNOUTCOME|nothing was written|owns no partition"
)
"""Errors that say what has become of a write: nothing, or that nobody knows. redis-py leaves out the first word."""


@pytest.mark.timeout(300)
def test_the_coordinator_is_lost(rig: Rig) -> None:
    """The group's coordinator is stopped in order: another broker coordinates, and nothing moves."""
    before = rig.owners()
    coordinator = rig.cluster.coordinator(rig.group)
    with rig.writing("coordinator"):
        rig.cluster.brokers[coordinator].stop()
        assert coordinator != rig.cluster.coordinator(rig.group)
    assert before == rig.owners()
    rig.cluster.start_brokers(coordinator)
    rig.cluster.wait_for_replicas(rig.topic)


@pytest.mark.timeout(300)
def test_the_leader_is_paused(rig: Rig) -> None:
    """The broker that leads a partition stands still, and goes on when another one leads."""
    leader = rig.cluster.leaders(rig.topic)[0]
    broker = rig.cluster.brokers[leader]
    with rig.writing("paused") as writer:
        broker.pause()
        try:
            until = monotonic() + _PAUSED_SECONDS
            writer.wait_for_more(1)
            sleep(max(0.0, until - monotonic()))
        finally:
            broker.resume()
    rig.cluster.wait_for_replicas(rig.topic)


@pytest.mark.timeout(300)
def test_a_slow_link(rig: Rig) -> None:
    """Everything between the workers and a broker arrives late: writes take longer."""
    link = rig.cluster.links[rig.cluster.leaders(rig.topic)[0]]
    link.delay_seconds = _DELAY_SECONDS
    try:
        with rig.writing("delayed"):
            pass
    finally:
        link.mend()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("to_client", [False, True])
def test_a_link_cut_in_a_frame(rig: Rig, to_client: bool) -> None:
    """Connections end in the middle of a request, or of an answer to it, again and again."""
    link = rig.cluster.links[rig.cluster.leaders(rig.topic)[0]]
    with rig.writing(f"cut-{to_client}") as writer:
        for _ in range(_CUTS):
            before = link.cut
            link.cut_in_frame(1, to_client=to_client)
            wait_until(lambda: link.cut > before, "a connection to be cut")  # noqa: B023 - called at once
            writer.wait_for_more(1)


@pytest.mark.timeout(300)
def test_a_half_open_link(rig: Rig) -> None:
    """Nothing arrives over a link whose connections stay: what was held arrives late, and counts once all the same."""
    link = rig.cluster.links[rig.cluster.leaders(rig.topic)[0]]
    with rig.writing("half-open"):
        link.half_open()
        try:
            sleep(_HALF_OPEN_SECONDS)
        finally:
            link.mend()
        assert link.held > 0


@pytest.mark.timeout(600)
def test_workers_come_and_go(rig: Rig) -> None:
    """Workers leave and come back one after the other, one of five by SIGKILL: nothing is lost, or there twice."""
    choose = random.Random(1)
    with rig.writing("come and go", depth=_DEPTH):
        for change in range(_CHANGES):
            number = choose.choice(sorted(rig.workers))
            if change % 5 == 1:
                rig.kill(number)
            else:
                assert 0 == rig.workers.pop(number).terminate()
            rig.start(number).wait_for("started")
    rig.wait_until_shared()


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


def _reads(ports: Sequence[int], keys: Sequence[str]) -> dict[str, int]:
    """How long the list of each key is by those who answer for it to a client that reads replicas: the longest."""
    found: dict[str, int] = {}
    for port in ports:
        with closing(connect(port)) as client:
            client.execute_command("READONLY")  # type: ignore[no-untyped-call]
            for key in keys:
                with suppress(redis.ResponseError):
                    found[key] = max(found.get(key, 0), int(client.llen(key)))
    return found


@pytest.mark.timeout(400)
def test_two_of_three_brokers_are_lost_and_back(rig: Rig, tmp_path: Path) -> None:
    """Writes fail and say why, replicas read on, and nothing is lost when both are back.

    A topic that was set to be led by a broker that lacks its end is, and its worker notices that the log was truncated.
    """
    lagging, leader = (node for node in rig.cluster.brokers if node != rig.cluster.coordinator(rig.group))
    with _unclean(rig, tmp_path / "unclean", [leader, lagging]) as worker, rig.writing("two") as writer:
        assert SimpleString(b"OK") == worker.call("SET", "kept", "1")
        rig.cluster.brokers[lagging].kill()
        wait_until(lambda: worker.call("SET", "lost", "1") == SimpleString(b"OK"), "one of two brokers to be enough")
        writer.wait_for_more(1)
        rig.cluster.brokers[leader].kill()
        known = {key: len(each.acknowledged) for key, each in writer.written.items()}
        failed = sum(writer.errors.values())
        wait_until(
            lambda: all(_refuses(rig.ports[number], rig.keys) for number in rig.workers),
            "every worker to know that it may own nothing any more",
        )
        read = _reads([*rig.ports, *rig.replica_ports], list(known))
        rig.cluster.start_brokers(lagging)
        wait_until(lambda: "truncated" in _reason(worker), "it to notice", lambda: _reason(worker))
        rig.cluster.start_brokers(leader)
    rig.cluster.wait_for_replicas(rig.topic)

    assert [] == [key for key, length in known.items() if not read.get(key, -1) >= length - MORE]
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


@pytest.mark.timeout(600)
def test_copies_are_equal(rig: Rig, tmp_path: Path) -> None:
    """After all that the copies of a partition have one digest at one position, which is that of a replay."""
    found, replayed = rig.end_and_replay(tmp_path)
    assert replayed == found

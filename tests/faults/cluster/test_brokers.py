"""A broker that is killed, stops, stands still, or is restarted: writes go on, and each counts once."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Final

import pytest

from tests.faults.rig import LARGE, Rig

_PAUSED_SECONDS: Final = 60 if LARGE else 5
_ROUNDS: Final = 5 if LARGE else 1
_DEPTH: Final = 20 if LARGE else 1


@pytest.mark.timeout(300)
def test_the_leader_is_killed(rig: Rig) -> None:
    """SIGKILL of the broker that leads a partition: another one leads, and writes go on."""
    leader = rig.cluster.leaders(rig.topic)[0]
    with rig.writing("killed") as writer:
        rig.cluster.brokers[leader].kill()
        writer.wait_for_more(1)
        assert leader != rig.cluster.leaders(rig.topic)[0]
        rig.cluster.start_brokers(leader)
    rig.cluster.wait_for_replicas(rig.topic)
    rig.compare()


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
    rig.compare()


@pytest.mark.timeout(1800 if LARGE else 300)
def test_brokers_are_rolled(rig: Rig) -> None:
    """Each is stopped in order and started again: another one coordinates the group meanwhile, and nothing moves."""
    before, coordinators = rig.owners(), set()
    with rig.writing("rolled", depth=_DEPTH) as writer, rig.writing("rolled too") as other:
        for _ in range(_ROUNDS):
            for node, broker in rig.cluster.brokers.items():
                broker.stop()
                writer.wait_for_more(1)
                other.wait_for_more(1)
                coordinators.add(rig.cluster.coordinator(rig.group))
                rig.cluster.start_brokers(node)
                rig.cluster.wait_for_replicas(rig.topic)
    assert 1 < len(coordinators)
    assert before == rig.owners()
    rig.compare()

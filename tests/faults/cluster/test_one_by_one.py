"""Faults one by one, for a night: a coordinator that stops, and a link in each of its states.

`make test` has them together with others, in `test_brokers.py` and `test_links.py`.
"""

from __future__ import annotations

from time import sleep
from typing import Final

import pytest

from tests.faults.rig import LARGE, Rig
from tests.ops.verbs import wait_until

_HALF_OPEN_SECONDS: Final = 30 if LARGE else 3
_DELAY_SECONDS: Final = 0.05
_CUTS: Final = 20 if LARGE else 3


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
    rig.compare()


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
    rig.compare()


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
    rig.compare()


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
    rig.compare()

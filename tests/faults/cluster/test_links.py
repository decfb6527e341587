"""Links that fail at once: one to a broker, one between brokers, one to a worker; each write counts once."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import Final

import pytest

from tests.faults.rig import LARGE, SESSION_SECONDS, Rig
from tests.real.cluster import KafkaCluster
from tests.real.link import Link

_SEED: Final = int(os.environ.get("LINKS_SEED", "1"))
_ROUNDS: Final = 15 if LARGE else 1
_CUTS_MAX: Final = 10
_DELAY_SECONDS_MAX: Final = 0.5
_STATES: Final = ("slow", "cut", "half-open")


@pytest.mark.timeout(1800 if LARGE else 300)
def test_three_links_at_random(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Each of three kinds is slow, cut in frames, or half-open, another way at a time; which link it is, is drawn."""
    choose = random.Random(_SEED)
    with ExitStack() as stack:
        rig = Rig(cluster, tmp_path / "rig", 3, stack, linked=True)
        kinds: list[Mapping[int, Link]] = [cluster.links, cluster.inner, dict(enumerate(rig.links))]
        with rig.writing("links") as writer:
            for turn in range(_ROUNDS * len(_STATES)):
                chosen = [links[choose.choice(sorted(links))] for links in kinds]
                for number, link in enumerate(chosen):
                    _break(link, _STATES[(turn + number) % len(_STATES)], choose)
                sleep(choose.uniform(0.2, 2 * SESSION_SECONDS))
                for link in chosen:
                    link.mend()
                writer.wait_for_more(1)
        rig.compare()
        found, replayed = rig.end_and_replay(tmp_path)
    assert replayed == found


def _break(link: Link, state: str, choose: random.Random) -> None:
    match state:
        case "slow":
            link.delay_seconds = choose.uniform(0.01, _DELAY_SECONDS_MAX)
        case "cut":
            for to_client in (False, True):
                link.cut_in_frame(choose.randint(1, _CUTS_MAX), to_client=to_client)
        case _:
            link.half_open()

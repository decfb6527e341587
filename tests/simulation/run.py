"""A seed, from its start to the verdict."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import stamina

from engine import native
from engine.batch import staging
from engine.cleaning import reclaim
from engine.scripts import runtime
from tests.differential.forms import lowered
from tests.engine.native.twins import running
from tests.simulation.checks import check, check_between_lives, met_of, total
from tests.simulation.plants import planted
from tests.simulation.simulation import Simulation
from tests.simulation.timeline import SimulatedLoop, simulated_clocks

STEPS = 150

SECONDS_MAX = 700
"""Of simulated time: no seed that holds has taken more than a tenth of it."""

STAGED_BYTES = (0, 500, 4 * 1024 * 1024)
"""What may be pending of a collection that a store or copy makes: each record is staged by itself, a few, or none."""

POINTS_MAX = (0, 3, 1000)
"""From how many records on a dead collection is deleted by ranges: always, sometimes, never."""


INSTRUCTIONS_MAX = 20_000
"""Of a script: so that one which never ends takes no time."""


class Verdict(NamedTuple):
    """What one seed came to.

    Attributes:
        failures: what did not hold; empty when everything did.
        lives: how many processes have lived.
        met: how often each fault has happened, and how many events were what.
        digest: of the whole topic; empty after a failure.
    """

    seed: int
    failures: tuple[str, ...]
    lives: int
    records: int
    met: Counter[str]
    digest: str


def run_seed(seed: int, steps: int = STEPS, plant: str = "") -> Verdict:
    """The whole run of `seed`: the same each time.

    Args:
        seed: any integer.
        steps: how many events are sent.
        plant: one of `tests.simulation.plants.PLANTS`, a bug that must be found.
    """
    random = Random(seed)
    loop = SimulatedLoop()
    # In its test mode stamina waits for nothing and draws nothing, so that retries follow from the seed as well.
    with (
        asyncio.Runner(loop_factory=lambda: loop) as runner,
        simulated_clocks(loop, random),
        stamina.set_testing(testing=True, attempts=3),
        random.choice((nullcontext, lowered))(),
        patch.object(staging, "STAGED_BYTES", random.choice(STAGED_BYTES)),
        patch.object(reclaim, "POINTS_MAX", random.choice(POINTS_MAX)),
        patch.object(runtime, "INSTRUCTIONS_MAX", INSTRUCTIONS_MAX),
        patch.object(asyncio, "to_thread", _at_once),
        running(natively=native.chosen() is not None and not plant),  # a bug is planted in Python
        planted(plant),
    ):
        simulation = Simulation(random, steps)
        runner.run(_run(simulation, random))
        return Verdict(
            seed,
            tuple(simulation.world.failures),
            simulation.world.life,
            sum(map(len, simulation.data.records)),
            met_of(simulation),
            "" if simulation.world.failures else str(total(simulation)),
        )


async def _at_once(function: Callable[..., Any], *args: object) -> Any:
    """What would be done in a thread, done in its place: a thread knows nothing of the simulated time."""
    return function(*args)


async def _run(simulation: Simulation, random: Random) -> None:
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await simulation.run(lambda: check_between_lives(simulation))
    except TimeoutError:
        simulation.world.fail(f"it has not come to its end in {SECONDS_MAX} simulated seconds")
    simulation.world.calm = True
    if not simulation.world.failures:
        await check(simulation, random)

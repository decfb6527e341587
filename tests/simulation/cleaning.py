"""Cleans the simulated partitions at random moments, in slices of any size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from engine.apply.machine import Machine
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.errors import StoreBusyError, StoreFullError
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.cleaning.cleaner import SetAside
from ingest.reporting.observer import Condition
from tests.simulation.world import InjectedError, KilledError, World

PAUSES: Final = {"seldom": (0.3, 2.0), "often": (0.0, 0.0, 0.0, 0.01, 0.05)}
"""How long a run's cleaning waits between two slices, in simulated seconds."""


class _Job(NamedTuple):
    """The cleaning of one partition as long as its store is open."""

    machine: Machine
    sweeper: Sweeper
    reclaimer: Reclaimer


class Janitor:
    """Cleans what one process owns.

    Args:
        partitions: its partitions.
        set_aside: called when a store has failed.
        tick: moves the clocks of partitions to which nobody writes.
    """

    def __init__(
        self,
        world: World,
        partitions: Mapping[int, OwnedPartition],
        set_aside: SetAside,
        tick: Callable[[], Awaitable[None]],
    ) -> None:
        self._world = world
        self._partitions = partitions
        self._set_aside = set_aside
        self._tick = tick
        self._jobs: dict[int, _Job] = {}

    async def run(self, pauses: tuple[float, ...]) -> None:
        """Clean until cancelled.

        Raises:
            KilledError: the process has died of it.
        """
        random = self._world.random
        while True:
            await asyncio.sleep(random.choice(pauses))
            if random.randrange(5) == 0:
                await self._tick()
            for partition in random.sample(sorted(self._partitions), len(self._partitions)):
                self._clean_if_possible(partition)

    def _clean_if_possible(self, partition: int) -> None:
        met = self._world.met
        kills = met["kill"]
        try:
            self._clean(partition)
        except KilledError:
            met["killed while cleaning"] += met["kill"] - kills  # else it was dead before
            raise
        except StoreBusyError:
            met["cleaning refused"] += 1
        except StoreFullError as error:
            self._set_aside(partition, str(error), is_full=True)
        except InjectedError as error:
            met["cleaning failed"] += 1
            self._set_aside(partition, str(error))

    def _job(self, partition: int) -> _Job | None:
        """The cleaning of a partition that can be cleaned now."""
        owned = self._partitions[partition]
        if owned.worker.gate.is_held:
            return None
        may_write = owned.condition is Condition.RUNNING or owned.waits_for_room
        if not may_write or not owned.worker.is_open or not owned.worker.machine.is_settled:
            return None
        machine, store = owned.worker.machine, owned.worker.store
        job = self._jobs.get(partition)
        if job is None or job.machine is not machine:
            job = self._jobs[partition] = _Job(machine, Sweeper(machine, store), Reclaimer(machine, store))
        return job

    def _clean(self, partition: int) -> None:
        job = self._job(partition)
        if job is None:
            return
        random, met = self._world.random, self._world.met
        kind = random.randrange(5)
        if kind == 0:
            forgotten = job.sweeper.forget()
            met["forgotten"] += forgotten.dedup_buckets
        elif kind < 3:
            swept = job.sweeper.expire(random.choice((1, 2, 5, 1000)))
            met["expired"] += len(swept.keys)
            met["fields expired"] += len(swept.fields)
        else:
            reclaimed = job.reclaimer.reclaim(random.choice((1, 20, 200, 100_000)))
            met["reclaimed"] += reclaimed.graves
            met["range reclaimed"] += reclaimed.ranges

"""Commands that are suspended in the middle, where the seed says, and clients that read beside them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from engine.commands.registry import SPECS
from engine.errors import CommandError
from engine.values.replies import Reply
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.applying.slicing.fiber import AbandonedError, Fiber
from ingest.applying.slicing.slices import Slices
from tests.simulation.world import World

AWAY_SECONDS: Final = (0.0, 0.0, 0.01, 0.3)
"""How long a suspended command waits for its next slice, in simulated seconds: others have their turn meanwhile."""

_KEYS_READ: Final = 3


class RandomSlices(Slices):
    """Those of one process: they end where the seed says, and not by a timer."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def opportunity(self) -> None:
        """Whoever reads or writes a store may be suspended here."""
        if self._world.rates.suspend and self.fiber is not None:
            while self._world.roll("suspended", self._world.rates.suspend) and self.pause(sys._getframe(1)):
                pass

    def later(self, fiber: Fiber) -> asyncio.Handle:
        """Go on with it some time."""
        seconds = self._world.random.choice(AWAY_SECONDS)
        return asyncio.get_running_loop().call_later(seconds, self.go_on, fiber)


class Reader:
    """A client: it reads the same twice without a pause, which must give the same, and goes on while its process lives.

    A process that is dead has left its machine in the middle of a commit, and nobody reads there.
    """

    def __init__(self, world: World, partitions: Mapping[int, OwnedPartition]) -> None:
        self._world = world
        self._partitions = partitions
        self._life = world.life

    async def run(self) -> None:
        """Read until cancelled, or dead."""
        random = self._world.random
        while True:
            await asyncio.sleep(random.choice((0.0, 0.05, 1.0)))
            owned = self._partitions[random.choice(sorted(self._partitions))]
            if self._world.life != self._life:
                return
            if owned.worker.is_open:
                with suppress(AbandonedError, CommandError):
                    await owned.worker.gate.call(partial(self._read_twice, owned))

    def _read_twice(self, owned: OwnedPartition) -> None:
        self._world.met["read"] += 1
        first, second = [(owned.worker.machine.next_offset, self._read(owned)) for _ in range(2)]
        if first != second:
            self._world.fail(f"a client read {first[1]!r} at {first[0]}, and then {second[1]!r} at {second[0]}")

    def _read(self, owned: OwnedPartition) -> Reply:
        """The names of all keys, and some values. A read that fails stops the partition."""
        names = owned.evaluate(SPECS[b"KEYS"], [b"*"], 0)
        assert isinstance(names, list)
        return [names, *(owned.evaluate(SPECS[b"DUMP"], [name], 0) for name in sorted(names)[:_KEYS_READ])]

"""Runs pairs of passes and prints their results.

Machines are shared and noisy. So the engine and what it is compared with are run in turn, A B A B, each pair gives a
ratio, and the median of the ratios is quoted. CPU time, which waits for nobody, gives a second ratio of the same kind.
"""

from __future__ import annotations

import gc
import json
import os
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple


class Seconds(NamedTuple):
    """How long a pass took, and how much CPU time this process spent meanwhile (RocksDB's own threads included)."""

    wall: float
    cpu: float


class Stopwatch:
    """Runs from its making on."""

    def __init__(self) -> None:
        self._wall = perf_counter()
        self._cpu = process_time()

    def read(self) -> Seconds:
        """What has passed so far."""
        return Seconds(perf_counter() - self._wall, process_time() - self._cpu)


def settle_heap() -> None:
    """Make the heap as a service has it: without the benchmark's own objects.

    Those, up to a million records, are frozen, or every full collection of a pass would go through them.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@dataclass(frozen=True, slots=True)
class Result:
    """One line of output.

    Attributes:
        name: the workload and where its events came from.
        events: how many there were in each pass.
        pairs: (engine, floor), in their turns.
        extra: more fields of the line.
    """

    name: str
    events: int
    pairs: list[tuple[Seconds, Seconds]]
    extra: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """The result as JSON: rates are events per second, those of the median pass; ratios are ours by the floor's.

        The load is the machine's when the pairs have ended, so that the benchmark's own is part of it.
        """
        ratios = [floor.wall / engine.wall for engine, floor in self.pairs]
        return json.dumps(
            {
                "name": self.name,
                "per_second": self._rate([engine.wall for engine, _ in self.pairs]),
                "floor_per_second": self._rate([floor.wall for _, floor in self.pairs]),
                "ratio": round(median(ratios), 3),
                "cpu_ratio": round(median(floor.cpu / engine.cpu for engine, floor in self.pairs), 3),
                "events": self.events,
                "ratios": [round(ratio, 3) for ratio in ratios],
                "load": round(os.getloadavg()[0], 1),
                **self.extra,
            }
        )

    def _rate(self, seconds: list[float]) -> int:
        return round(self.events / median(seconds))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output that stands beside nothing: figures by name."""

    name: str
    figures: dict[str, Any]

    def line(self) -> str:
        """The result as JSON, with the machine's load at its end."""
        return json.dumps({"name": self.name, **self.figures, "load": round(os.getloadavg()[0], 1)})

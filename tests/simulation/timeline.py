"""Time that passes only when everybody waits: an event loop on a simulated clock, and the product's clocks on it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from structlog.testing import capture_logs

START_MS = 1_700_000_000_000


class _InstantSelector(selectors.SelectSelector):
    """No file is ever ready; waiting for one is what moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        """Let `timeout` seconds pass at once."""
        if timeout is None:
            raise RuntimeError("everybody waits for somebody: nothing will ever happen again")
        self.now += max(0.0, timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose sleeps take no time. Its order of steps depends on nothing outside."""

    def __init__(self) -> None:
        self._clock = _InstantSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._clock.now


@contextmanager
def simulated_clocks(loop: SimulatedLoop, random: Random) -> Iterator[None]:
    """Let the consumer, the workers and the cleaner see the loop's time.

    What they do takes a random one: it sizes the next batch.
    """
    work_seconds = 0.0

    def perf_counter() -> float:
        nonlocal work_seconds
        work_seconds += random.choice((0.0, 0.0, 0.001, 0.02))
        return work_seconds

    with (
        patch("ingest.applying.partitions.conditions.monotonic", loop.time),
        patch("ingest.applying.consumer.monotonic", loop.time),
        patch("ingest.applying.watch.monotonic", loop.time),
        patch("ingest.applying.watch.now_ms", lambda: START_MS + int(loop.time() * 1000)),
        patch("ingest.applying.batches.worker.perf_counter", perf_counter),
        patch("ingest.cleaning.cleaner.monotonic", loop.time),
        patch("ingest.cleaning.cleaner.perf_counter", perf_counter),
        patch("ingest.cleaning.compactor.monotonic", loop.time),
        capture_logs(),
    ):
        yield

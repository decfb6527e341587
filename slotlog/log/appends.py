"""Counts a log's appends, and the partitions that take none."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from time import monotonic, perf_counter
from typing import Final, Protocol, TypeVar

from slotlog.distribution import APPEND_SECONDS, Distribution
from slotlog.errors import AppendUncertainError, WallClockMovedError

STUCK_SECONDS: Final = 10.0
"""An append that is under way for so long counts as one that fails: to say so, Kafka takes half a minute."""


class _Placed(Protocol):
    @property
    def partition(self) -> int:
        """Where it goes."""
        ...


Placed = TypeVar("Placed", bound=_Placed)


class Appends:
    """Counts, since the start.

    Attributes:
        seconds: how long appends took to be durable.
        records: how many records these had.
        failed, uncertain: appends of which nothing, or nobody knows what, is in the log.
    """

    __slots__ = ("_failing", "_running", "failed", "records", "seconds", "uncertain")

    def __init__(self) -> None:
        self.seconds = Distribution(APPEND_SECONDS)
        self.records = self.failed = self.uncertain = 0
        self._failing: dict[int, str] = {}
        self._running: dict[float, Iterable[_Placed]] = {}

    async def measured(self, append: Awaitable[list[Placed]], entries: Iterable[_Placed]) -> list[Placed]:
        """The result of `append`, which is that of `entries`, counted."""
        began = perf_counter()
        started = monotonic()
        while started in self._running:  # two in one tick of the clock
            started += 1e-6
        self._running[started] = entries
        try:
            positions = await append
        except Exception as error:
            self.lost(error, entries)
            raise
        finally:
            del self._running[started]
        self.done(positions, perf_counter() - began)
        return positions

    def done(self, positions: Sequence[_Placed], seconds: float) -> None:
        """Count an append that is durable."""
        self.records += len(positions)
        self.seconds.add(seconds)
        if self._failing:
            for position in positions:
                self._failing.pop(position.partition, None)

    def lost(self, error: Exception, entries: Iterable[_Placed]) -> None:
        """Count an append that failed."""
        if isinstance(error, AppendUncertainError):
            self.uncertain += 1
        else:
            self.failed += 1
        # Of the first what was to be appended is to blame; the second ends by itself, and is told of the wall clock.
        if not isinstance(error, ValueError | WallClockMovedError):
            self._failing.update(dict.fromkeys((entry.partition for entry in entries), str(error)))

    def failure_of(self, partition: int) -> str:
        """Why nothing can be appended to a partition: its last append failed, or hangs; empty when that is not known.

        An append that is durable ends it, as long as it is the last.
        """
        now = monotonic()
        for started, entries in self._running.items():
            if now - started <= STUCK_SECONDS:
                break  # the later ones are younger still
            if any(entry.partition == partition for entry in entries):
                return f"an append has not been acknowledged for {now - started:.0f} s"
        return self._failing.get(partition, "")

"""What a log counts of its appends, for whoever shows it."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import TYPE_CHECKING

from ingest.distribution import APPEND_SECONDS, Distribution
from ingest.errors import AppendUncertainError

if TYPE_CHECKING:
    from ingest.log.base import Position


class Appends:
    """Counts, since the start.

    Attributes:
        seconds: how long appends took to be durable.
        records: how many records these had.
        failed, uncertain: appends of which nothing, or nobody knows what, is in the log.
    """

    __slots__ = ("failed", "records", "seconds", "uncertain")

    def __init__(self) -> None:
        self.seconds = Distribution(APPEND_SECONDS)
        self.records = self.failed = self.uncertain = 0

    async def measured(self, append: Awaitable[list[Position]]) -> list[Position]:
        """The result of `append`, counted."""
        began = perf_counter()
        try:
            positions = await append
        except Exception as error:
            self.lost(error)
            raise
        self.done(len(positions), perf_counter() - began)
        return positions

    def done(self, records: int, seconds: float) -> None:
        """Count an append that is durable."""
        self.records += records
        self.seconds.add(seconds)

    def lost(self, error: Exception) -> None:
        """Count an append that failed."""
        if isinstance(error, AppendUncertainError):
            self.uncertain += 1
        else:
            self.failed += 1

"""Quantiles of what a distribution has counted in the last minute."""

from __future__ import annotations

from collections import deque
from typing import Final

from slotlog.distribution import Distribution

_SECONDS: Final = 60.0


class RecentQuantile:
    """A quantile of the values that a distribution has counted in the last minute.

    Args:
        distribution: asked at each `at`, which keeps its counts of then.
        quantile: such as 0.99.
    """

    def __init__(self, distribution: Distribution, quantile: float) -> None:
        self._distribution = distribution
        self._quantile = quantile
        self._before: deque[tuple[float, list[int]]] = deque()

    def at(self, now: float) -> float | None:
        """The upper bound of the bucket that it lies in; None when nothing was counted, infinity beyond all bounds.

        Args:
            now: seconds, on a clock that does not go back.
        """
        counts = list(self._distribution.counts)
        self._before.append((now, counts))
        while len(self._before) > 2 and self._before[1][0] <= now - _SECONDS:
            self._before.popleft()
        of_late = [new - old for new, old in zip(counts, self._before[0][1], strict=True)]
        wanted = self._quantile * sum(of_late)
        reached = 0
        for bound, count in zip((*self._distribution.bounds, float("inf")), of_late, strict=True):
            reached += count
            if count and reached >= wanted:
                return bound
        return None

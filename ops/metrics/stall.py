"""Measures how late the event loop is, by a timer that is due every 50 ms."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import Final

from slotlog.distribution import Distribution

STALL_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_TIMER_SECONDS: Final = 0.05
_SPAN_SECONDS: Final = 10.0
_SPANS: Final = 7  # so that the last minute is always covered


class LoopStalls:
    """Measures the loop that it runs in.

    Attributes:
        seconds: how late the timer was.
    """

    def __init__(self) -> None:
        self.seconds = Distribution(STALL_SECONDS)
        self._spans: deque[tuple[float, float]] = deque(maxlen=_SPANS)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = monotonic() + _TIMER_SECONDS
            await asyncio.sleep(_TIMER_SECONDS)
            self.note(now := monotonic(), now - due)

    def note(self, now: float, late_seconds: float) -> None:
        """The timer fired at `now`, on the monotonic clock, and so late."""
        late = max(0.0, late_seconds)
        self.seconds.add(late)
        if self._spans and now - self._spans[-1][0] < _SPAN_SECONDS:
            began, most = self._spans[-1]
            self._spans[-1] = began, max(most, late)
        else:
            self._spans.append((now, late))

    @property
    def most_seconds(self) -> float:
        """The latest that it fired in the last minute or a little more."""
        return max((most for _, most in self._spans), default=0.0)

"""The only wall clock. It stamps records; what is applied takes its time from the record."""

from __future__ import annotations

import time
from typing import Final

_STEP_BACK_MS_MAX: Final = 10_000


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC, as the machine's clock has it: it may step back."""
    return time.time_ns() // 1_000_000


class ReadClock:
    """The wall clock as reads see it. It stands still while the machine's steps back a little.

    So what a read has shown as expired does not come back to life for the next one. A step of ten seconds or more is
    followed: then the clock was wrong before.
    """

    def __init__(self) -> None:
        self.latest_ms = now_ms()

    def now_ms(self) -> int:
        """Look at the clock."""
        wall_ms = now_ms()
        if not 0 < self.latest_ms - wall_ms < _STEP_BACK_MS_MAX:
            self.latest_ms = wall_ms
        return self.latest_ms


def now_ns() -> int:
    """Nanoseconds since 1970-01-01 UTC, of the same clock."""
    return time.time_ns()


def now_us() -> int:
    """Microseconds since 1970-01-01 UTC, of the same clock."""
    return time.time_ns() // 1_000

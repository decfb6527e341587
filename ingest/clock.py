"""The only wall clock. It stamps records; what is applied takes its time from the record."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC, as the machine's clock has it: it may step back."""
    return time.time_ns() // 1_000_000


def now_ns() -> int:
    """Nanoseconds since 1970-01-01 UTC, of the same clock."""
    return time.time_ns()


def now_us() -> int:
    """Microseconds since 1970-01-01 UTC, of the same clock."""
    return time.time_ns() // 1_000

"""Limits a log line to one a second and counts the rest."""

from __future__ import annotations

from time import monotonic


class RateLimitedLog:
    """Says when the next line may be written, and how many were left out since the last one.

    Args:
        seconds: between two lines.
    """

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._count = 0

    def count(self, number: int = 1) -> int:
        """Note `number` more; returns how many have come since the last line if one may be written now, else 0."""
        self._count += number
        now = monotonic()
        if now < self._next or not self._count:
            return 0
        self._next = now + self._seconds
        count, self._count = self._count, 0
        return count

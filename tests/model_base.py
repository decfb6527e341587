"""The plain model's record of a key, and its refusals of commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.limits import DEDUP_WINDOW_MS


class RejectedError(Exception):
    """The command changes nothing: wrong type, not a number, an overflow."""


@dataclass
class Entry:
    """One key.

    Attributes:
        value: bytes, list, set, or dict (a hash to bytes, a sorted set to float).
        expire_ms: 0 is never.
        times: of a hash, when those of its fields die that do.
    """

    type: int
    value: Any
    expire_ms: int = 0
    times: dict[bytes, int] = field(default_factory=dict)

    def lives(self, now_ms: int) -> bool:
        """Whether the key is there at `now_ms`, which never goes back. Fields that are due go for good."""
        for name in [name for name, expire_ms in self.times.items() if expire_ms <= now_ms]:
            self.remove_field(name)
        return not 0 < self.expire_ms <= now_ms and not (isinstance(self.value, dict) and not self.value)

    def remove_field(self, name: bytes) -> None:
        """Delete one field, if it is there, with its time."""
        self.value.pop(name, None)
        self.times.pop(name, None)


@dataclass
class Moment:
    """When an event with an id was applied.

    Attributes:
        clock_ms: what the clock showed.
        counted_ms: the same, less what the clock was set back by since.
    """

    clock_ms: int
    counted_ms: int

    def is_known(self, now_ms: int) -> bool:
        """Whether the id is: no day has gone by since, or the clock shows again what it showed, give or take a day."""
        return now_ms - self.counted_ms < DEDUP_WINDOW_MS or abs(now_ms - self.clock_ms) < DEDUP_WINDOW_MS

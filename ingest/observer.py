"""What a consumer tells whoever watches it: `ops` makes metrics and log lines of it. Nothing here may be slow."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from engine.applied import Applied


class Condition(StrEnum):
    """How a partition is: the value stands in `/readyz` and in metrics."""

    OPENING = "opening"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"


class Observer(Protocol):
    """Called from the consumer's loop, once a batch or less often; must return at once."""

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """One batch was written: what it did, the size of its records, and how long applying and writing took."""

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """A partition changed its condition; `reason` is empty while it runs."""

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """How many offsets a partition is behind the log, and for how long, in seconds (0 when it is not)."""


class Observers:
    """Tells several, one after the other."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.applied(partition, applied, value_bytes, seconds)

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.condition(partition, condition, reason)

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.lag(partition, events, seconds)


class NullObserver:
    """Watches nothing."""

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Do nothing."""

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Do nothing."""

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """Do nothing."""

"""The protocol through which a consumer reports. Nothing in an observer may be slow."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from engine.apply.records import Applied


class Condition(StrEnum):
    """The condition of a partition. Its value is in `/readyz` and in metrics."""

    OPENING = "opening"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"


class Cleaned(NamedTuple):
    """The counts of one slice of cleaning, and of what it left.

    Attributes:
        keys, fields: expired keys removed, and expired fields; a hash that went with its last fields counts as fields.
        graves: dead collections of which nothing is left.
        elements: of dead collections, by what their graves say.
        ranges: stretches of a column family compacted.
        forgotten: idempotency keys' buckets and other records past their window that went.
        seconds: how long the event loop was held; 0 for a compaction, which runs in a thread.
        expiry_due_ms: since when the first key or field that is left is due, log time; 0: none is; None: not looked.
        grave_ms: when the oldest dead collection that is left died, or before that; 0: none is left; None: as above.
        ranges_waiting: stretches noted for compaction.
    """

    keys: int = 0
    fields: int = 0
    graves: int = 0
    elements: int = 0
    ranges: int = 0
    forgotten: int = 0
    seconds: float = 0.0
    expiry_due_ms: int | None = None
    grave_ms: int | None = None
    ranges_waiting: int = 0


class Observer(Protocol):
    """Called from the consumer's loop, once a batch or less often; must return at once."""

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """One batch was written: what it did, the size of its records, and how long applying and writing took."""

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """A partition changed its condition; `reason` is empty while it runs."""

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """How many offsets a partition is behind the log, and for how long, in seconds (0 when it is not)."""

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """One slice of cleaning is committed."""


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

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.cleaned(partition, cleaned)


class NullObserver:
    """Watches nothing."""

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Do nothing."""

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Do nothing."""

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """Do nothing."""

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """Do nothing."""
